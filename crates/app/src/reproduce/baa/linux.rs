//! The totals of the authors' Linux prototype (slides 29 and 30): a trace of hit ratio 0.3 beside
//! one of 0.95, as ratios between disciplines.
//!
//! The slides' totals and utilisations cannot come from two devices of constant speed: the total is
//! `U_slow C_slow + U_fast C_fast`, and no two of their rows have a solution with positive
//! capacities. Real disks were faster or slower by what was asked of them. So what is held here is
//! how large the ratios can be on devices of constant speed, with the capacities chosen in favour
//! of the claim.
//!
//! **BAA over DRF.** With one client of each kind and r the part of its own weight in the slow
//! device that the fast client takes per part of the fast one,
//!
//! ```text
//! DRF fills the slow device at the level s = 1 / (1 + r)
//! BAA gives the fast client y = min(1, 1 / 2r), the slow one gets no more than by DRF
//! y / s = (1 + r) y  <=  3/2, at r = 1/2
//! ```
//!
//! so no two equal clients whatsoever can show 1.72. Two clients of hit ratio 0.3 beside one of
//! 0.95 can: DRF then holds the latter to a third, and BAA does not.
//!
//! **BAA over a fair queue for each device.** Where everybody keeps enough requests under way, such
//! queues leave no device idle that somebody waits for, and nobody gets less than an equal part of
//! either. Then no discipline serves more. What CFQ lost, it lost to time slices and to idling in
//! wait for the next request of the same client, which ours does not do.

use evenkeel_core::share::{self, Client, Demand, Problem};

use super::super::claim::{Claim, Verdict};
use super::fluid::PUBLISHED;
use super::setup::Order;
use super::simulated::{Experiment, Load};
use super::slides::{Scale, measured};

/// Requests per second of the slow device.
const SLOW_IOPS: f64 = 100.0;
/// How far a simulated ratio may be from what the fluid model allows, as a part of it.
const SLACK: f64 = 0.05;

/// The totals of the slides, in requests per second.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Totals {
    pub(super) baa: f64,
    pub(super) drf: f64,
    pub(super) cfq: f64,
    /// Hit ratios of the two traces.
    pub(super) hit_ratios: [f64; 2],
}

/// The claims.
pub(super) fn claims(totals: &Totals, scale: &Scale) -> anyhow::Result<Vec<Claim>> {
    let [low, high] = totals.hit_ratios;
    let mut claims = Vec::new();
    for hit_ratios in [vec![low, high], vec![low, low, high]] {
        claims.push(over_drf(totals, &hit_ratios, scale)?);
    }
    claims.push(over_per_device(totals, scale)?);
    Ok(claims)
}

/// The capacity of the fast device at which BAA serves most beyond DRF, and how much, in the fluid.
fn best(hit_ratios: &[f64]) -> (f64, f64) {
    let ratio = |fast: f64| {
        let client = |h: &f64| Client::backlogged(1.0, Demand::hit_ratio(*h));
        let clients = hit_ratios.iter().map(client).collect();
        let problem = Problem::new(&[SLOW_IOPS, fast], clients).expect("in range");
        let total =
            |discipline| share::solve(&problem, discipline, &[]).rates_iops.iter().sum::<f64>();
        total(PUBLISHED) / total(share::Discipline::Drf)
    };
    // From as fast as the slow one to a hundred times that, in steps of ten requests per second.
    let capacities = (10..=1_000u32).map(|tens| f64::from(tens) * 10.0);
    let ratios = capacities.map(|fast| (fast, ratio(fast)));
    ratios.max_by(|one, other| one.1.total_cmp(&other.1)).expect("there are some")
}

