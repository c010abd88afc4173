//! Device models: what a request takes, and when it is done.
//!
//! Every model is a state machine in virtual time by the contract of [`evenkeel_core::device`].
//! Models compose: an array owns its disks, a link the device behind it.

pub mod array;
pub mod build;
pub mod delay;
pub mod hdd;
pub mod nbdkit;
pub mod rate;
pub mod second_arm;
pub(crate) mod servers;
pub mod simple;
pub mod spec;
pub mod spindle;
pub mod ssd;
pub mod standby;
#[cfg(test)]
pub(crate) mod testing;

pub use evenkeel_core::device::{Device, Op, Outcome, Step};
