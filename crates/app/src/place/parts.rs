//! Parts of a whole as people write them: `95%`, `2.5 %`, `0.95`; and as tables show them.

/// Parses a part of a whole, 0 to 1.
///
/// # Errors
/// Anything but a number from 0 to 1, or one from 0 to 100 with a percent sign.
pub(super) fn parse(text: &str) -> Result<f64, String> {
    let (number, whole) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let part = number.trim().parse::<f64>().ok().map(|number| number / whole);
    let within = part.filter(|part| (0.0..=1.0).contains(part));
    within.ok_or_else(|| "write a part of the whole, such as 95% or 0.95".to_owned())
}

/// A part with one decimal, such as `97.4%`; more of them close to the whole, where they matter.
pub(super) fn show(part: f64) -> String {
    match part * 100.0 {
        percent if (99.0..99.95).contains(&percent) => format!("{percent:.2}%"),
        percent => format!("{percent:.1}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_and_fractions_are_parts_and_more_than_the_whole_is_not() {
        assert_eq!(["95%", "2.5 %", "0.95", "1"].map(parse), [0.95, 0.025, 0.95, 1.0].map(Ok));
        assert!(["95", "-1%", "101%", "NaN", "much", ""].iter().all(|text| parse(text).is_err()));
    }

    #[test]
    fn digits_show_where_they_matter() {
        assert_eq!([0.7312, 0.9931, 1.0].map(show), ["73.1%", "99.31%", "100.0%"]);
    }
}