fn over_drf(totals: &Totals, hit_ratios: &[f64], scale: &Scale) -> anyhow::Result<Claim> {
    let (fast, attainable) = best(hit_ratios);
    let loads: Vec<Load> = hit_ratios.iter().map(|h| Load::steady(*h)).collect();
    let run = |order| experiment([SLOW_IOPS, fast], order, &loads, scale).run();
    let (baa, drf) = (run(Order::Baa)?, run(Order::Drf)?);
    let total = |rates: &[f64]| rates.iter().sum::<f64>();
    let ratio = total(&baa.rates) / total(&drf.rates);
    let wanted = totals.baa / totals.drf;
    let text: Vec<String> = hit_ratios.iter().map(ToString::to_string).collect();
    Ok(Claim {
        id: format!("linux-baa-drf-{}", hit_ratios.len()),
        what: format!("slide 30, BAA over DRF, simulated: h = {}", text.join(", ")),
        paper: format!("{wanted:.2}"),
        measured: format!(
            "{ratio:.2} ({:.0} over {:.0} IOPS)",
            total(&baa.rates),
            total(&drf.rates)
        ),
        value: ratio,
        tolerance: format!(">= {wanted:.2}"),
        attainable: Some(format!("{attainable:.2}")),
        verdict: judge(ratio, wanted, attainable),
        why: Some(format!(
            "devices of {SLOW_IOPS:.0} and {fast:.0} IOPS, the best for it; two equal clients can \
             never show more than 1.5 on devices of constant speed, two of low hit ratio beside \
             one of high can; BAA: {}; DRF: {}",
            measured(&baa),
            measured(&drf)
        )),
    })
}

fn over_per_device(totals: &Totals, scale: &Scale) -> anyhow::Result<Claim> {
    let (fast, _) = best(&totals.hit_ratios);
    let loads = totals.hit_ratios.map(Load::steady);
    let run = |order| experiment([SLOW_IOPS, fast], order, &loads, scale).run();
    let (baa, each) = (run(Order::Baa)?, run(Order::PerDevice)?);
    let total = |rates: &[f64]| rates.iter().sum::<f64>();
    let ratio = total(&baa.rates) / total(&each.rates);
    let wanted = totals.baa / totals.cfq;
    Ok(Claim {
        id: "linux-baa-per-device".to_owned(),
        what: "slide 30, BAA over per-device fair queuing, simulated".to_owned(),
        paper: format!("{wanted:.2} over CFQ"),
        measured: format!(
            "{ratio:.2} ({:.0} over {:.0} IOPS)",
            total(&baa.rates),
            total(&each.rates)
        ),
        value: ratio,
        tolerance: format!(">= {wanted:.2}"),
        attainable: Some("1.00".to_owned()),
        verdict: judge(ratio, wanted, 1.0),
        why: Some(
            "a fair queue for each device leaves neither idle while somebody waits for it, so no \
             discipline serves more; CFQ lost its part to time slices and to idling for one \
             client's next request, which ours does not do"
                .to_owned(),
        ),
    })
}

fn judge(ratio: f64, wanted: f64, attainable: f64) -> Verdict {
    if ratio >= wanted {
        Verdict::Holds
    } else if attainable < wanted && ratio >= attainable * (1.0 - SLACK) {
        Verdict::Attained
    } else {
        Verdict::Fails
    }
}

fn experiment(capacities: [f64; 2], order: Order, loads: &[Load], scale: &Scale) -> Experiment {
    let Scale { warm_up, length, seed, .. } = *scale;
    Experiment { capacities, order, tenants: loads.to_vec(), warm_up, length, seed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_equal_clients_cannot_show_what_three_can() {
        let (fast, two) = best(&[0.3, 0.95]);
        assert!((1.35..1.5).contains(&two), "{two} at {fast}");
        let (fast, three) = best(&[0.3, 0.3, 0.95]);
        assert!(three > 1.75, "{three} at {fast}");
    }

    #[test]
    fn what_cannot_be_reached_is_attained_if_it_is_nearly_so() {
        assert_eq!(judge(1.8, 1.72, 1.9), Verdict::Holds);
        assert_eq!(judge(1.6, 1.72, 1.9), Verdict::Fails);
        assert_eq!(judge(1.37, 1.72, 1.39), Verdict::Attained);
        assert_eq!(judge(1.2, 1.72, 1.39), Verdict::Fails);
    }
}
