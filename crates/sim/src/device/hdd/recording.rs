//! Recordings of real drives: what was asked of a drive, and how long it took.
//!
//! ```text
//!   R Hit  1390458  14  12434.375  27307.318970
//!   |  |      |      |      |           `- us from the answer to the next request
//!   |  |      |      |      `- us that the drive took
//!   |  |      |      `- sectors of 512 bytes
//!   |  |      `- first sector
//!   |  `- what the buffer did, not used
//!   `- R or W
//! ```
//!
//! Source: the validation traces of DiskSim 4.0 (Bucy, Schindler, Schlosser and Ganger, "The
//! DiskSim Simulation Environment Version 4.0 Reference Manual", CMU-PDL-08-101). The text comes
//! from outside: every number has a bound, so that no sum of them overflows.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;

/// The most requests that a recording may have.
pub const REQUESTS_MAX: usize = 1_000_000;

/// The sector behind the last that any drive has: 2^63 bytes hold no more.
const SECTORS_MAX: u64 = 1 << 54;

/// The most sectors of a request, 128 MiB.
const REQUEST_SECTORS_MAX: u64 = 1 << 18;

/// The longest response and the longest gap; as many as there may be fit into 64 bits.
const TIME_MAX: Span = Span::from_secs(3600);

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
pub enum RecordingError {
    /// A line of another form.
    #[error(
        "line {line}: {problem}; a line has R or W, a word, first sector, sectors, response in us, \
         gap to the next request in us"
    )]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Nothing to compare with.
    #[error("it has no request")]
    Empty,
    /// More than [`REQUESTS_MAX`].
    #[error("it has more than {REQUESTS_MAX} requests; cut it")]
    TooLong,
}

/// Reads a recording: a request per line, in the form that the [module](self) draws. Empty lines
/// count as none.
///
/// # Errors
///
/// The first line of another form; a recording without requests or with too many.
pub fn parse(text: &str) -> Result<Vec<Measured>, RecordingError> {
    let mut requests = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if requests.len() == REQUESTS_MAX {
            return Err(RecordingError::TooLong);
        }
        let at = |problem| RecordingError::Line { line: index + 1, problem };
        requests.push(measured(line).map_err(at)?);
    }
    if requests.is_empty() { Err(RecordingError::Empty) } else { Ok(requests) }
}

fn measured(line: &str) -> Result<Measured, &'static str> {
    let mut fields = line.split_whitespace();
    let mut next = || fields.next().ok_or("fewer than six fields");
    let [kind, _, sector, sectors, response, gap] =
        [next()?, next()?, next()?, next()?, next()?, next()?];
    if fields.next().is_some() {
        return Err("more than six fields");
    }
    let kind = match kind {
        "R" => Kind::Read,
        "W" => Kind::Write,
        _ => return Err("neither R nor W"),
    };
    let sector: u64 = sector.parse().map_err(|_| "the first sector is no number")?;
    let sectors: u64 = sectors.parse().map_err(|_| "the number of sectors is no number")?;
    if !(1..=REQUEST_SECTORS_MAX).contains(&sectors) {
        return Err("a request has between 1 and 262,144 sectors");
    }
    if sector > SECTORS_MAX - sectors {
        return Err("the request ends beyond 2^54 sectors");
    }
    Ok(Measured {
        kind,
        sector,
        sectors,
        response: time(response, "the response is no time in us", "the response exceeds an hour")?,
        gap: time(gap, "the gap is no time in us", "the gap exceeds an hour")?,
    })
}

fn time(text: &str, none: &'static str, long: &'static str) -> Result<Span, &'static str> {
    let time = microseconds(text).ok_or(none)?;
    if time > TIME_MAX { Err(long) } else { Ok(time) }
}

/// `12.3456` microseconds, to the nanosecond.
fn microseconds(text: &str) -> Option<Span> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let whole: u64 = whole.parse().ok()?;
    Some(Span(whole.checked_mul(1_000)?.checked_add(digits.parse().ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_reads_to_the_nanosecond() {
        let read = parse("R Hit 10 4 15362.00000 56074.5\n\nW Doub 7 1 1.2345 0\n").unwrap();
        assert_eq!(read[0].response, Span(15_362_000));
        assert_eq!(read[0].gap, Span(56_074_500));
        assert_eq!((read[1].kind, read[1].response), (Kind::Write, Span(1_234)));
    }

    #[test]
    fn a_bad_line_is_named_with_what_is_wrong_and_what_is_right() {
        for (line, problem) in [
            ("R Hit 10 4 1", "fewer than six fields"),
            ("R Hit 10 4 1 1 1", "more than six fields"),
            ("0 Hit 10 4 1 1", "neither R nor W"),
            ("R Hit -1 4 1 1", "the first sector is no number"),
            ("R Hit 10 x 1 1", "the number of sectors is no number"),
            ("R Hit 10 0 1 1", "a request has between 1 and 262,144 sectors"),
            ("R Hit 10 262145 1 1", "a request has between 1 and 262,144 sectors"),
            ("R Hit 18446744073709551615 1 1 1", "the request ends beyond 2^54 sectors"),
            ("R Hit 10 4 1e3 1", "the response is no time in us"),
            ("R Hit 10 4 1.2345x 1", "the response is no time in us"),
            ("R Hit 10 4 1 +1", "the gap is no time in us"),
            ("R Hit 10 4 1 1.-5", "the gap is no time in us"),
            ("R Hit 10 4 99999999999999999999 1", "the response is no time in us"),
            ("R Hit 10 4 3600000001 1", "the response exceeds an hour"),
            ("R Hit 10 4 1 3600000000.001", "the gap exceeds an hour"),
        ] {
            let error = parse(&format!("R Hit 10 4 1 1\n{line}\n")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line 2: {problem}; a line has R or W")), "{error}");
        }
    }

    #[test]
    fn a_recording_has_a_request_and_at_most_a_million() {
        assert_eq!(parse(" \n\n"), Err(RecordingError::Empty));
        let long = "R Hit 10 4 1 1\n".repeat(REQUESTS_MAX + 1);
        assert_eq!(parse(&long), Err(RecordingError::TooLong));
    }
}
