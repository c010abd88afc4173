//! What a chart shows, as data.

use evenkeel_core::histogram::Histogram;

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below the title, smaller: the setting, or what was left out. May be empty.
    pub note: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn.
    pub body: Body,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it measures, with the unit: `latency (ms)`.
    pub label: String,
    /// How values lie on it.
    pub scale: Scale,
}

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero on.
    #[default]
    Linear,
    /// By their logarithm; values that are not above zero are left out.
    Log,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Lines through points.
    Lines(Vec<Line>),
    /// Groups of bars.
    Bars {
        /// Under each group.
        groups: Vec<String>,
        /// The bars of each group.
        series: Vec<Bars>,
    },
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// In the legend; empty for none, where the note says what it is.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// Dashed, as for the lesser of two lines that belong together.
    pub is_dashed: bool,
    /// Which colour; lines that belong together have the same.
    pub colour: usize,
}

/// One bar in each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// In the legend.
    pub name: String,
    /// One for each group; `None` leaves a gap.
    pub values: Vec<Option<f64>>,
}

impl Axis {
    /// An axis on which values lie evenly.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    /// An axis on which values lie by their logarithm.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log }
    }
}

impl Line {
    /// The part of durations at or below each duration, against milliseconds.
    pub fn distribution(name: impl Into<String>, histogram: &Histogram, colour: usize) -> Self {
        let total = histogram.count().max(1) as f64;
        let mut seen = 0;
        let mut points = Vec::new();
        for (bound, count) in histogram.buckets() {
            let milliseconds = bound.0 as f64 / 1e6;
            // A step: the part grows at the bound, not on the way to it.
            points.push((milliseconds, seen as f64 / total));
            seen += count;
            points.push((milliseconds, seen as f64 / total));
        }
        Self { name: name.into(), points, is_dashed: false, colour }
    }

    /// The same line, dashed.
    #[must_use]
    pub fn dashed(self) -> Self {
        Self { is_dashed: true, ..self }
    }
}

impl Bars {
    /// No bar yet.
    pub fn empty(name: &str) -> Self {
        Self { name: name.to_owned(), values: Vec::new() }
    }
}

impl Chart {
    /// Bars by group, upwards from zero.
    pub fn bars(
        title: impl Into<String>,
        y: impl Into<String>,
        groups: Vec<String>,
        series: Vec<Bars>,
    ) -> Self {
        Self {
            title: title.into(),
            note: String::new(),
            x: Axis::default(),
            y: Axis::linear(y),
            body: Body::Bars { groups, series },
        }
    }

    /// Lines over seconds.
    pub fn over_time(title: impl Into<String>, y: impl Into<String>, lines: Vec<Line>) -> Self {
        Self {
            title: title.into(),
            note: String::new(),
            x: Axis::linear("time (s)"),
            y: Axis::linear(y),
            body: Body::Lines(lines),
        }
    }

    /// Distributions of durations, from [`Line::distribution`].
    pub fn distributions(title: impl Into<String>, x: impl Into<String>, lines: Vec<Line>) -> Self {
        Self {
            title: title.into(),
            note: String::new(),
            x: Axis::log(x),
            y: Axis::linear("part of requests"),
            body: Body::Lines(lines),
        }
    }

    /// The same chart with a note under its title.
    #[must_use]
    pub fn noting(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;

    use super::*;

    #[test]
    fn a_distribution_climbs_to_one() {
        let mut histogram = Histogram::default();
        for ms in [1, 2, 2, 4] {
            histogram.record(Span::from_millis(ms));
        }
        let line = Line::distribution("all", &histogram, 0);
        let parts: Vec<f64> = line.points.iter().map(|point| point.1).collect();
        assert_eq!(parts, [0.0, 0.25, 0.25, 0.75, 0.75, 1.0]);
        assert!((line.points[5].0 - 4.0).abs() < 0.2, "in milliseconds: {:?}", line.points);
    }
}
