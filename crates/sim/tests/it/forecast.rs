//! Forecasts beside what happened.
//!
//! `EVENKEEL_FORECASTS` says how many recordings, `EVENKEEL_FORECAST_SECONDS` how long each is; the
//! table is printed. The forecast was fitted on seeds below 10,000.

use evenkeel_core::time::Span;
use evenkeel_sim::forecast::trial::{Outcome, TENANTS, Trial};
use evenkeel_sim::forecast::{Expected, Forecast};

use crate::depths::FIRST_SEED;

/// A forecast of more than this width, as a part of its value, says little.
const WIDE: f64 = 0.3;

fn number(variable: &str, otherwise: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "how many and how long is for whoever runs it")]
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Figures of one kind.
#[derive(Default)]
struct Kept {
    held: usize,
    widths: Vec<f64>,
}

impl Kept {
    fn add(&mut self, expected: &Expected, found: f64) {
        self.held += usize::from(expected.holds(found));
        self.widths.push(expected.width());
    }

    fn words(&mut self) -> String {
        self.widths.sort_by(f64::total_cmp);
        let (held, count) = (self.held, self.widths.len());
        let narrow = self.widths.iter().filter(|width| **width <= WIDE).count();
        let median = self.widths.get(count / 2).copied().unwrap_or_default();
        format!("{held} of {count} held; width {median:.2} (median), {narrow} at most {WIDE}")
    }

    fn part(&self) -> f64 {
        self.held as f64 / self.widths.len().max(1) as f64
    }
}

fn describe(forecast: &Forecast) {
    for device in &forecast.devices {
        println!("  {:?}; misses {:.3}, {} others", device.device, device.misses, device.others);
    }
    for client in &forecast.clients {
        let (phases, depth) = (client.phases.len(), client.depth_max());
        println!(
            "  closed {} ({:.2}), {phases} phases, depth {depth}",
            client.is_closed, client.evidence
        );
    }
}

fn judge(outcome: &Outcome, rates: &mut Kept, means: &mut Kept) {
    let Outcome { forecast, truth } = outcome;
    for name in TENANTS {
        let Some(tenant) = forecast.tenants.iter().find(|one| one.name == name) else { continue };
        let truth = truth.tenants.iter().find(|one| one.name == name).expect("it ran");
        let rate = truth.traffic.mib_per_second * f64::from(1 << 20);
        let mean = truth.traffic.latency.mean.as_secs_f64();
        let Some(means_expected) = tenant.mean_seconds else {
            println!("  {name:7} is answered nothing");
            continue;
        };
        if tenant.is_explained {
            rates.add(&tenant.bytes_per_second, rate);
            means.add(&means_expected, mean);
        }
        let line = |now: f64, expected: Expected, found: f64, unit: f64| {
            let [now, value, low, high, found] =
                [now, expected.value, expected.low, expected.high, found].map(|one| one / unit);
            let mark = if (low..=high).contains(&found) { ' ' } else { '!' };
            format!("{now:9.2} -> {value:9.2} ({low:.2} to {high:.2}), was {found:9.2}{mark}")
        };
        let now = &tenant.now;
        println!(
            "  {name:7} KiB/s {}   ms {}",
            line(now.bytes_per_second, tenant.bytes_per_second, rate, 1024.0),
            line(now.latency.mean().as_secs_f64(), means_expected, mean, 1e-3)
        );
    }
}

#[test]
fn error_bars_hold_in_nine_of_ten() {
    let count = number("EVENKEEL_FORECASTS", 4);
    let length = Span::from_secs(number("EVENKEEL_FORECAST_SECONDS", 60));
    let first = number("EVENKEEL_FORECAST_SEED", FIRST_SEED);
    let (mut rates, mut means, mut explained) = (Kept::default(), Kept::default(), 0);
    for seed in first..first + count {
        let trial = Trial::draw(seed, length);
        println!("{seed}: {}", trial.describe());
        let outcome = trial.run().expect("it can be forecast");
        explained += u64::from(outcome.forecast.is_explained());
        describe(&outcome.forecast);
        judge(&outcome, &mut rates, &mut means);
    }
    println!("{explained} of {count} explained");
    println!("rates: {}\nmeans: {}", rates.words(), means.words());
    // Disks are not, nor is what always has the same load.
    assert!(explained * 3 > count, "a third of the storage is understood at least");
    assert!(rates.part() >= 0.8 && means.part() >= 0.8, "nine of ten, of few");
}
