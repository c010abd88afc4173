//! A spread volume: one disk for the clients, over 2 to 64 servers, each object on the one that was
//! better when it was first written.
//!
//! The volume is divided into objects. Hashing names a few candidate servers for each, and the
//! emptier one gets it, or the one that is better by what the policy prefers
//! ([`evenkeel_core::place`]); so all servers fill alike, whatever their sizes, and no directory
//! has to be asked. What was chosen is kept on the servers themselves.
//!
//! ```text
//!              devices                         client requests
//!                 |                                  |
//!   Opening: claim, tables, choices                  v
//!                 |                       +--- Engine: piece by piece to its server;
//!                 +----> Volume --------> |            zeroes for what nobody wrote
//!                    (Input::Spread)      +--- Output::Move(Step) -> driver -> Input::Moved
//!                 +----> Lease, beaten by the driver: Input::Held, Input::Fenced
//! ```
//!
//! # The driver's part
//!
//! 1. Open the devices; let [`Opening`] ask for reads, writes, flushes and time until it has a
//!    [`Volume`] or says why not.
//! 2. Give the volume to the engine with [`crate::Input::Spread`].
//! 3. Beat on every server ([`crate::lease::Lease`]), and tell the engine with
//!    [`crate::Input::Held`] until when the volume is its own, or with [`crate::Input::Fenced`]
//!    that something is not. Nothing is
//!    served before the first.
//! 4. Turn each [`crate::Output::Move`] into a request to its server, and report
//!    [`crate::Input::Moved`] with its end. At each server there is at most one note, wipe, flush
//!    or discard under way; besides there is at most one read or write in all.
//!
//! Format, rules and recovery are told in `docs/spread-volumes.md`.

mod absent;
mod assembling;
mod check;
mod directory;
pub mod format;
mod free;
mod freeing;
mod heads;
pub mod host_page;
pub mod layout;
mod members;
mod moving;
mod opening;
mod place;
mod prefer;
mod reading;
mod refusal;
mod report;
mod rules;
mod scribe;
mod serving;
mod table;
#[cfg(test)]
pub(crate) mod trial;
mod volume;

pub use absent::Missed;
pub use check::check;
pub use layout::Shape;
pub use opening::Opening;
pub use refusal::{Needed, Refusal, RefusalReason, WrongServers};
pub use report::{ChangeReport, SpreadReport, SpreadServer, Standing, Stuck};
pub use scribe::ATTEMPTS;
pub use serving::REST;
pub use serving::ResizeRefusal;
pub(crate) use serving::Serving;
pub use volume::{Mended, Volume};
