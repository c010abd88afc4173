//! Where an axis has its marks, and how they read.
//!
//! Linear axes begin at zero, step by 1, 2 or 5 times a power of ten, and end at the first mark
//! that no value exceeds. Logarithmic ones are marked at 1, 2 and 5 of each power of ten while
//! there are few of them, else at the powers alone.

use super::chart::Scale;

/// Powers of ten that one axis may span; what lies further below its top is cut off.
const DECADES_MAX: i32 = 9;

/// Marks of an axis and its two ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ticks {
    pub(super) low: f64,
    pub(super) high: f64,
    scale: Scale,
    pub(super) marks: Vec<f64>,
}

impl Ticks {
    /// Marks for these values, about `wanted` of them. With `is_tight` a linear axis ends at the
    /// highest value, as time does.
    pub(super) fn of(
        values: impl Iterator<Item = f64>,
        scale: Scale,
        wanted: u32,
        is_tight: bool,
    ) -> Self {
        let values = values.filter(|value| value.is_finite());
        match scale {
            Scale::Linear => Self::linear(values.fold(0.0, f64::max), wanted, is_tight),
            Scale::Log => {
                let ends = values.filter(|&value| value > 0.0).fold(None, |ends, value| {
                    let (low, high) = ends.unwrap_or((value, value));
                    Some((value.min(low), value.max(high)))
                });
                Self::log(ends.unwrap_or((1.0, 10.0)))
            }
        }
    }

    /// Where a value lies between the ends, 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => {
                let low = self.low.log10();
                (value.max(self.low).log10() - low) / (self.high.log10() - low)
            }
        };
        part.clamp(0.0, 1.0)
    }

    /// What stands beside a mark.
    pub(super) fn label(&self, mark: f64) -> String {
        let step = match (self.scale, self.marks.as_slice()) {
            (Scale::Linear, [first, second, ..]) => second - first,
            _ => mark,
        };
        number(mark, step)
    }

    fn linear(highest: f64, wanted: u32, is_tight: bool) -> Self {
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let step = round_step(highest / f64::from(wanted));
        let high = if is_tight { highest } else { (highest / step - 1e-9).ceil() * step };
        let marks = (0u32..).map(|index| f64::from(index) * step);
        let marks = marks.take_while(|mark| *mark <= high + step * 1e-6).collect();
        Self { low: 0.0, high, scale: Scale::Linear, marks }
    }

    fn log((lowest, highest): (f64, f64)) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "an exponent of a double")]
        let (first, last) = (lowest.log10().floor() as i32, highest.log10().floor() as i32);
        let first = first.max(last - DECADES_MAX);
        let factors: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all: Vec<f64> = (first..=last + 1)
            .flat_map(|exponent| factors.iter().map(move |factor| factor * 10f64.powi(exponent)))
            .collect();
        let below = all.iter().rposition(|mark| *mark <= lowest * (1.0 + 1e-9)).unwrap_or(0);
        let above = all.iter().position(|mark| *mark >= highest * (1.0 - 1e-9));
        let above = above.unwrap_or(all.len() - 1).max(below + 1);
        let marks = all[below..=above].to_vec();
        Self { low: all[below], high: all[above], scale: Scale::Log, marks }
    }
}

/// The value that people would write on a bar: three digits.
pub(super) fn value(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    trimmed(format!("{value:.digits$}"))
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let magnitude = 10f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * magnitude >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * magnitude
}

/// A mark with as many decimals as its step has.
fn number(mark: f64, step: f64) -> String {
    if mark.abs() >= 1e6 {
        return trimmed(format!("{:.2}", mark / 1e6)) + "M";
    }
    if mark.abs() >= 1e4 {
        return trimmed(format!("{:.2}", mark / 1e3)) + "k";
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
    let digits = (-step.abs().max(1e-9).log10()).ceil().clamp(0.0, 9.0) as usize;
    trimmed(format!("{mark:.digits$}"))
}

fn trimmed(text: String) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], scale: Scale) -> Vec<String> {
        let ticks = Ticks::of(values.iter().copied(), scale, 5, false);
        ticks.marks.iter().map(|&mark| ticks.label(mark)).collect()
    }

    #[test]
    fn linear_marks_are_round_and_reach_above_the_highest_value() {
        assert_eq!(labels(&[5.8], Scale::Linear), ["0", "2", "4", "6"]);
        assert_eq!(labels(&[0.112], Scale::Linear), ["0", "0.05", "0.1", "0.15"]);
        assert_eq!(labels(&[16.1, 3.0], Scale::Linear), ["0", "5", "10", "15", "20"]);
        assert_eq!(labels(&[23_000.0], Scale::Linear), ["0", "5000", "10k", "15k", "20k", "25k"]);
        assert_eq!(labels(&[], Scale::Linear).first().map(String::as_str), Some("0"));
    }

    #[test]
    fn logarithmic_marks_surround_the_values() {
        assert_eq!(labels(&[3.0, 40.0], Scale::Log), ["2", "5", "10", "20", "50"]);
        assert_eq!(labels(&[0.03, 900.0], Scale::Log), ["0.01", "0.1", "1", "10", "100", "1000"]);
        assert_eq!(labels(&[1.0, 1.0], Scale::Log), ["1", "2"]);
        assert_eq!(labels(&[0.0, -1.0], Scale::Log), ["1", "2", "5", "10"]);
        let wide = Ticks::of([1e-300, 1e300].into_iter(), Scale::Log, 5, false);
        assert!(wide.marks.len() <= 12, "{wide:?}");
    }

    #[test]
    fn places_lie_within_the_axis() {
        let ticks = Ticks::of([1.0, 100.0].into_iter(), Scale::Log, 5, false);
        assert!((ticks.place(10.0) - 0.5).abs() < 1e-9);
        assert!(ticks.place(0.0) < 1e-9 && ticks.place(1e9) > 1.0 - 1e-9);
        let time = Ticks::of([30.3].into_iter(), Scale::Linear, 6, true);
        assert!((time.place(30.3) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn values_keep_three_digits() {
        assert_eq!([0.5, 1.0, 15.25, 120.4].map(value), ["0.5", "1", "15.2", "120"]);
    }
}
