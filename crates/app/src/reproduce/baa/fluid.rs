//! The fluid model: the talk's figures as rates of flow, without requests or time.

use evenkeel_core::share::{self, Allocation, BottleneckAware, Objective, Problem, SideOptions};

use super::super::claim::{Claim, Verdict};
use super::reference::{Discipline, Exact, Misprint, Reference, Row, problem};

/// How far, relatively, a figure may be from the one worked out by hand.
const EXACT: f64 = 1e-9;

/// How far rates may be from printed ones: those are rounded to whole requests per second.
const RATE_ROUNDING_IOPS: f64 = 0.5;

/// The rule as published, without a choice at the balance point.
pub(super) const PUBLISHED: share::Discipline =
    share::Discipline::BottleneckAware(BottleneckAware {
        objective: Objective::Throughput,
        sides: SideOptions { band: 0.0, hysteresis: 0.0 },
    });

/// A claim for each row of the data file.
pub(super) fn claims(reference: &Reference) -> Vec<Claim> {
    let rows = reference.row.iter().map(|row| Computed::new(row).claim(reference));
    rows.chain(reference.misprint.iter().map(|row| misprint(row, reference))).collect()
}

/// The allocator of a discipline; none for fair shares, which are no allocation.
fn allocator(discipline: Discipline) -> Option<share::Discipline> {
    match discipline {
        Discipline::FairQueuing => Some(share::Discipline::FairQueuing),
        Discipline::Drf => Some(share::Discipline::Drf),
        Discipline::Baa => Some(PUBLISHED),
        Discipline::FairShares => None,
    }
}

fn solve(problem: &Problem, discipline: share::Discipline) -> Allocation {
    share::solve(problem, discipline, &[])
}

/// What our allocators say to one row.
struct Computed<'a> {
    row: &'a Row,
    rates: Vec<f64>,
    utilisation: Vec<f64>,
    levels: Vec<f64>,
    dominant_share: f64,
}

impl<'a> Computed<'a> {
    fn new(row: &'a Row) -> Self {
        let problem = problem(row.capacities, &row.hit_ratios);
        let (rates, levels) = match allocator(row.discipline) {
            None => {
                ((0..row.rates.len()).map(|one| problem.fair_share_iops(one)).collect(), vec![])
            }
            Some(discipline) if row.solved_for.is_empty() => {
                let allocation = solve(&problem, discipline);
                (allocation.rates_iops, allocation.levels.into_iter().flatten().collect())
            }
            Some(discipline) => (stale(row, &problem, discipline), vec![]),
        };
        let dominant = |client: usize| {
            let device = problem.bottleneck(client);
            let demand = problem.clients()[client].demand.on(device);
            rates[client] * demand / problem.capacity(device)
        };
        let dominant_share = dominant(0);
        Self { row, utilisation: problem.utilisation(&rates), levels, rates, dominant_share }
    }

    /// The row of a slide and discipline.
    fn of(reference: &'a Reference, slide: &str, discipline: Discipline) -> Self {
        let is_it = |row: &&Row| row.slide == slide && row.discipline == discipline;
        Self::new(reference.row.iter().find(is_it).expect("the data file has the row"))
    }

    /// The greatest relative distance from the figures worked out by hand.
    fn error(&self) -> f64 {
        let row = self.row;
        let mut pairs: Vec<(f64, f64)> = Vec::new();
        let mut add = |computed: &[f64], exact: &[Exact]| {
            pairs.extend(computed.iter().zip(exact).map(|(computed, exact)| (*computed, exact.0)));
        };
        add(&self.rates, &row.rates);
        add(&self.utilisation, &row.utilisation);
        if let Some(levels) = &row.levels {
            assert_eq!(self.levels.len(), levels.len(), "rows with levels have both sets");
            add(&self.levels, levels);
        }
        if let Some(share) = row.dominant_share {
            add(&[self.dominant_share], &[share]);
        }
        pairs.into_iter().map(|(computed, exact)| apart(computed, exact)).fold(0.0, f64::max)
    }

    /// Whether all that the slide prints comes out, within its precision.
    fn is_as_printed(&self, tolerance: f64) -> bool {
        let printed = &self.row.printed;
        let near = |computed: &[f64], printed: &[f64], tolerance: f64| {
            computed.iter().zip(printed).all(|(one, other)| (one - other).abs() <= tolerance)
        };
        near(&self.rates, &printed.rates, RATE_ROUNDING_IOPS)
            && near(&self.utilisation, &printed.utilisation, tolerance)
            && printed
                .dominant_share
                .is_none_or(|share| near(&[self.dominant_share], &[share], tolerance))
    }

