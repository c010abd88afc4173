//! Seeded generators of traces, calibrated to published ones.
//!
//! A [`Profile`] says as data what a workload is like; a [`Generator`] draws its records from a
//! seed. [`profiles`] are the published traces; a scenario makes its own. How near a generated
//! trace comes to what was published, [`Profile::compare`] says from the trace's statistics.
//!
//! ```
//! use evenkeel_trace::generate::{Generator, Limit, profile};
//! use evenkeel_trace::statistics::{Statistics, StatisticsOptions};
//!
//! let profile = profile("financial").expect("published");
//! let limit = Limit { count: Some(20_000), ..Limit::default() };
//! let mut statistics = Statistics::new(StatisticsOptions::default());
//! for record in Generator::new(&profile, 1, limit)? {
//!     statistics.add(&record);
//! }
//! let summary = statistics.summary().expect("there are records");
//! for row in profile.compare(&summary) {
//!     let (name, published) = (row.target.figure.name(), row.target.value);
//!     println!("{name}: {:?}, published {published}", row.achieved);
//! }
//! # Ok::<(), evenkeel_trace::generate::ProfileError>(())
//! ```
//!
//! Fractions are computed in floats, by operations that every machine rounds alike and by the
//! [logarithm and exponential](evenkeel_core::float) that are made of them: a seed gives the same
//! trace everywhere, and with or without optimisation.

mod arrivals;
mod choice;
mod generator;
mod places;
mod profile;
mod published;
mod sizes;
mod targets;
#[cfg(test)]
mod tests;
mod zipf;

pub use arrivals::{ArrivalProfile, Phases, Wave};
pub use generator::{Generator, Limit};
pub use profile::{PlaceProfile, Profile, ProfileError, SourceProfile};
pub use published::{profile, profiles};
pub use sizes::SizeMix;
pub use targets::{Comparison, Figure, Target};
