//! Little bars in a line of text, one per value.

/// Eighths of a character's height, least first; the lowest is drawn for nothing at all.
const BARS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

/// The bar of a part of the whole, 0 to 1.
pub fn bar(part: f64) -> char {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
    let level = (part.clamp(0.0, 1.0) * 7.0).round() as usize;
    BARS[level]
}

/// The bar of a value between two powers, on a logarithmic scale; `low` is above zero.
pub fn log_bar(value: f64, low: f64, high: f64) -> char {
    bar((value.max(low) / low).ln() / (high / low).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_with_their_values() {
        assert_eq!([0.0, 0.5, 1.0, 7.0].map(bar), ['\u{2581}', '\u{2585}', '\u{2588}', '\u{2588}']);
        assert_eq!(log_bar(1.0, 1.0, 1000.0), '\u{2581}');
        assert_eq!(log_bar(32.0, 1.0, 1000.0), bar(0.501));
        assert_eq!(log_bar(0.0, 1.0, 1000.0), '\u{2581}');
    }
}
