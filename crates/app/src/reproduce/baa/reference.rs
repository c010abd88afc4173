//! The talk's figures and the fluid model's, from `reference.toml`.

use evenkeel_core::share::{Client, Demand, Problem};
use serde::Deserialize;

use super::linux::Totals;
use crate::reproduce::data_file;

/// All of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    /// How far a simulation may lie from the fluid, as a part of a device.
    pub(super) slide_tolerance: f64,
    pub(super) row: Vec<Row>,
    pub(super) misprint: Vec<Misprint>,
    pub(super) linux: Totals,
}

/// One allocation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) slide: String,
    /// Of the slow and the fast device, in requests per second.
    pub(super) capacities: [f64; 2],
    /// By client: the part of its requests that the fast device serves.
    pub(super) hit_ratios: Vec<Exact>,
    /// Hit ratios that the rates were solved for, where those are out of date.
    #[serde(default)]
    pub(super) solved_for: Vec<Exact>,
    pub(super) discipline: Discipline,
    /// By client, in requests per second.
    pub(super) rates: Vec<Exact>,
    /// Part of each device that is busy.
    pub(super) utilisation: [Exact; 2],
    /// Fair shares that the clients of each set get.
    pub(super) levels: Option<[Exact; 2]>,
    /// What each client has of the device of which it has most.
    pub(super) dominant_share: Option<Exact>,
    #[serde(default)]
    pub(super) printed: Printed,
}

/// What a slide shows of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Printed {
    pub(super) rates: Vec<f64>,
    /// Of the slow device, or of both.
    pub(super) utilisation: Vec<f64>,
    pub(super) dominant_share: Option<f64>,
}

/// Hit ratios as printed where they cannot be meant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Misprint {
    pub(super) slide: String,
    pub(super) capacities: [f64; 2],
    pub(super) hit_ratios: Vec<Exact>,
    /// Of the fast device, by DRF and BAA alike.
    pub(super) utilisation: Exact,
    /// Of the fast device, by BAA.
    pub(super) printed: f64,
}

/// How a row was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Discipline {
    /// Equal requests.
    FairQueuing,
    /// Equal dominant shares.
    Drf,
    /// Bottleneck-aware.
    Baa,
    /// No allocation: what equal slices of both devices would serve.
    FairShares,
}

/// A number without rounding error: an integer, a decimal, or a fraction as text (`"500/3"`).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub(super) struct Exact(pub(super) f64);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Fraction(String),
}

impl TryFrom<Written> for Exact {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let text = match written {
            Written::Number(number) => return Ok(Self(number)),
            Written::Fraction(text) => text,
        };
        let parts = text.split_once('/').and_then(|(numerator, denominator)| {
            Some((numerator.parse::<f64>().ok()?, denominator.parse::<f64>().ok()?))
        });
        match parts {
            Some((numerator, denominator)) => Ok(Self(numerator / denominator)),
            None => Err(format!("{text:?} is no fraction, such as \"500/3\"")),
        }
    }
}

impl Reference {
    /// The figures of the data file.
    pub(super) fn load() -> Self {
        data_file(include_str!("reference.toml"))
    }
}

impl Discipline {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FairQueuing => "fair queuing",
            Self::Drf => "DRF",
            Self::Baa => "BAA",
            Self::FairShares => "fair shares",
        }
    }
}

/// Backlogged clients of equal weight with these hit ratios.
pub(super) fn problem(capacities: [f64; 2], hit_ratios: &[Exact]) -> Problem {
    let client = |hit_ratio: &Exact| Client::backlogged(1.0, Demand::hit_ratio(hit_ratio.0));
    Problem::new(&capacities, hit_ratios.iter().map(client).collect())
        .expect("the data file is part of the build")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_its_figure() {
        for row in Reference::load().row {
            assert_eq!(row.rates.len(), row.hit_ratios.len(), "{row:?}");
            let Printed { rates, utilisation, .. } = &row.printed;
            assert!(rates.is_empty() || rates.len() == row.rates.len(), "{row:?}");
            assert!(utilisation.len() <= 2, "{row:?}");
        }
    }

    #[test]
    fn fractions_are_read_without_rounding_on_the_way() {
        let exact = |text: &str| Exact::try_from(Written::Fraction(text.to_owned()));
        assert_eq!(exact("500/3"), Ok(Exact(500.0 / 3.0)));
        assert!(exact("500").is_err() && exact("a/3").is_err());
    }
}
