//! Amounts rounded for tables: three digits at most, a unit that fits. Not for reading back; see
//! [`crate::units`] for that.

use evenkeel_core::time::Span;

/// Bytes, such as `1.5 GiB`.
pub fn size(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Bytes per second, such as `118 MiB/s`.
pub fn byte_rate(bytes_per_second: f64) -> String {
    size(bytes_per_second) + "/s"
}

/// A count or a rate without unit, such as `12.3k`.
pub fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T"]).replace(' ', "")
}

/// A duration, such as `3.2 ms`; a dash for none at all, and no finer than a microsecond.
pub fn duration(span: Span) -> String {
    match span.0 {
        0 => "-".to_owned(),
        1..1_000 => "<1 us".to_owned(),
        // Below a minute the unit steps by thousands; above, people count in minutes and hours.
        ns @ 1_000..60_000_000_000 => scaled_small(ns as f64),
        ns => {
            let seconds = ns / 1_000_000_000;
            match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
                (0, 0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
                (0, hours, minutes, _) => format!("{hours}h{minutes:02}m"),
                (days, hours, _, _) => format!("{days}d{hours:02}h"),
            }
        }
    }
}

/// So many things, such as `1 drive` or `3 drives`.
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A part of a whole, such as `75%`.
pub fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

fn scaled_small(ns: f64) -> String {
    scaled(ns, 1000.0, &["ns", "us", "ms", "s"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut index = 0;
    // 999.5 would round to four digits.
    while value >= 999.5 && index + 1 < units.len() {
        value /= step;
        index += 1;
    }
    let unit = units[index];
    let digits = usize::from(value < 99.95 && index > 0);
    let text = format!("{value:.digits$}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_to_three_digits() {
        assert_eq!(size(0.0), "0 B");
        assert_eq!(size(1_048_576.0), "1 MiB");
        assert_eq!(size(1_022_976.0), "999 KiB");
        assert_eq!(byte_rate(123_456_789.0), "118 MiB/s");
        assert_eq!(count(12_345.0), "12.3k");
        assert_eq!(count(1_234.0), "1.2k");
        assert_eq!(count(3.0), "3");
        assert_eq!(percent(0.745), "74%");
        assert_eq!([0, 1, 2].map(|few| counted(few, "drive")), ["0 drives", "1 drive", "2 drives"]);
    }

    #[test]
    fn durations_read_naturally() {
        let shown: Vec<_> = [0, 250, 3_200_000, 59_000_000_000, 61_000_000_000, 90_061_000_000_000]
            .map(|ns| duration(Span(ns)))
            .into();
        assert_eq!(shown, ["-", "<1 us", "3.2 ms", "59 s", "1m01s", "1d01h"]);
    }
}
