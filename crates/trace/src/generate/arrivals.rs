//! Arrivals in bursts on every scale: gaps within a moment, a wave over moments, phases over waves.
//!
//! The rate is constant in steps of 100 ms and the product of three factors, the latter two with a
//! mean of one:
//!
//! - the mean rate;
//! - a wave: a lognormal factor whose logarithm is an autoregressive process of first order, so
//!   that it wanders with a given variation and forgets itself after a given time;
//! - phases: busy and quiet in turn, each lasting an exponential time.
//!
//! Gaps are drawn at a rate of one and stretched by the rate at that moment, so that the mean rate
//! is kept whatever the bursts. They are hyper-exponential with two phases of balanced means, the
//! best of twenty families for the gaps of over 250 storage traces (Wajahat and others, 2020), or
//! exponential where their variation is one.
//!
//! ```text
//! rate     ____      __                 gap of one unit of work:
//!         |    |____|  |___             area under the rate until the next arrival
//! ```

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

/// How long the rate stays constant.
pub(super) const STEP: Span = Span::from_millis(100);

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrivalProfile {
    /// The mean rate, from 0.001 to 10^8.
    pub rate_per_second: f64,
    /// The coefficient of variation of gaps while the rate is constant, from 1 (Poisson) to 20.
    pub gap_variation: f64,
    /// The wave, if the rate wanders.
    pub wave: Option<Wave>,
    /// The phases, if the rate jumps.
    pub phases: Option<Phases>,
}

/// A rate that wanders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave {
    /// The coefficient of variation of the rate, above 0 and up to 5.
    pub variation: f64,
    /// The time after which the autocorrelation of its logarithm has sunk to 1/e.
    pub memory: Span,
}

/// A rate that jumps between busy and quiet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    /// The mean length of a busy phase, at least one step of 100 ms.
    pub busy: Span,
    /// The mean length of a quiet phase, at least one step of 100 ms.
    pub quiet: Span,
    /// The rate while quiet by the rate while busy, 0 to 1.
    pub quiet_level: f64,
}

/// Draws arrivals one after another. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct ArrivalProcess {
    profile: ArrivalProfile,
    prng: Prng,
    /// Where in time the process is, in units of a nanosecond with a fraction.
    at_ns: f64,
    step: u64,
    rate_per_ns: f64,
    /// The logarithm of the wave, with a mean of zero.
    wave: f64,
    is_busy: bool,
    spare_normal: Option<f64>,
}

impl ArrivalProcess {
    /// A process in its steady state: the first phase and the first wave are drawn as any other.
    pub(super) fn new(profile: ArrivalProfile, prng: Prng) -> Self {
        let mut process = Self {
            profile,
            prng,
            at_ns: 0.0,
            step: 0,
            rate_per_ns: 0.0,
            wave: 0.0,
            is_busy: true,
            spare_normal: None,
        };
        if let Some(phases) = profile.phases {
            let busy = phases.busy.0 as f64;
            process.is_busy = process.prng.unit_f64() < busy / (busy + phases.quiet.0 as f64);
        }
        if let Some(wave) = profile.wave {
            process.wave = process.normal() * wave.deviation();
        }
        process.set_rate();
        process
    }

    /// The next arrival; never before the last.
    pub(super) fn next_arrival(&mut self) -> Nanos {
        let mut work = self.gap();
        loop {
            let step_end_ns = (self.step + 1) as f64 * STEP.0 as f64;
            let gap_ns = work / self.rate_per_ns;
            if gap_ns < step_end_ns - self.at_ns {
                self.at_ns += gap_ns;
                // Saturates after 584 years.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "time is positive, and the largest instant is the end of time"
                )]
                return Nanos(self.at_ns as u64);
            }
            work -= (step_end_ns - self.at_ns) * self.rate_per_ns;
            self.at_ns = step_end_ns;
            self.advance();
        }
    }

    /// A gap with a mean of one.
    fn gap(&mut self) -> f64 {
        let exponential = -natural_log(1.0 - self.prng.unit_f64());
        let squared = self.profile.gap_variation * self.profile.gap_variation;
        if squared <= 1.0 {
            return exponential;
        }
        // Two phases, chosen with p and 1 - p, whose rates are 2 p and 2 (1 - p): both make up
        // half of the mean.
        let first = f64::midpoint(1.0, ((squared - 1.0) / (squared + 1.0)).sqrt());
        let chosen = if self.prng.unit_f64() < first { first } else { 1.0 - first };
        exponential / (2.0 * chosen)
    }

    fn advance(&mut self) {
        self.step += 1;
        if let Some(wave) = self.profile.wave {
            let kept = exponential(-(STEP.0 as f64) / wave.memory.0 as f64);
            let renewed = (1.0 - kept * kept).sqrt() * wave.deviation();
            self.wave = kept * self.wave + renewed * self.normal();
        }
        if let Some(phases) = self.profile.phases {
            let length = if self.is_busy { phases.busy } else { phases.quiet };
            self.is_busy ^= self.prng.unit_f64() < STEP.0 as f64 / length.0 as f64;
        }
        self.set_rate();
    }

    fn set_rate(&mut self) {
        let mut rate = self.profile.rate_per_second / 1e9;
        if let Some(wave) = self.profile.wave {
            let deviation = wave.deviation();
            rate *= exponential(self.wave - deviation * deviation / 2.0);
        }
        if let Some(phases) = self.profile.phases {
            let (busy, quiet) = (phases.busy.0 as f64, phases.quiet.0 as f64);
            let mean = (busy + quiet * phases.quiet_level) / (busy + quiet);
            rate *= if self.is_busy { 1.0 } else { phases.quiet_level } / mean;
        }
        // A silent phase still lets its steps pass.
        self.rate_per_ns = rate.max(1e-30);
    }

    /// A draw of the standard normal distribution by Marsaglia's polar method, which needs no
    /// functions of angles.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.prng.unit_f64() - 1.0;
            let y = 2.0 * self.prng.unit_f64() - 1.0;
            let square = x * x + y * y;
            if square > 1e-300 && square < 1.0 {
                let scale = (-2.0 * natural_log(square) / square).sqrt();
                self.spare_normal = Some(y * scale);
                return x * scale;
            }
        }
    }
}

