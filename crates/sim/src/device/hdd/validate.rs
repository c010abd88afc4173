//! The model against recordings of real drives.
//!
//! A [recording](super::recording) has, per request, the response that the real drive gave and the
//! gap until the next request was sent. The replay is closed: each request goes out that gap after
//! the model's own answer to the one before. Two sets of responses are then compared as
//! distributions, since no model knows at which angle the real platter stood: the *demerit* is the
//! root mean square of the horizontal distance between the two cumulative curves.
//!
//! ```text
//!   1 |          ___.--      at each height the curves are apart by some time;
//!     |      .--' .-'        the demerit is the root mean square of those times
//!     |    .'<-->'
//!   0 |__.'__.'__________ response
//! ```
//!
//! Source: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3),
//! 1994.

use evenkeel_core::time::{Nanos, Span};

use crate::device::{Device, Op, Step};

use super::Hdd;
use super::parameters::{Parameters, SECTOR_BYTES};
use super::queue::Policy;
use super::recording::Measured;

/// A recording beside what the model made of the same requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// Responses of the real drive, rising.
    pub measured: Vec<Span>,
    /// Responses of the model to the same requests, rising.
    pub simulated: Vec<Span>,
    /// Requests beyond the end of the model's drive: in neither of the two.
    pub left_out: usize,
}

impl Validation {
    /// Replays a recording on a drive of these parameters, one request at a time.
    pub fn of(parameters: &Parameters, recording: &[Measured]) -> Self {
        let mut drive = Hdd::new(parameters, Policy::Fcfs);
        let end = drive.size_bytes() / SECTOR_BYTES;
        let fits = |request: &&Measured| request.sector + request.sectors <= end;
        let requests: Vec<Measured> = recording.iter().filter(fits).copied().collect();
        let mut simulated = replay_closed(&mut drive, &requests);
        let mut measured: Vec<Span> = requests.iter().map(|request| request.response).collect();
        measured.sort_unstable();
        simulated.sort_unstable();
        Self { measured, simulated, left_out: recording.len() - requests.len() }
    }

    /// How far the model is off; zero without requests.
    pub fn demerit(&self) -> Span {
        demerit(&self.measured, &self.simulated)
    }
}

/// Sends requests to a device, each its gap after the device's own answer to the one before, and
/// returns the device's responses in order. All of them lie on the device.
fn replay_closed(device: &mut impl Device, requests: &[Measured]) -> Vec<Span> {
    let mut now = Nanos::ZERO;
    let mut responses = Vec::with_capacity(requests.len());
    for request in requests {
        let offset = request.sector * SECTOR_BYTES;
        let length = request.sectors * SECTOR_BYTES;
        let sent = now;
        device.submit(now, Op { tag: 0, kind: request.kind, offset, length });
        loop {
            match device.poll(now) {
                Step::Done { .. } => break,
                Step::WaitUntil(next) => now = next,
                Step::Idle => unreachable!("a request is outstanding"),
            }
        }
        responses.push(now.since(sent));
        let next = now + request.gap;
        while let Step::WaitUntil(wake) = device.poll(now) {
            if wake > next {
                break;
            }
            now = wake;
        }
        now = next;
    }
    responses
}

/// The root mean square of the horizontal distance between two distributions of responses, each
/// rising.
///
/// Both are read at as many heights as the longer has values; zero if one is empty.
fn demerit(one: &[Span], other: &[Span]) -> Span {
    let heights = one.len().max(other.len());
    if one.is_empty() || other.is_empty() {
        return Span::ZERO;
    }
    let at = |values: &[Span], height: usize| values[height * values.len() / heights].0;
    let squares = (0..heights).map(|height| {
        let apart = at(one, height).abs_diff(at(other, height));
        u128::from(apart) * u128::from(apart)
    });
    let mean = squares.sum::<u128>() / heights as u128;
    Span(u64::try_from(mean.isqrt()).expect("the root of a mean square of 64 bits"))
}

/// The mean of responses; zero of none.
pub fn mean(responses: &[Span]) -> Span {
    let sum: u128 = responses.iter().map(|response| u128::from(response.0)).sum();
    let count = responses.len().max(1) as u128;
    Span(u64::try_from(sum / count).expect("a mean lies among its values"))
}

/// The least of rising responses that so many of a thousand do not exceed; zero of none.
pub fn quantile(rising: &[Span], of_thousand: usize) -> Span {
    let rank = (rising.len() * of_thousand).div_ceil(1000).max(1);
    rising.get(rank - 1).copied().unwrap_or(Span::ZERO)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::Kind;

    use super::*;

    fn spans(values: &[u64]) -> Vec<Span> {
        values.iter().copied().map(Span).collect()
    }

    #[test]
    fn the_demerit_of_a_shift_is_the_shift() {
        assert_eq!(demerit(&spans(&[1, 5, 9]), &spans(&[4, 8, 12])), Span(3));
        assert_eq!(demerit(&spans(&[1, 5, 9]), &spans(&[1, 5, 9])), Span(0));
        // Half the mass is 10 apart: the root of 50.
        assert_eq!(demerit(&spans(&[0, 0, 0, 0]), &spans(&[0, 10])), Span(7));
    }

    #[test]
    fn quantiles_are_responses_that_occurred() {
        let rising: Vec<Span> = (1..=200).map(Span).collect();
        assert_eq!([500, 950, 999].map(|part| quantile(&rising, part).0), [100, 190, 200]);
        assert_eq!(quantile(&[], 500), Span::ZERO);
    }

    /// A recording that the model itself gave is met exactly, whatever lies beyond the drive.
    #[test]
    fn requests_beyond_the_drive_count_on_neither_side() {
        let parameters = Parameters::built_in("hp-c2247a").unwrap();
        let request = |sector, response| Measured {
            kind: Kind::Read,
            sector,
            sectors: 4,
            response,
            gap: Span::from_millis(20),
        };
        let places = [9, 1_000_000, 5, 2_000_000];
        let asked: Vec<Measured> =
            places.into_iter().map(|sector| request(sector, Span::ZERO)).collect();
        let drive = &mut Hdd::new(&parameters, Policy::Fcfs);
        let took = replay_closed(drive, &asked);
        let mut recording: Vec<Measured> =
            places.into_iter().zip(took).map(|(sector, took)| request(sector, took)).collect();
        recording.insert(2, request(1 << 40, Span::from_secs(9)));
        let validation = Validation::of(&parameters, &recording);
        assert_eq!((validation.measured.len(), validation.left_out), (4, 1));
        assert_eq!(validation.demerit(), Span::ZERO);
        assert_eq!(mean(&validation.measured), mean(&validation.simulated));
    }
}
