//! A workload as data: what a generator draws from.

use std::fmt;

use evenkeel_core::time::Span;

use super::arrivals::{ArrivalProfile, STEP};
use super::sizes::SizeMix;
use super::targets::Target;
use crate::Sources;

/// A workload. The default reads 4 KiB at random, a hundred times a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// What it resembles, and whose figures those are.
    pub origin: String,
    /// Who makes the requests, each on a device of its own; at least one.
    pub sources: Vec<SourceProfile>,
    /// Reads by requests, 0 to 1; the rest are writes.
    pub read_share: f64,
    /// The sizes of reads.
    pub read_sizes: SizeMix,
    /// The sizes of writes.
    pub write_sizes: SizeMix,
    /// When requests arrive.
    pub arrivals: ArrivalProfile,
    /// Where they go.
    pub places: PlaceProfile,
    /// What the trace that it resembles has.
    pub targets: Vec<Target>,
}

/// One source of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceProfile {
    /// Its name.
    pub name: String,
    /// Its part of the requests, in proportion to the others'.
    pub weight: f64,
}

/// Where requests go on the device of their source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlaceProfile {
    /// The size of the device of each source.
    pub device_bytes: u64,
    /// Places are multiples of it; a power of two from 512.
    pub alignment_bytes: u64,
    /// Objects that all sources together use, spread over the devices; each source has its part by
    /// weight. A request that continues no other begins at the start of an object.
    pub objects: u64,
    /// The size of the slot that an object lies in, a multiple of the alignment.
    pub object_bytes: u64,
    /// The Zipf exponent of the objects' popularity, 0 (all alike) to 3.
    pub skew: f64,
    /// Ranks of Zipf's law that each object stands for, at least one: see [`Profile::divided`].
    pub ranks_each: u64,
    /// The part of the requests that continue where the same source's last one ended, as its kind.
    pub sequential_share: f64,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            name: "plain".to_owned(),
            origin: "Poisson arrivals of 4 KiB reads at random".to_owned(),
            sources: vec![SourceProfile { name: "0".to_owned(), weight: 1.0 }],
            read_share: 1.0,
            read_sizes: SizeMix::fixed(4096),
            write_sizes: SizeMix::fixed(4096),
            arrivals: ArrivalProfile {
                rate_per_second: 100.0,
                gap_variation: 1.0,
                wave: None,
                phases: None,
            },
            places: PlaceProfile {
                device_bytes: 1 << 30,
                alignment_bytes: 4096,
                objects: 1 << 18,
                object_bytes: 4096,
                skew: 0.0,
                ranks_each: 1,
                sequential_share: 0.0,
            },
            targets: Vec::new(),
        }
    }
}

/// The most ranks that an object may stand for, so that ranks stay far below 2^64.
const RANKS_EACH_MAX: u64 = 1 << 20;

