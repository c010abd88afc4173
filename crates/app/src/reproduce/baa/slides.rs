//! The slides that show experiments, in virtual time: utilisation by discipline (26, 27), a change
//! of hit ratio (28), and what everybody gets of what (31, 32).

use evenkeel_core::share::Problem;
use evenkeel_core::time::Span;

use super::super::claim::{Claim, Verdict};
use super::random::{gain, shortage};
use super::reference::{Discipline, Reference, Row, problem};
use super::setup::Order;
use super::simulated::{Experiment, Load, Outcome};
use crate::plot::{Bars, Chart, Figure, Line};

/// Least part of the slow tier that is busy in every experiment of slides 26 and 27.
const SLOW_BUSY_MIN: f64 = 0.97;
/// How soon after a change the fast tier must be as busy as the fluid model says.
const RECOVERY: Span = Span::from_secs(10);
/// Of the experiment at most; the change is in its middle.
const CHANGE_LENGTH: Span = Span::from_secs(240);
/// For how long it is looked at then: long enough for the luck of the draw to even out.
const AFTERWARDS_SECONDS: usize = 20;

/// How long experiments take, in virtual time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) warm_up: Span,
    pub(super) length: Span,
    /// Part by which measured rates may miss what the fluid model keeps exactly.
    pub(super) slack: f64,
    pub(super) seed: u64,
}

impl Scale {
    fn experiment(&self, capacities: [f64; 2], order: Order, tenants: Vec<Load>) -> Experiment {
        let Self { warm_up, length, seed, .. } = *self;
        Experiment { capacities, order, tenants, warm_up, length, seed }
    }
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) claims: Vec<Claim>,
    pub(super) figures: Vec<Figure>,
}

/// The tenants of a row.
fn tenants(row: &Row) -> Vec<Load> {
    row.hit_ratios.iter().map(|hit_ratio| Load::steady(hit_ratio.0)).collect()
}

/// The row of a slide and discipline.
pub(super) fn row<'a>(reference: &'a Reference, slide: &str, discipline: Discipline) -> &'a Row {
    let is_it = |row: &&Row| row.slide == slide && row.discipline == discipline;
    reference.row.iter().find(is_it).expect("the data file has the row")
}

/// Slides 26 and 27: how busy each discipline keeps the fast tier.
pub(super) fn utilisation(reference: &Reference, scale: &Scale) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    let names = ["slide", "fluid model", "simulated"];
    for slide in ["26", "27"] {
        let mut groups = Vec::new();
        let mut series = names.map(Bars::empty);
        let disciplines = [Discipline::FairQueuing, Discipline::Drf, Discipline::Baa];
        for (discipline, order) in
            disciplines.into_iter().zip([Order::Fair, Order::Drf, Order::Baa])
        {
            let row = row(reference, slide, discipline);
            let outcome = scale.experiment(row.capacities, order, tenants(row)).run()?;
            findings.claims.push(busy_claim(row, order, &outcome, reference.slide_tolerance));
            if order != Order::Fair {
                let problem = problem(row.capacities, &row.hit_ratios);
                findings.claims.push(promises_claim((slide, order), &problem, &outcome, scale));
            }
            groups.push(order.name().to_owned());
            let values = [row.printed.utilisation[1], row.utilisation[1].0, outcome.busy[1]];
            for (bars, value) in series.iter_mut().zip(values) {
                bars.values.push(Some(value * 100.0));
            }
        }
        let baa = row(reference, slide, Discipline::Baa);
        let each = scale.experiment(baa.capacities, Order::PerDevice, tenants(baa)).run()?;
        findings.claims.push(shown_claim(slide, &each));
        groups.push(Order::PerDevice.name().to_owned());
        for (bars, value) in series.iter_mut().zip([None, None, Some(each.busy[1])]) {
            bars.values.push(value.map(|part| part * 100.0));
        }
        let title = format!("Slide {slide}: utilisation of the fast device");
        let chart = Chart::bars(title, "busy (%)", groups, series.into());
        findings.figures.push(Figure::new(format!("baa-slide-{slide}"), chart));
    }
    Ok(findings)
}

