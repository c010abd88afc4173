//! What a failing row missed, in its own words: for rows that give no reason.
//!
//! ```text
//! measured "23.5 % on average", demanded "at least 86 % on average"
//!   -> measured 23.5 % on average; must be at least 86 % on average: 62.5 % short
//! ```

/// What was missed, and by how much where both texts name one figure in one unit.
pub fn missed(measured: &str, demanded: &str) -> String {
    match (measured, demanded) {
        ("", "") => "the row says neither what was measured nor what must be".to_owned(),
        (measured, "") => format!("measured {measured}"),
        ("", demanded) => format!("must be {demanded}"),
        (measured, demanded) => {
            let distance = distance(measured, demanded);
            let distance = distance.map_or_else(String::new, |distance| format!(": {distance}"));
            format!("measured {measured}; must be {demanded}{distance}")
        }
    }
}

/// How far the figure that `measured` begins with is beyond the bound that `demanded` begins with.
/// None if either has no such figure, if their units differ, or if the bound is not missed.
fn distance(measured: &str, demanded: &str) -> Option<String> {
    let (is_least, bound) = match demanded.split_once(char::is_whitespace)? {
        ("<=", bound) => (false, bound),
        (">=", bound) => (true, bound),
        ("at", rest) => match rest.split_once(char::is_whitespace)? {
            ("least", bound) => (true, bound),
            ("most", bound) => (false, bound),
            _ => return None,
        },
        _ => return None,
    };
    let ((figure, unit), (bound, same)) = (leading(measured)?, leading(bound)?);
    let beyond = if is_least { bound - figure } else { figure - bound };
    if unit != same || beyond <= 0.0 {
        return None;
    }
    let (beyond, word) = (shortest(beyond), if is_least { "short" } else { "over" });
    Some(if unit.is_empty() {
        format!("{beyond} {word}")
    } else {
        format!("{beyond} {unit} {word}")
    })
}

/// The number that a text begins with, and its unit: the word behind it, unless a clause follows.
fn leading(text: &str) -> Option<(f64, &str)> {
    let (number, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let unit = rest.split([' ', ',', ';', '(']).next().unwrap_or_default();
    Some((number.parse().ok().filter(|number: &f64| number.is_finite())?, unit))
}

/// Three digits behind the point at most.
fn shortest(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_says_what_was_missed_and_by_how_much() {
        for (measured, demanded, wanted) in [
            ("23.5 % on average", "at least 86 % on average", ": 62.5 % short"),
            ("1.2 % (98.8 for 100.0 MB/s)", "<= 1 %", ": 0.2 % over"),
            ("+46 % (last 1343 MB/s)", "at least +80 %", ": 34 % short"),
            ("0.750", "at least 0.95", ": 0.2 short"),
            ("31.5 us", "<= 20 us", ": 11.5 us over"),
            ("3", "at most 1", ": 2 over"),
        ] {
            let text = missed(measured, demanded);
            assert_eq!(text, format!("measured {measured}; must be {demanded}{wanted}"));
        }
    }

    #[test]
    fn no_distance_is_made_up() {
        for (measured, demanded) in [
            ("43 + 23 / 23 + 10 MB/s = 2.0", "at least 3 times"),
            ("120 of 125 windows", "98 % of windows within 20 ms"),
            ("31.5 us", "at most 2 ms"),
            ("15.9", "16 to 18"),
            ("0.9 %", "<= 1 %"),
            ("busy 95.0 %", "slow >= 97 %"),
            ("nan", "at least 3"),
        ] {
            let text = missed(measured, demanded);
            assert_eq!(text, format!("measured {measured}; must be {demanded}"));
        }
        assert_eq!(missed("7", ""), "measured 7");
        assert_eq!(missed("", "none"), "must be none");
    }
}
