//! The model against recordings of real drives.
//!
//! A recording has, per request, the response that the real drive gave and the gap until the next
//! request was sent. The replay is closed: each request goes out that gap after the model's own
//! answer to the one before. Two sets of responses are then compared as distributions, since no
//! model knows at which angle the real platter stood: the *demerit* is the root mean square of the
//! horizontal distance between the two cumulative curves.
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

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use crate::device::{Device, Op, Step};

use super::parameters::SECTOR_BYTES;

/// A request of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// What for.
    pub kind: Kind,
    /// Its first sector.
    pub sector: u64,
    /// How many sectors.
    pub sectors: u64,
    /// How long the real drive took.
    pub response: Span,
    /// From its answer to the next request.
    pub gap: Span,
}

/// Why a recording cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}; a line has R or W, a word, sector, sectors, response us, gap us")]
pub struct RecordingError {
    line: usize,
    problem: &'static str,
}

/// Reads a recording: a request per line with R or W, what the buffer did, the first sector, the
/// number of sectors, the response and the gap, the last two in microseconds.
///
/// # Errors
///
/// The first line of another form.
pub fn recording(text: &str) -> Result<Vec<Measured>, RecordingError> {
    let lines = text.lines().enumerate();
    lines
        .map(|(index, line)| {
            measured(line).map_err(|problem| RecordingError { line: index + 1, problem })
        })
        .collect()
}

fn measured(line: &str) -> Result<Measured, &'static str> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [kind, _, sector, sectors, response, gap] = fields[..] else {
        return Err("not six fields");
    };
    let kind = match kind {
        "R" => Kind::Read,
        "W" => Kind::Write,
        _ => return Err("neither R nor W"),
    };
    Ok(Measured {
        kind,
        sector: sector.parse().map_err(|_| "the sector is no number")?,
        sectors: sectors.parse().map_err(|_| "the number of sectors is no number")?,
        response: microseconds(response).ok_or("the response is no time")?,
        gap: microseconds(gap).ok_or("the gap is no time")?,
    })
}

/// `12.3456` microseconds, to the nanosecond.
fn microseconds(text: &str) -> Option<Span> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let whole: u64 = whole.parse().ok()?;
    Some(Span(whole.checked_mul(1_000)?.checked_add(digits.parse().ok()?)?))
}

/// Sends a recording to a device, each request `gap` after the device's own answer to the one
/// before, and returns the device's responses in order. Requests that reach beyond its end are
/// left out.
pub fn replay_closed(device: &mut impl Device, recording: &[Measured]) -> Vec<Span> {
    let mut now = Nanos::ZERO;
    let mut responses = Vec::with_capacity(recording.len());
    for request in recording {
        let offset = request.sector * SECTOR_BYTES;
        let length = request.sectors * SECTOR_BYTES;
        if offset + length > device.size_bytes() {
            continue;
        }
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

/// The root mean square of the horizontal distance between two distributions of responses.
///
/// Both are read at as many heights as the longer has values; zero if one is empty.
pub fn demerit(one: &[Span], other: &[Span]) -> Span {
    let heights = one.len().max(other.len());
    if one.is_empty() || other.is_empty() {
        return Span::ZERO;
    }
    let [one, other] = [sorted(one), sorted(other)];
    let at = |values: &[u64], height: usize| values[height * values.len() / heights];
    let squares = (0..heights).map(|height| {
        let apart = at(&one, height).abs_diff(at(&other, height));
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

fn sorted(responses: &[Span]) -> Vec<u64> {
    let mut values: Vec<u64> = responses.iter().map(|response| response.0).collect();
    values.sort_unstable();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(values: &[u64]) -> Vec<Span> {
        values.iter().copied().map(Span).collect()
    }

    #[test]
    fn a_recording_reads_to_the_nanosecond() {
        let read = recording("R Hit 10 4 15362.00000 56074.5\nW Doub 7 1 1.2345 0\n").unwrap();
        assert_eq!(read[0].response, Span(15_362_000));
        assert_eq!(read[0].gap, Span(56_074_500));
        assert_eq!((read[1].kind, read[1].response), (Kind::Write, Span(1_234)));
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = recording("R Hit 10 4 1 1\nR Hit 10 4 1\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: not six fields; a line has R or W"), "{error}");
    }

    #[test]
    fn the_demerit_of_a_shift_is_the_shift() {
        assert_eq!(demerit(&spans(&[5, 1, 9]), &spans(&[4, 8, 12])), Span(3));
        assert_eq!(demerit(&spans(&[5, 1, 9]), &spans(&[9, 5, 1])), Span(0));
        // Half the mass is 10 apart: the root of 50.
        assert_eq!(demerit(&spans(&[0, 0, 0, 0]), &spans(&[0, 10])), Span(7));
    }
}
