//! The load: what the paper states of it, what the search made of that, and how it is on the seeds
//! that are reported.
//!
//! The rates were found on other seeds than those that the claims are judged on, by a search that
//! runs no controller ([`evenkeel_sim::control::fit`]). `--only fit` carries it out again.

use std::ops::RangeInclusive;

use evenkeel_sim::control::fit::{self, FITTING_SEEDS, Fit, OVER_PERCENT_MAX, WindowsPercent};
use evenkeel_sim::control::paper::{DEPTH, FITTED, LINE, Shape};
use indicatif::ProgressBar;

use super::reference::Reference;
use super::rows::WORKLOADS;
use crate::reproduce::claim::{Claim, Verdict};
use crate::terminal;

/// What the paper says of fixed windows, by level and workload.
fn stated(reference: &Reference) -> WindowsPercent {
    let mut levels = reference.level.iter().map(|level| level.request_windows_percent);
    std::array::from_fn(|_| levels.next().expect("the data file has both levels"))
}

/// The load on the seeds that it was fitted on and on those that are reported: figures that nothing
/// is demanded of.
pub(super) fn shown(reference: &Reference, reporting: RangeInclusive<u64>) -> Vec<Claim> {
    let stated = stated(reference);
    let fitting = fit::measure(FITTED, FITTING_SEEDS, LINE, &stated);
    let reported = fit::measure(FITTED, reporting, LINE, &stated);
    figures(reference, &fitting, &reported)
}

/// Carries out the search, and holds the load of the experiment against what it finds.
pub(super) fn search(reference: &Reference, reporting: RangeInclusive<u64>) -> Vec<Claim> {
    let stated = stated(reference);
    let bar = ProgressBar::no_length().with_style(terminal::bar_style("{pos}/{len} pauses"));
    let (best, tried) = fit::search(&stated, LINE, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let reported = fit::measure(best.shape, reporting, LINE, &stated);
    let mut claims = vec![found(&best)];
    claims.extend(figures(reference, &best, &reported));
    claims.extend(tried.iter().map(|fit| other(fit, &best)));
    claims
}

fn found(best: &Fit) -> Claim {
    Claim {
        measured: rates(&best.shape),
        value: best.error,
        tolerance: rates(&FITTED),
        verdict: Verdict::of(best.shape == FITTED),
        ..Claim::shown("load-found", "the load that the search finds is the experiment's")
    }
}

/// The best rates with other pauses.
fn other(fit: &Fit, best: &Fit) -> Claim {
    let [web, tpcc] = fit.shape.pauses_s;
    let (best_error, error) = (best.error.sqrt(), fit.error.sqrt());
    Claim {
        measured: format!("{error:.1} points (the best {best_error:.1}): {}", rates(&fit.shape)),
        value: error,
        ..Claim::shown(
            format!("load-tried-{web}-{tpcc}"),
            format!("search: pauses of {web} s (web) and {tpcc} s (TPC-C)"),
        )
    }
}

fn rates(shape: &Shape) -> String {
    let Shape { base_per_s, burst_per_s: [web0, web1, tpcc0, tpcc1], pauses_s: [web, tpcc] } =
        shape;
    format!(
        "base {base_per_s:.0}/s, bursts {web0:.0}, {web1:.0}, {tpcc0:.0}, {tpcc1:.0}/s, \
         pauses {web} and {tpcc} s"
    )
}

fn figures(reference: &Reference, fitting: &Fit, reported: &Fit) -> Vec<Claim> {
    let mut claims = Vec::new();
    let capacity = LINE.throughput(f64::from(DEPTH));
    let part =
        |fit: &Fit| format!("{:.0}/s ({:.0} %)", fit.mean_per_s, 100.0 * fit.mean_per_s / capacity);
    claims.push(Claim {
        measured: both(&part(fitting), &part(reported)),
        value: reported.mean_per_s,
        ..Claim::shown(
            "load-mean",
            format!("load: mean demand (of {capacity:.0}/s, what {DEPTH} slots give)"),
        )
    });
    claims.push(Claim {
        measured: both(
            &format!("{:.1} %", fitting.over_percent),
            &format!("{:.1} %", reported.over_percent),
        ),
        value: reported.over_percent,
        tolerance: format!("fitted: at most {OVER_PERCENT_MAX:.0} %"),
        ..Claim::shown("load-over", "load: seconds that ask for more than that")
    });
    for (index, level) in reference.level.iter().enumerate() {
        for (load, workload) in WORKLOADS.iter().enumerate() {
            let [fitting, reported] =
                [fitting, reported].map(|fit| fit.windows_percent[index][load]);
            claims.push(Claim {
                paper: format!("{:.0} %", level.request_windows_percent[load]),
                measured: both(&format!("{fitting:.1} %"), &format!("{reported:.1} %")),
                value: reported,
                ..Claim::shown(
                    format!("load-{}-{workload}", level.name.to_lowercase().replace('_', "-")),
                    format!("load: fluid windows, {}, {workload}: violating", level.name),
                )
            });
        }
    }
    claims
}

fn both(fitting: &str, reported: &str) -> String {
    format!("fitting {fitting}, reporting {reported}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The search over all pauses takes half a minute: `reproduce drg --only fit`.
    #[test]
    fn the_load_is_what_the_search_finds_without_running_a_controller() {
        let stated = stated(&Reference::load());
        let found = fit::search_rates(FITTED.pauses_s, &stated, LINE);
        assert_eq!(found.shape, FITTED);
        let others = [[2, 2], [4, 4]].map(|pauses| fit::search_rates(pauses, &stated, LINE));
        assert!(others.iter().all(|other| other.error > found.error), "{others:?}");
    }

    #[test]
    fn the_load_is_shown_on_both_sets_of_seeds() {
        let claims = shown(&Reference::load(), 101..=102);
        assert_eq!(claims.len(), 2 + 8);
        for claim in claims {
            assert!(claim.measured.starts_with("fitting "), "{claim:?}");
            assert!(claim.measured.contains(", reporting ") && claim.verdict == Verdict::Shown);
        }
    }
}
