//! Ring 2a: the gate in virtual time.
//!
//! The real engine and schedulers, driven by an event queue instead of a machine. A run is a pure
//! function of its scenario and seed.

pub mod device;
pub mod faults;
pub mod link;
pub mod result;
pub mod scenario;
