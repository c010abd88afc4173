//! A tiered volume: one disk for the clients, over two to eight servers of different speed.
//!
//! The volume is divided into extents. Each lies in exactly one slot of one tier ([`map`]), and
//! those that are often asked for change places with those that are not (`heat`, `moves`). What
//! lies where is known before a request is scheduled, so that shares count on every tier.
//!
//! ```text
//!              devices                      client requests
//!                 |                               |
//!   Opening: what they say of themselves          v
//!                 |                    +--- Engine: piece by piece to its tier
//!                 +----> Volume -----> |
//!                    (Input::Volume)   +--- Output::Move(Step) -> driver -> Input::Moved
//! ```
//!
//! # The driver's part
//!
//! 1. Open the devices of the tiers; let [`Opening`] ask for reads, writes and flushes of them
//!    until it has a [`Volume`] or says why not.
//! 2. Give the volume to the engine with [`crate::Input::Volume`], before the first request for
//!    [`crate::Target::Volume`].
//! 3. Turn each [`crate::Output::Move`] into a request to [`crate::Target::Server`], in a slot of
//!    its own and on the tenant's account that the step names, as if a client had sent it. Send its
//!    units as any other's. With its `Finish` report [`crate::Input::Moved`] before the next poll.
//!
//! Format, rules and recovery are told in `docs/tiered-volumes.md`.

mod check;
mod choice;
pub mod format;
mod heads;
mod heat;
mod journal;
pub mod layout;
pub mod map;
mod moves;
mod opening;
mod refusal;
mod report;
mod rules;
mod runs;
mod serving;
#[cfg(test)]
pub(crate) mod trial;
mod volume;

pub use crate::notes::PASSES_MAX;
pub use check::check;
pub use moves::{HOLD_MAX, NOTE_ATTEMPTS};
pub use opening::Opening;
pub use refusal::{Refusal, RefusalReason};
pub use report::{MovesReport, Stopped, TierReport, VolumeReport};
pub(crate) use serving::Serving;
pub use volume::Volume;