/// Utilisations and rates as a cell.
pub(super) fn measured(outcome: &Outcome) -> String {
    let [slow, fast] = outcome.busy.map(|part| part * 100.0);
    let rates: Vec<String> = outcome.rates.iter().map(|rate| format!("{rate:.1}")).collect();
    format!("busy {slow:.1} {fast:.1} %, {} IOPS", rates.join(" "))
}

fn busy_claim(row: &Row, order: Order, outcome: &Outcome, tolerance: f64) -> Claim {
    let [slow, fast] = outcome.busy;
    let (fluid, printed) = (row.utilisation[1].0, row.printed.utilisation[1]);
    Claim {
        id: format!("simulated-{}-{}", row.slide, order.name().replace(' ', "-")),
        what: format!("slide {}, {}, simulated", row.slide, order.name()),
        paper: format!("busy 100 {:.0} %", printed * 100.0),
        measured: measured(outcome),
        value: fast,
        tolerance: format!(
            "slow >= {:.0} %, fast {:.1} to {:.0} points",
            SLOW_BUSY_MIN * 100.0,
            fluid * 100.0,
            tolerance * 100.0
        ),
        attainable: None,
        verdict: Verdict::of(slow >= SLOW_BUSY_MIN && (fast - fluid).abs() <= tolerance),
        why: None,
    }
}

/// Fair shares and freedom from envy, in what was measured.
fn promises_claim(
    (slide, order): (&str, Order),
    problem: &Problem,
    outcome: &Outcome,
    scale: &Scale,
) -> Claim {
    let short = shortage(problem, &outcome.rates);
    let envy = gain(problem, &outcome.rates);
    Claim {
        id: format!("promises-{slide}-{}", order.name()),
        what: format!("slide {slide}, {}, simulated: nobody short, nobody envies", order.name()),
        paper: String::new(),
        measured: format!(
            "{:.2} of the fair share at least, {:.2} of the own rate by another's bundle at most",
            1.0 - short,
            1.0 + envy
        ),
        value: short.max(envy),
        tolerance: format!("to {:.0} %", scale.slack * 100.0),
        attainable: None,
        verdict: Verdict::of(short <= scale.slack && envy <= scale.slack),
        why: None,
    }
}

fn shown_claim(slide: &str, outcome: &Outcome) -> Claim {
    let what = format!("slide {slide}, {}, simulated", Order::PerDevice.name());
    Claim {
        measured: measured(outcome),
        value: outcome.busy[1],
        ..Claim::shown(format!("simulated-{slide}-per-device"), what)
    }
}

/// Slide 28: a hit ratio changes, and the weights follow.
pub(super) fn change(reference: &Reference, scale: &Scale) -> anyhow::Result<Findings> {
    let scale = Scale { length: scale.length.min(CHANGE_LENGTH), ..*scale };
    let before = row(reference, "28, before", Discipline::Baa);
    let after = row(reference, "28, after", Discipline::Baa);
    let unadapted = row(reference, "28, at the change", Discipline::Baa);
    let mut loads = tenants(before);
    let half = Span(scale.length.0 / 2);
    let at = scale.warm_up + half;
    for (load, hit_ratio) in loads.iter_mut().zip(&after.hit_ratios) {
        let is_changed = (load.hit_ratio - hit_ratio.0).abs() > 0.0;
        load.change = is_changed.then_some((at, hit_ratio.0));
    }
    let outcome = scale.experiment(before.capacities, Order::Baa, loads).run()?;
    let second = usize::try_from(half.0 / 1_000_000_000).expect("minutes");
    let recovery = usize::try_from(RECOVERY.0 / 1_000_000_000).expect("seconds");
    let fast: Vec<f64> = outcome.busy_series.iter().map(|busy| busy[1]).collect();
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let level = mean(&fast[..second]);
    let dip = fast[second..second + recovery].iter().copied().fold(f64::INFINITY, f64::min);
    let recovered = mean(&fast[second + recovery..][..AFTERWARDS_SECONDS]);
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let expected = [before.utilisation[1].0, after.utilisation[1].0];
    let tolerance = reference.slide_tolerance;
    let is_near = |one: f64, other: f64| (one - other).abs() <= tolerance;
    let claim = Claim {
        id: "simulated-28".to_owned(),
        what: "slide 28, BAA, simulated: fast device before, and 10 to 30 s after the change"
            .to_owned(),
        paper: "a graph".to_owned(),
        measured: format!("{}, lowest {}, {}", percent(level), percent(dip), percent(recovered)),
        value: recovered,
        tolerance: format!(
            "{} and {} to {:.0} points",
            percent(expected[0]),
            percent(expected[1]),
            tolerance * 100.0
        ),
        attainable: None,
        verdict: Verdict::of(is_near(level, expected[0]) && is_near(recovered, expected[1])),
        why: Some(format!(
            "with the weights of before it would stay at {}",
            percent(unadapted.utilisation[1].0)
        )),
    };
    Ok(Findings { claims: vec![claim], figures: vec![over_time(&outcome, second, expected)] })
}