    fn claim(&self, reference: &Reference) -> Claim {
        let (row, error) = (self.row, self.error());
        let name = row.discipline.name();
        let stale = if row.solved_for.is_empty() { "" } else { ", weights of before" };
        let tolerance = reference.slide_tolerance;
        let verdict = Verdict::of(error <= EXACT && self.is_as_printed(tolerance));
        let print = &row.printed;
        Claim {
            id: format!("fluid-{}-{name}", row.slide).replace([' ', ','], "-").replace("--", "-"),
            what: format!(
                "slide {}, {name}{stale}: h = {}",
                row.slide,
                hit_ratios(&row.hit_ratios)
            ),
            paper: figures(&print.rates, &print.utilisation, print.dominant_share),
            measured: figures(
                &self.rates,
                &self.utilisation,
                row.dominant_share.map(|_| self.dominant_share),
            ),
            value: self.utilisation[1],
            tolerance: format!(
                "exact to {EXACT:.0e}, {:.0} points of the print",
                tolerance * 100.0
            ),
            attainable: None,
            verdict,
            why: (verdict == Verdict::Fails).then(|| {
                format!("the greatest relative distance from the exact figures is {error:.1e}")
            }),
        }
    }
}

/// Rates in the ratio that was right for other hit ratios, raised until a device is full.
fn stale(row: &Row, problem: &Problem, discipline: share::Discipline) -> Vec<f64> {
    let before = self::problem(row.capacities, &row.solved_for);
    let weights = solve(&before, discipline).rates_iops;
    let busiest = problem.utilisation(&weights).into_iter().fold(0.0, f64::max);
    weights.iter().map(|weight| weight / busiest).collect()
}

/// The hit ratios as printed beside those that must be meant: what each says of the fast device.
fn misprint(row: &Misprint, reference: &Reference) -> Claim {
    let problem = problem(row.capacities, &row.hit_ratios);
    let fast = |discipline| problem.utilisation(&solve(&problem, discipline).rates_iops)[1];
    let (drf, baa) = (fast(share::Discipline::Drf), fast(PUBLISHED));
    // Whoever has most hits brings the fast device most per request of the slow one.
    let most_hits = row.hit_ratios.iter().map(|one| one.0).fold(0.0, f64::max);
    let bound = row.capacities[0] / (1.0 - most_hits) * most_hits / row.capacities[1];
    let meant = Computed::of(reference, &row.slide, Discipline::Baa).utilisation[1];
    let is_off = |figure: f64| (figure - row.printed).abs() > reference.slide_tolerance;
    let is_exact = [drf, baa].iter().all(|one| apart(*one, row.utilisation.0) <= EXACT);
    let shown = |part: f64| format!("{:.1} %", part * 100.0);
    Claim {
        id: format!("misprint-{}", row.slide),
        what: format!("slide {}, h = {} as printed", row.slide, hit_ratios(&row.hit_ratios)),
        paper: format!("fast {}", shown(row.printed)),
        measured: format!("fast {} by DRF and BAA", shown(baa)),
        value: baa,
        tolerance: "cannot give the print".to_owned(),
        attainable: Some(format!("fast {}", shown(bound))),
        verdict: Verdict::of(is_exact && is_off(bound) && !is_off(meant)),
        why: Some(format!(
            "the slide prints 0.95 where 0.99 is meant: at 0.95 every twentieth request goes to a \
             device of {:.0} IOPS, so the fast one never serves more than {} of its {:.0}; at 0.99 \
             it is {} by BAA, and all that the slide prints comes out",
            row.capacities[0],
            shown(bound),
            row.capacities[1],
            shown(meant),
        )),
    }
}

fn apart(one: f64, other: f64) -> f64 {
    let greatest = one.abs().max(other.abs());
    if greatest > 0.0 { (one - other).abs() / greatest } else { 0.0 }
}

fn hit_ratios(ratios: &[Exact]) -> String {
    let ratios: Vec<String> = ratios.iter().map(|ratio| short(ratio.0, 3)).collect();
    ratios.join(", ")
}

/// At most so many decimals, above zero, and none that say nothing.
fn short(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rates, utilisations and dominant share as a cell; what is empty is left out.
fn figures(rates: &[f64], utilisation: &[f64], dominant_share: Option<f64>) -> String {
    let list = |values: &[f64], scale: f64| {
        let values: Vec<String> = values.iter().map(|value| short(value * scale, 1)).collect();
        values.join(" ")
    };
    let mut parts = Vec::new();
    if !rates.is_empty() {
        parts.push(format!("{} IOPS", list(rates, 1.0)));
    }
    if let Some(share) = dominant_share {
        parts.push(format!("share {} %", list(&[share], 100.0)));
    }
    if !utilisation.is_empty() {
        parts.push(format!("busy {} %", list(utilisation, 100.0)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_the_talk_comes_out() {
        let claims = claims(&Reference::load());
        assert_eq!(claims.len(), 24);
        for claim in claims {
            assert_eq!(claim.verdict, Verdict::Holds, "{claim:?}");
        }
    }

    #[test]
    fn a_figure_that_is_a_billionth_off_is_found() {
        let reference = Reference::load();
        let mut row = reference.row[2].clone();
        row.rates[0].0 *= 1.0 + 3e-9;
        assert_eq!(Computed::new(&row).claim(&reference).verdict, Verdict::Fails);
        let mut row = reference.row[2].clone();
        row.printed.utilisation[1] -= 0.031;
        assert_eq!(Computed::new(&row).claim(&reference).verdict, Verdict::Fails);
    }
}
