//! Amounts as people write them: `4 MiB`, `200 MiB/s`, `2k iops`, `10 ms`.
//!
//! ```text
//! amount   = number [space] unit
//! number   = digits ["." digits]            exact: no floating point is involved
//! size     = B | KiB MiB GiB TiB (powers of 1024) | kB MB GB TB (powers of 1000)
//! rate     = size "/s" | iops | k iops | M iops
//! duration = ns us ms s min h
//! count    = requests
//! ```
//!
//! Printing picks the largest unit that is exact, so that what is printed reads back as the same
//! amount. [`crate::human`] rounds instead, for tables.

use evenkeel_core::bytes::{Bytes, UNITS as BYTES};
use evenkeel_core::time::Span;

const IOPS: &[(&str, u64)] = &[("M iops", 1_000_000), ("k iops", 1_000), ("iops", 1)];

const REQUESTS: &[(&str, u64)] = &[("requests", 1)];

const NANOSECONDS: &[(&str, u64)] = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Most digits after the point; more would be finer than a nanosecond of a second.
const FRACTION_DIGITS_MAX: usize = 9;

/// Why a text is no amount, and how one is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}: {reason}")]
pub struct UnitError {
    /// What was written.
    pub text: String,
    /// What is wanted there, such as `a size`.
    pub expected: &'static str,
    /// What is wrong with it.
    pub reason: String,
    /// Examples of what would be right.
    pub examples: &'static str,
}

/// Something per second, or at once: of bytes, or of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Requests.
    Requests(u64),
}

/// The amounts that are set, of two of which zero stands for none.
pub fn amounts(bytes: u64, requests: u64) -> Vec<Amount> {
    let bytes = (bytes > 0).then_some(Amount::Bytes(bytes));
    let requests = (requests > 0).then_some(Amount::Requests(requests));
    bytes.into_iter().chain(requests).collect()
}

/// One kind of amount: what it is called, how it is written.
struct Form {
    expected: &'static str,
    examples: &'static str,
    units: &'static [(&'static str, u64)],
}

const SIZE: Form =
    Form { expected: "a size", examples: "`4 KiB`, `1.5 GiB`, `512 MB`", units: BYTES };

const DURATION: Form =
    Form { expected: "a duration", examples: "`250 us`, `10 ms`, `1.5 s`", units: NANOSECONDS };

/// Parses a size in bytes.
///
/// # Errors
/// Anything but an exact, whole number of bytes below 2^64 with a unit.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    parse(text, &SIZE, BYTES, text)
}

/// Prints a size so that [`parse_size`] reads it back.
pub fn print_size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// Parses a duration.
///
/// # Errors
/// Anything but an exact, whole number of nanoseconds below 2^64 with a unit.
pub fn parse_duration(text: &str) -> Result<Span, UnitError> {
    parse(text, &DURATION, NANOSECONDS, text).map(Span)
}

/// Prints a duration so that [`parse_duration`] reads it back.
pub fn print_duration(span: Span) -> String {
    if span == Span::ZERO {
        return "0 s".to_owned();
    }
    print(span.0, NANOSECONDS)
}

/// Parses a rate in bytes or requests per second.
///
/// # Errors
/// Anything but a size followed by `/s`, or a number followed by `iops`.
pub fn parse_rate(text: &str) -> Result<Amount, UnitError> {
    let form =
        Form { expected: "a rate", examples: "`200 MiB/s`, `500 iops`, `2k iops`", units: BYTES };
    if text.ends_with("iops") {
        return parse(text, &form, IOPS, text).map(Amount::Requests);
    }
    match text.strip_suffix("/s") {
        Some(size) => parse(size, &form, BYTES, text).map(Amount::Bytes),
        None => Err(form.error(text, "it ends with neither `/s` nor `iops`".to_owned())),
    }
}

/// Prints a rate so that [`parse_rate`] reads it back.
pub fn print_rate(rate: Amount) -> String {
    match rate {
        Amount::Bytes(bytes) => print(bytes, BYTES) + "/s",
        Amount::Requests(requests) => print(requests, IOPS).replace(" k", "k").replace(" M", "M"),
    }
}

/// Parses a burst: a size, or a number of requests.
///
/// # Errors
/// Anything but a size, or a number followed by `requests`.
pub fn parse_burst(text: &str) -> Result<Amount, UnitError> {
    let form = Form { expected: "a burst", examples: "`4 MiB`, `100 requests`", units: BYTES };
    if text.ends_with("requests") {
        return parse(text, &form, REQUESTS, text).map(Amount::Requests);
    }
    parse(text, &form, BYTES, text).map(Amount::Bytes)
}

/// Prints a burst so that [`parse_burst`] reads it back.
pub fn print_burst(burst: Amount) -> String {
    match burst {
        Amount::Bytes(bytes) => print(bytes, BYTES),
        Amount::Requests(requests) => print(requests, REQUESTS),
    }
}

/// Parses a rate in bytes per second.
///
/// # Errors
/// As [`parse_rate`]; a rate in requests has no place here.
pub fn parse_byte_rate(text: &str) -> Result<u64, UnitError> {
    let form =
        Form { expected: "a rate in bytes", examples: "`200 MiB/s`, `1.5 GB/s`", units: BYTES };
    match text.strip_suffix("/s") {
        Some(size) => parse(size, &form, BYTES, text),
        None => Err(form.error(text, "it does not end with `/s`".to_owned())),
    }
}

