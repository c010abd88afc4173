//! Hosts that share an array, each with a controller: the experiment of the papers on response
//! times across hosts, in virtual time.
//!
//! ```text
//!   load 0 -> host 0 --slots--+
//!   load 1 -> host 1 --slots--+--> 8 drives, RAID 0     every period: summaries -> exchange ->
//!   load 2 -> host 2 --slots--+                         controllers -> slots
//!   load 3 -> host 3 --slots--+
//! ```
//!
//! Hosts and controllers are those of [`evenkeel_core::control`], the drives those of
//! [`crate::device::hdd`]; this room adds the requests ([`load`]), the way of the summaries
//! ([`exchange`]) and the books ([`record`]). [`paper`] is the setting of the published experiment;
//! [`fit`] searches its load, by what [`fluid`] windows make of it.

pub mod exchange;
pub mod fit;
pub mod fluid;
pub mod load;
pub mod paper;
pub mod record;
mod run;

pub use run::{Experiment, Tenancy};