impl Wave {
    /// The standard deviation of the logarithm.
    fn deviation(&self) -> f64 {
        natural_log(1.0 + self.variation * self.variation).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tally::Tally;

    const STEADY: ArrivalProfile =
        ArrivalProfile { rate_per_second: 500.0, gap_variation: 1.0, wave: None, phases: None };

    /// Gaps of many arrivals, and counts per second.
    fn drawn(profile: ArrivalProfile) -> (Tally, Tally) {
        let mut process = ArrivalProcess::new(profile, Prng::new(6));
        let (mut gaps, mut counts) = <(Tally, Tally)>::default();
        let (mut last, mut second, mut count) = (0, 0, 0);
        for _ in 0..300_000 {
            let at = process.next_arrival().0;
            gaps.add(at - last);
            last = at;
            if at / 1_000_000_000 > second {
                counts.add(count);
                counts.add_times(0, at / 1_000_000_000 - second - 1);
                (second, count) = (at / 1_000_000_000, 0);
            }
            count += 1;
        }
        (gaps, counts)
    }

    fn near(got: Option<f64>, expected: f64, tolerance: f64) {
        let got = got.unwrap();
        assert!((got - expected).abs() <= tolerance * expected, "{got} is not {expected}");
    }

    #[test]
    fn without_bursts_arrivals_are_those_of_poisson() {
        let (gaps, counts) = drawn(STEADY);
        near(gaps.mean(), 2e6, 0.01);
        near(gaps.variation(), 1.0, 0.01);
        near(counts.dispersion(), 1.0, 0.15);
    }

    #[test]
    fn gaps_have_the_variation_asked_for_and_the_rate_stays() {
        let (gaps, counts) = drawn(ArrivalProfile { gap_variation: 2.5, ..STEADY });
        near(gaps.mean(), 2e6, 0.02);
        near(gaps.variation(), 2.5, 0.03);
        // Counts of a renewal process disperse by the squared variation of its gaps.
        near(counts.dispersion(), 6.25, 0.2);
    }

    #[test]
    fn a_wave_varies_the_counts_and_keeps_the_rate() {
        let wave = Wave { variation: 0.4, memory: Span::from_secs(1) };
        let (gaps, counts) = drawn(ArrivalProfile { wave: Some(wave), ..STEADY });
        near(gaps.mean(), 2e6, 0.05);
        // Averaged over a second, 2 (1 - 1 + 1/e) = 0.74 of the variance remains.
        near(counts.dispersion(), 1.0 + 500.0 * 0.16 * 0.74, 0.2);
    }

    #[test]
    fn phases_vary_the_counts_and_keep_the_rate() {
        let phases =
            Phases { busy: Span::from_secs(20), quiet: Span::from_secs(40), quiet_level: 0.0 };
        let (_, counts) = drawn(ArrivalProfile { phases: Some(phases), ..STEADY });
        near(counts.mean(), 500.0, 0.2);
        // Thrice the rate a third of the time: the rate's variance is twice its squared mean.
        near(counts.dispersion(), 1.0 + 500.0 * 2.0, 0.25);
    }

    #[test]
    fn a_rate_of_almost_nothing_ends() {
        let mut process =
            ArrivalProcess::new(ArrivalProfile { rate_per_second: 0.001, ..STEADY }, Prng::new(1));
        assert!(process.next_arrival() > Nanos(0));
    }
}
