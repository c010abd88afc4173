//! Notices that a tenant's requests no longer go where they used to.
//!
//! Source: Page, "Continuous Inspection Schemes", Biometrika 41, 1954 (the cumulative sum); Lorden,
//! "Procedures for Reacting to a Change in Distribution", Annals of Mathematical Statistics 42,
//! 1971 (its false alarms).
//!
//! A window long enough for a good estimate is slow: when the working set no longer fits the fast
//! device, thousands of old requests say that it does. So two sums run for each device. Each adds
//! up, request by request, how much better the request is explained if the odds of this device had
//! doubled (one sum) or halved (the other), as logarithms of likelihood ratios:
//!
//! ```text
//!                 to the device           elsewhere              p: part that goes there now
//! doubled    ln 2 - ln(1 + p)            - ln(1 + p)
//! halved          - ln(2 - p)       ln 2 - ln(2 - p)
//!
//! sum  ______/\____/\______________/\  /      while nothing changes it keeps falling back to zero,
//!                                    \/  <-- here it began: all that came since is the new window
//! ```
//!
//! **False alarms.** A sum that reaches ln(10^6) is an alarm. While the parts are as estimated, a
//! sum does so less than once in 10^6 requests on average (Lorden's bound).
//!
//! **Delay.** A rare part p that doubles is found after some 36/p requests, one that halves after
//! some 90/p, and greater changes sooner.
//!
//! Sums are integers, in parts of 2^-32; only the steps are reckoned in floats, once per solve. Of
//! two devices the second one tells all.

use crate::float::natural_log;
use crate::share::DEVICES_MAX;

/// ln(10^6), in the units of sums.
const ALARM: i64 = 59_337_166_024;
/// One nat, in the units of sums.
const NAT: f64 = 4_294_967_296.0;

/// Watches one tenant's requests.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeDetector {
    sums: Vec<Sum>,
    is_armed: bool,
}

/// One cumulative sum.
#[derive(Clone, Copy, Debug)]
struct Sum {
    device: u8,
    /// What a request to the device adds, and what any other does.
    steps: [i64; 2],
    level: i64,
    /// Requests since the sum was zero, by device.
    since: [u32; DEVICES_MAX],
}

impl ChangeDetector {
    /// Watches for departures from `parts`, the part of the requests to each of `devices` devices.
    /// Sums go on from where they are.
    pub(super) fn arm(&mut self, parts: &[f64; DEVICES_MAX], devices: usize) {
        let first = usize::from(devices == 2);
        if self.sums.is_empty() {
            let devices = (0..=u8::MAX).take(devices).skip(first);
            self.sums = devices.flat_map(|device| [Sum::new(device); 2]).collect();
        }
        for [doubled, halved] in self.sums.as_chunks_mut::<2>().0 {
            let part = parts[usize::from(doubled.device)];
            let [two, up, down] = [2.0, 1.0 + part, 2.0 - part].map(natural_log);
            doubled.steps = [two - up, -up].map(in_units);
            halved.steps = [-down, two - down].map(in_units);
        }
        self.is_armed = devices > 1;
    }

    /// Takes in a request to a device. After a change, which disarms, the requests since it began.
    pub(super) fn note(&mut self, device: usize) -> Option<[u32; DEVICES_MAX]> {
        if !self.is_armed {
            return None;
        }
        let alarmed = self.sums.iter_mut().find_map(|sum| sum.note(device))?;
        self.sums.iter_mut().for_each(Sum::reset);
        self.is_armed = false;
        Some(alarmed)
    }
}

impl Sum {
    fn new(device: u8) -> Self {
        Self { device, steps: [0; 2], level: 0, since: [0; DEVICES_MAX] }
    }

    fn note(&mut self, device: usize) -> Option<[u32; DEVICES_MAX]> {
        self.level += self.steps[usize::from(device != usize::from(self.device))];
        if self.level <= 0 {
            if self.level < 0 {
                self.reset();
            }
            return None;
        }
        self.since[device] += 1;
        (self.level >= ALARM).then_some(self.since)
    }

    fn reset(&mut self) {
        self.level = 0;
        self.since = [0; DEVICES_MAX];
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a step is less than a nat, which is 2^32")]
fn in_units(nats: f64) -> i64 {
    (nats * NAT) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    /// Requests until the alarm after a change of the part to the second of two devices.
    fn delay(before: f64, after: f64, seed: u64) -> (u32, [u32; DEVICES_MAX]) {
        let mut prng = Prng::new(seed);
        let mut detector = ChangeDetector::default();
        let mut parts = [0.0; DEVICES_MAX];
        parts[..2].copy_from_slice(&[1.0 - before, before]);
        detector.arm(&parts, 2);
        let request = |part: f64, prng: &mut Prng| usize::from(prng.unit_f64() < part);
        for _ in 0..10_000 {
            assert_eq!(detector.note(request(before, &mut prng)), None);
        }
        (1..)
            .find_map(|n| detector.note(request(after, &mut prng)).map(|since| (n, since)))
            .unwrap()
    }

    #[test]
    fn the_alarm_level_is_that_of_a_million() {
        let exact = natural_log(1e6) * NAT;
        assert!((ALARM as f64 - exact).abs() <= 1.0, "{exact}");
    }

    #[test]
    fn a_jump_is_found_within_dozens_of_rare_requests() {
        for seed in 1..20 {
            assert!(delay(0.45, 0.2, seed).0 < 300);
            assert!(delay(0.99, 0.98, seed).0 < 8_000, "twice what is usual");
            assert!(delay(0.99, 0.5, seed).0 < 80);
        }
    }

    #[test]
    fn what_came_since_tells_the_new_part() {
        let mean: f64 = (1..=20)
            .map(|seed| {
                let (_, since) = delay(0.9, 0.5, seed);
                f64::from(since[1]) / f64::from(since[0] + since[1])
            })
            .sum::<f64>()
            / 20.0;
        assert!((mean - 0.5).abs() < 0.15, "{mean}");
    }

    #[test]
    fn alarms_without_a_change_are_rarer_than_stated() {
        let alarms = |parts: &[f64]| {
            let mut prng = Prng::new(3);
            let mut detector = ChangeDetector::default();
            let mut all = [0.0; DEVICES_MAX];
            all[..parts.len()].copy_from_slice(parts);
            detector.arm(&all, parts.len());
            let mut alarms = 0;
            for _ in 0..2_000_000 {
                let draw = prng.unit_f64();
                let mut sum = 0.0;
                let device = parts.iter().position(|part| {
                    sum += part;
                    draw < sum
                });
                if detector.note(device.unwrap_or(0)).is_some() {
                    alarms += 1;
                    detector.arm(&all, parts.len());
                }
            }
            alarms
        };
        // Two sums over two million requests: four by the bound.
        assert!(alarms(&[0.5, 0.5]) <= 4);
        assert!(alarms(&[0.01, 0.99]) <= 4);
        assert!(alarms(&[0.1, 0.3, 0.6]) <= 12, "six sums");
    }

    #[test]
    fn a_shift_from_rare_to_less_rare_is_seen_among_three_devices() {
        let mut prng = Prng::new(9);
        let mut detector = ChangeDetector::default();
        let mut parts = [0.0; DEVICES_MAX];
        parts[..3].copy_from_slice(&[0.01, 0.49, 0.5]);
        detector.arm(&parts, 3);
        let request = |prng: &mut Prng| match prng.below(100) {
            0..4 => 0,
            4..52 => 1,
            _ => 2,
        };
        let found = (1..3000).find(|_| detector.note(request(&mut prng)).is_some());
        assert!(found.is_some());
    }
}
