//! What changes for a tenant, in words.
//!
//! Both the mean and the 99th percentile count: a tenant whose tail shrinks while its mean grows
//! sevenfold is not better off, and neither is one of whom the opposite is true.

use evenkeel_core::time::Span;
use serde::Serialize;

/// A change of less than this part is none: the model is not as exact.
const NOTABLE: f64 = 0.10;

/// Whether a tenant is better off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// Its requests take less time.
    Better,
    /// There is no difference that the model could tell.
    Same,
    /// Its requests take more time.
    Worse,
    /// Its mean goes one way and its 99th percentile the other.
    Mixed,
    /// Nothing to compare with.
    Unknown,
}

/// The two figures of a tenant that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) mean: Span,
    pub(super) p99: Span,
}

/// One figure before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trend {
    Down,
    Level,
    Up,
}

impl Change {
    /// From the present to the forecast; without a present, or without requests, nothing is known.
    pub(super) fn of(present: Option<Figures>, forecast: Figures) -> Self {
        let Some(present) = present.filter(|present| present.mean > Span::ZERO) else {
            return Self::Unknown;
        };
        if forecast.mean == Span::ZERO {
            return Self::Unknown;
        }
        let trends = [Trend::of(present.mean, forecast.mean), Trend::of(present.p99, forecast.p99)];
        match (trends.contains(&Trend::Down), trends.contains(&Trend::Up)) {
            (true, false) => Self::Better,
            (false, true) => Self::Worse,
            (true, true) => Self::Mixed,
            (false, false) => Self::Same,
        }
    }

    /// The change for people: `better, mean down 12 %, p99 down 38 %`.
    pub(super) fn words(self, present: Option<Figures>, forecast: Figures) -> String {
        let (word, present) = match (self, present) {
            (Self::Same, _) => return "no difference".to_owned(),
            (Self::Unknown, _) | (_, None) => return "nothing to compare with".to_owned(),
            (Self::Better, Some(present)) => ("better", present),
            (Self::Worse, Some(present)) => ("worse", present),
            (Self::Mixed, Some(present)) => ("mixed", present),
        };
        let figures = [("mean", present.mean, forecast.mean), ("p99", present.p99, forecast.p99)];
        let moved = figures.into_iter().filter_map(|(name, before, after)| {
            Some(format!("{name} {}", Trend::of(before, after).words(before, after)?))
        });
        format!("{word}, {}", moved.collect::<Vec<_>>().join(", "))
    }
}

impl Trend {
    fn of(before: Span, after: Span) -> Self {
        match ratio(before, after) {
            ratio if ratio < 1.0 / (1.0 + NOTABLE) => Self::Down,
            ratio if ratio > 1.0 + NOTABLE => Self::Up,
            _ => Self::Level,
        }
    }

    fn words(self, before: Span, after: Span) -> Option<String> {
        let ratio = ratio(before, after);
        match self {
            Self::Level => None,
            Self::Down => Some(format!("down {:.0} %", (1.0 - ratio) * 100.0)),
            Self::Up if ratio < 2.0 => Some(format!("up {:.0} %", (ratio - 1.0) * 100.0)),
            Self::Up if ratio < 10.0 => Some(format!("{ratio:.1} times as long")),
            Self::Up => Some(format!("{ratio:.0} times as long")),
        }
    }
}

fn ratio(before: Span, after: Span) -> f64 {
    after.0 as f64 / before.0.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(present_ms: (u64, u64), forecast_ms: (u64, u64)) -> String {
        let [present, forecast] = [present_ms, forecast_ms].map(|(mean, p99)| Figures {
            mean: Span::from_millis(mean),
            p99: Span::from_millis(p99),
        });
        Change::of(Some(present), forecast).words(Some(present), forecast)
    }

    #[test]
    fn changes_read_as_people_say_them() {
        assert_eq!(words((50, 100), (49, 62)), "better, p99 down 38 %");
        assert_eq!(words((50, 100), (25, 50)), "better, mean down 50 %, p99 down 50 %");
        assert_eq!(words((50, 100), (52, 105)), "no difference");
        assert_eq!(words((50, 100), (50, 150)), "worse, p99 up 50 %");
        assert_eq!(
            words((10, 20), (42, 84)),
            "worse, mean 4.2 times as long, p99 4.2 times as long"
        );
        assert_eq!(words((1, 2), (42, 2)), "worse, mean 42 times as long");
        assert_eq!(words((0, 0), (42, 42)), "nothing to compare with");
    }

    #[test]
    fn a_mean_that_grows_sevenfold_is_never_better() {
        assert_eq!(
            words((52, 2_000), (362, 1_000)),
            "mixed, mean 7.0 times as long, p99 down 50 %"
        );
    }

    #[test]
    fn without_a_present_there_is_no_verdict() {
        let forecast = Figures { mean: Span(5), p99: Span(9) };
        assert_eq!(Change::of(None, forecast), Change::Unknown);
        assert_eq!(Change::Unknown.words(None, forecast), "nothing to compare with");
    }
}
