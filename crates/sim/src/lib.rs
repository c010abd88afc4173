//! Ring 2a: the gate in virtual time.
//!
//! The real engine and schedulers, driven by an event queue instead of a machine. A run is a pure
//! function of its scenario and seed: [`run`] takes a [`scenario::Scenario`] and gives a
//! [`result::Summary`].

pub mod calibrate;
pub mod chained;
pub mod checkers;
pub mod cleaning;
pub mod control;
pub mod crowd;
pub mod depths;
pub mod device;
pub mod disk;
mod events;
pub mod executor;
pub mod faults;
pub mod fill;
pub mod fleet;
pub mod forecast;
pub mod link;
pub mod result;
mod run;
pub mod scenario;
pub mod serving;
mod world;

pub use run::{SimError, Stream, run, run_observed, run_recorded};
pub use world::Recording;
