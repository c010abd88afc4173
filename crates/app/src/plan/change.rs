//! What changes for a tenant, in words.

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
    /// As now.
    Same,
    /// Its requests take more time.
    Worse,
    /// Nothing to compare with.
    Unknown,
}

impl Change {
    /// From the 99th percentiles of latency: the tail is what people feel.
    pub(super) fn of(present: Span, forecast: Span) -> Self {
        if present == Span::ZERO || forecast == Span::ZERO {
            return Self::Unknown;
        }
        let ratio = forecast.0 as f64 / present.0 as f64;
        match ratio {
            _ if ratio < 1.0 / (1.0 + NOTABLE) => Self::Better,
            _ if ratio > 1.0 + NOTABLE => Self::Worse,
            _ => Self::Same,
        }
    }

    /// The change for people: `better, p99 down 38 %`.
    pub(super) fn words(self, present: Span, forecast: Span) -> String {
        let ratio = forecast.0 as f64 / present.0.max(1) as f64;
        match self {
            Self::Better => format!("better, p99 down {:.0} %", (1.0 - ratio) * 100.0),
            Self::Same => "as now".to_owned(),
            Self::Worse if ratio < 2.0 => format!("worse, p99 up {:.0} %", (ratio - 1.0) * 100.0),
            Self::Worse if ratio < 10.0 => format!("worse, p99 {ratio:.1} times as long"),
            Self::Worse => format!("worse, p99 {ratio:.0} times as long"),
            Self::Unknown => "nothing to compare with".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(present_ms: u64, forecast_ms: u64) -> String {
        let (present, forecast) = (Span::from_millis(present_ms), Span::from_millis(forecast_ms));
        Change::of(present, forecast).words(present, forecast)
    }

    #[test]
    fn changes_read_as_people_say_them() {
        assert_eq!(words(100, 62), "better, p99 down 38 %");
        assert_eq!(words(100, 105), "as now");
        assert_eq!(words(100, 150), "worse, p99 up 50 %");
        assert_eq!(words(10, 42), "worse, p99 4.2 times as long");
        assert_eq!(words(1, 42), "worse, p99 42 times as long");
        assert_eq!(words(0, 42), "nothing to compare with");
    }
}