/// A figure of a profile that no workload can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// The profile's name.
    pub profile: String,
    /// The figure's name.
    pub figure: &'static str,
    /// What it may be.
    pub allowed: &'static str,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, figure, allowed } = self;
        write!(f, "profile `{profile}`: {figure} must be {allowed}")
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// The same workload on so many times fewer objects and bytes of device. An object has the
    /// popularity of so many objects together, so that the same part of the requests goes to the
    /// same part of the objects: what a cache of a part of the device hits stays the same. With
    /// Zipf's law over fewer objects instead, the most popular part would get less.
    #[must_use]
    pub fn divided(&self, divisor: u64) -> Self {
        let mut profile = self.clone();
        let places = &mut profile.places;
        places.objects = (places.objects / divisor).max(1);
        places.ranks_each *= divisor;
        places.device_bytes = (places.device_bytes / divisor).next_multiple_of(places.object_bytes);
        profile
    }

    /// Whether a generator can draw from it.
    ///
    /// # Errors
    /// The first figure that is out of its range.
    pub fn check(&self) -> Result<(), ProfileError> {
        let rules = [self.sources_rules(), self.arrival_rules(), self.place_rules()];
        match rules.into_iter().flatten().find(|rule| !rule.holds) {
            None => Ok(()),
            Some(Rule { figure, allowed, .. }) => {
                Err(ProfileError { profile: self.name.clone(), figure, allowed })
            }
        }
    }

    fn sources_rules(&self) -> Vec<Rule> {
        let count = self.sources.len();
        let mixes = [&self.read_sizes, &self.write_sizes];
        vec![
            rule(
                (1..=Sources::COUNT_MAX).contains(&count),
                "the number of sources",
                "from 1 to 1048576",
            ),
            rule(
                are_weights(self.sources.iter().map(|source| source.weight)),
                "the weights of sources",
                "finite, none negative and not all zero",
            ),
            rule((0.0..=1.0).contains(&self.read_share), "the read share", "from 0 to 1"),
            rule(
                mixes.iter().all(|mix| are_weights(mix.sizes.iter().map(|size| size.1))),
                "the weights of sizes",
                "finite, none negative and not all zero",
            ),
            rule(
                mixes.iter().flat_map(|mix| &mix.sizes).all(|&(size_bytes, _)| {
                    size_bytes > 0 && size_bytes <= self.places.device_bytes
                }),
                "a size",
                "at least 1 byte and at most the device",
            ),
        ]
    }

    fn arrival_rules(&self) -> Vec<Rule> {
        let ArrivalProfile { rate_per_second, gap_variation, wave, phases } = self.arrivals;
        let is_long = |span: Span| span >= STEP;
        vec![
            rule((0.001..=1e8).contains(&rate_per_second), "the rate", "from 0.001 to 1e8"),
            rule((1.0..=20.0).contains(&gap_variation), "the variation of gaps", "from 1 to 20"),
            rule(
                wave.is_none_or(|wave| wave.variation > 0.0 && wave.variation <= 5.0),
                "the variation of the wave",
                "above 0 and up to 5",
            ),
            rule(
                wave.is_none_or(|wave| is_long(wave.memory)),
                "the memory of the wave",
                "at least 100 ms",
            ),
            rule(
                phases.is_none_or(|phases| is_long(phases.busy) && is_long(phases.quiet)),
                "the length of a phase",
                "at least 100 ms",
            ),
            rule(
                phases.is_none_or(|phases| (0.0..=1.0).contains(&phases.quiet_level)),
                "the level of the quiet phase",
                "from 0 to 1",
            ),
        ]
    }

    fn place_rules(&self) -> Vec<Rule> {
        let places = &self.places;
        let alignment_bytes = places.alignment_bytes;
        let is_aligned = alignment_bytes.is_power_of_two() && alignment_bytes >= 512;
        let slots = places.device_bytes.checked_div(places.object_bytes).unwrap_or(0);
        vec![
            rule(is_aligned, "the alignment", "a power of two of at least 512 bytes"),
            rule(
                places.object_bytes > 0
                    && places.object_bytes.is_multiple_of(alignment_bytes.max(1)),
                "the size of an object",
                "a multiple of the alignment",
            ),
            rule(
                places.objects > 0 && self.objects_max() <= slots,
                "the number of objects",
                "at least 1, and those of each source must fit its device",
            ),
            rule((0.0..=3.0).contains(&places.skew), "the skew", "from 0 to 3"),
            rule(
                (1..=RANKS_EACH_MAX).contains(&places.ranks_each),
                "the ranks of an object",
                "from 1 to 1048576",
            ),
            rule(
                (0.0..1.0).contains(&places.sequential_share),
                "the sequential share",
                "from 0 to below 1",
            ),
        ]
    }

    /// The objects of the source that has the most.
    fn objects_max(&self) -> u64 {
        (0..self.sources.len()).map(|source| self.objects_of(source)).max().unwrap_or(0)
    }

    /// How many objects a source uses, at least one.
    pub(super) fn objects_of(&self, source: usize) -> u64 {
        let whole: f64 = self.sources.iter().map(|source| source.weight).sum();
        let part = self.places.objects as f64 * (self.sources[source].weight / whole);
        // A share of a count below 2^64; what is not finite was refused before.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let objects = part.round() as u64;
        objects.max(1)
    }
}

struct Rule {
    holds: bool,
    figure: &'static str,
    allowed: &'static str,
}

fn rule(holds: bool, figure: &'static str, allowed: &'static str) -> Rule {
    Rule { holds, figure, allowed }
}

fn are_weights(weights: impl Iterator<Item = f64>) -> bool {
    let mut sum = 0.0;
    for weight in weights {
        if weight < 0.0 {
            return false;
        }
        sum += weight;
    }
    // A weight that is no number makes a sum that is none.
    sum.is_finite() && sum > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_drawn_is_refused_with_its_name() {
        type Change = fn(&mut Profile);
        let broken: [(Change, &str); 8] = [
            (|profile| profile.sources.clear(), "the number of sources"),
            (|profile| profile.sources[0].weight = f64::NAN, "the weights of sources"),
            (|profile| profile.read_share = 1.5, "the read share"),
            (|profile| profile.read_sizes.sizes.clear(), "the weights of sizes"),
            (|profile| profile.write_sizes.sizes[0].0 = 1 << 40, "a size"),
            (|profile| profile.arrivals.rate_per_second = f64::INFINITY, "the rate"),
            (|profile| profile.places.objects = 1 << 60, "the number of objects"),
            (|profile| profile.places.alignment_bytes = 0, "the alignment"),
        ];
        assert_eq!(Profile::default().check(), Ok(()));
        for (change, figure) in broken {
            let mut profile = Profile::default();
            change(&mut profile);
            let error = profile.check().unwrap_err();
            assert_eq!(error.figure, figure);
            assert!(error.to_string().starts_with("profile `plain`: "), "{error}");
        }
    }
}