/// Parses a rate in requests per second.
///
/// # Errors
/// As [`parse_rate`]; a rate in bytes has no place here.
pub fn parse_request_rate(text: &str) -> Result<u64, UnitError> {
    let form =
        Form { expected: "a rate in requests", examples: "`500 iops`, `2k iops`", units: IOPS };
    parse(text, &form, IOPS, text)
}

impl Form {
    fn error(&self, text: &str, reason: String) -> UnitError {
        let shown: String = text.chars().take(40).collect();
        UnitError { text: shown, expected: self.expected, reason, examples: self.examples }
    }

    fn unit_error(&self, whole: &str, unit: &str) -> UnitError {
        let reason = if unit.is_empty() {
            "it has no unit".to_owned()
        } else {
            let known: Vec<_> = self.units.iter().rev().map(|(name, _)| *name).collect();
            let shown: String = unit.chars().take(20).collect();
            format!("`{shown}` is no unit here; known are {}", known.join(", "))
        };
        self.error(whole, reason)
    }
}

/// Parses `text`; errors show `whole`, of which `text` may be a part.
fn parse(text: &str, form: &Form, units: &[(&str, u64)], whole: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let (whole_part, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole_part.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return Err(form.error(whole, "it does not begin with a number".to_owned()));
    }
    if fraction.len() > FRACTION_DIGITS_MAX {
        let reason = format!("more than {FRACTION_DIGITS_MAX} digits after the point");
        return Err(form.error(whole, reason));
    }
    let squeezed = unit.replace(' ', "");
    let known = units.iter().find(|(name, _)| name.replace(' ', "") == squeezed);
    let &(_, factor) = known.ok_or_else(|| form.unit_error(whole, unit))?;

    let too_large = || form.error(whole, "it is too large".to_owned());
    let digits: u128 = format!("{whole_part}{fraction}").parse().map_err(|_| too_large())?;
    let scaled = digits.checked_mul(u128::from(factor)).ok_or_else(too_large)?;
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).expect("bounded above"));
    if !scaled.is_multiple_of(divisor) {
        let smallest = units.last().map_or("", |(name, _)| name);
        return Err(form.error(whole, format!("it is no whole number of `{smallest}`")));
    }
    u64::try_from(scaled / divisor).map_err(|_| too_large())
}

fn print(value: u64, units: &[(&str, u64)]) -> String {
    let smallest = units.last().expect("a table of units has entries");
    let exact = units.iter().filter(|(_, factor)| value.is_multiple_of(*factor));
    let best = exact.max_by_key(|(_, factor)| *factor).unwrap_or(smallest);
    let (name, factor) = if value == 0 { smallest } else { best };
    format!("{} {name}", value / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_read_as_people_mean_them() {
        assert_eq!(parse_size("4 MiB"), Ok(4 << 20));
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_size("512 MB"), Ok(512_000_000));
        assert_eq!(parse_rate("2k iops"), Ok(Amount::Requests(2_000)));
        assert_eq!(parse_rate("1.5 kiops"), Ok(Amount::Requests(1_500)));
        assert_eq!(parse_rate("200 MiB/s"), Ok(Amount::Bytes(200 << 20)));
        assert_eq!(parse_duration("0.25 ms"), Ok(Span::from_micros(250)));
        assert_eq!(parse_burst("100 requests"), Ok(Amount::Requests(100)));
    }

    #[test]
    fn amounts_print_in_the_largest_exact_unit() {
        assert_eq!(print_size(4 << 20), "4 MiB");
        assert_eq!(print_size(1_000_000), "1 MB");
        assert_eq!(print_size(4_097), "4097 B");
        assert_eq!(print_rate(Amount::Requests(2_000)), "2k iops");
        assert_eq!(print_duration(Span::from_millis(1_500)), "1500 ms");
        assert_eq!(print_duration(Span::ZERO), "0 s");
    }

    #[test]
    fn an_error_names_the_reason() {
        let reason = |text| parse_size(text).unwrap_err().reason;
        assert_eq!(reason("4096"), "it has no unit");
        assert_eq!(reason("MiB"), "it does not begin with a number");
        assert_eq!(reason("1.2.3 MiB"), "it does not begin with a number");
        assert_eq!(reason("0.3 B"), "it is no whole number of `B`");
        assert_eq!(reason("99999999999 TiB"), "it is too large");
        assert!(reason("4 mib").starts_with("`mib` is no unit here; known are B, kB, KiB"));
        assert!(parse_rate("200 MiB").is_err());
        assert!(parse_byte_rate("200 iops").is_err());
        assert_eq!(parse_request_rate("1.5k iops"), Ok(1_500));
        assert!(parse_request_rate("200 MiB/s").is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(value: u64) {
            prop_assert_eq!(parse_size(&print_size(value)), Ok(value));
            prop_assert_eq!(parse_duration(&print_duration(Span(value))), Ok(Span(value)));
            for amount in [Amount::Bytes(value), Amount::Requests(value)] {
                prop_assert_eq!(parse_rate(&print_rate(amount)), Ok(amount));
                prop_assert_eq!(parse_burst(&print_burst(amount)), Ok(amount));
            }
        }

        #[test]
        fn no_text_makes_a_parser_panic(
            text in ".{0,40}", number in "[0-9.]{0,60} ?[a-zA-Z/]{0,6}",
        ) {
            for text in [&text, &number] {
                let _ = (parse_size(text), parse_duration(text));
                let _ = (parse_rate(text), parse_byte_rate(text), parse_request_rate(text));
                let _ = parse_burst(text);
            }
        }
    }
}