/// Both devices over time, and what the fluid model says of the fast one.
fn over_time(outcome: &Outcome, second: usize, expected: [f64; 2]) -> Figure {
    let line = |name: &str, tier: usize| Line {
        name: name.to_owned(),
        points: (0..)
            .zip(&outcome.busy_series)
            .map(|(at, busy): (u32, _)| (f64::from(at), busy[tier] * 100.0))
            .collect(),
        is_dashed: false,
        colour: tier,
    };
    let (change, end) = (second as f64, outcome.busy_series.len() as f64);
    let levels = expected.map(|part| part * 100.0);
    let fluid = Line {
        name: String::new(),
        points: vec![(0.0, levels[0]), (change, levels[0]), (change, levels[1]), (end, levels[1])],
        is_dashed: true,
        colour: 1,
    };
    let lines = vec![line("slow device", 0), line("fast device", 1), fluid];
    let chart = Chart::over_time("Slide 28: a hit ratio falls from 0.45 to 0.2", "busy (%)", lines);
    Figure::new("baa-slide-28", chart.noting("dashed: the fluid model"))
}

/// Slides 31 and 32: four clients, two bound by either device.
pub(super) fn four_clients(reference: &Reference, scale: &Scale) -> anyhow::Result<Findings> {
    let row = row(reference, "31", Discipline::Baa);
    let outcome = scale.experiment(row.capacities, Order::Baa, tenants(row)).run()?;
    let problem = problem(row.capacities, &row.hit_ratios);
    let mut claims = Vec::new();
    for (device, name) in problem.devices().zip(["slow", "fast"]) {
        let clients = (0..row.rates.len()).filter(|&client| problem.bottleneck(client) == device);
        let on_device =
            |client: usize| outcome.rates[client] * problem.clients()[client].demand.on(device);
        let held: Vec<f64> = clients.map(on_device).collect();
        let most = held.iter().copied().fold(0.0, f64::max);
        let least = held.iter().copied().fold(f64::INFINITY, f64::min);
        let apart = most / least - 1.0;
        let shown: Vec<String> = held.iter().map(|iops| format!("{iops:.1}")).collect();
        claims.push(Claim {
            id: format!("simulated-31-{name}"),
            what: format!("slide 31, BAA, simulated: IOPS of the {name} device within its set"),
            paper: "equal".to_owned(),
            measured: shown.join(" and "),
            value: apart,
            tolerance: format!("equal to {:.0} %", scale.slack * 100.0),
            attainable: None,
            verdict: Verdict::of(apart <= scale.slack),
            why: None,
        });
    }
    claims.push(promises_claim(("32", Order::Baa), &problem, &outcome, scale));
    let groups = row.hit_ratios.iter().map(|ratio| format!("h = {}", ratio.0)).collect();
    let bars = |name: &str, rate: &dyn Fn(usize) -> f64| Bars {
        name: name.to_owned(),
        values: (0..row.rates.len()).map(|client| Some(rate(client))).collect(),
    };
    let series = vec![
        bars("fair share", &|client| problem.fair_share_iops(client)),
        bars("BAA, simulated", &|client| outcome.rates[client]),
    ];
    let chart = Chart::bars("Slide 32: fair share and what was given", "IOPS", groups, series);
    Ok(Findings { claims, figures: vec![Figure::new("baa-slide-32", chart)] })
}
