//! Caches: memory and an SSD in front of the drives, so that reads do not reach the tail.
//!
//! The drive with the tail is fast because it is only appended to, and each read that reaches it
//! costs it two seeks (Gecko, FAST 2013). So what was written last is kept: in memory, then on an
//! SSD. The same cache keeps what is read again and again from the other drives, the body.
//!
//! ```text
//!            write                      read from a drive, or from the SSD
//!              v                                     v
//!  memory  [ tail: FIFO ] --was read--> [ body: S3-FIFO: small | main ]
//!              | not read                      | used again, or not for the
//!              | and still of the tail         | first time here
//!              v                               v
//!                        if their places are used often enough
//!  SSD     [ a log of regions, written round and round, one whole region at a time ]
//!              ^ what was read there stays for another turn
//! ```
//!
//! Entries are keyed by *physical* address: an address of the log is written once, so that no write
//! of a client ever makes an entry wrong. An entry dies with its block: when the map refers to it
//! no more, its room is free at once, and what dies in memory is never written to the SSD. That,
//! and that rarely used blocks are not, keeps the SSD alive. When the cleaner moves a block, its
//! entry gets the new address and stays where it is. What clients call a block, its [`Place`],
//! outlives it: how often it was used is known by that.
//!
//! [`Policy`] decides all that, and holds no bytes: a trace of any length can be replayed through
//! it ([`Replay`]).

mod contents;
mod doorkeeper;
mod drive;
mod flash;
mod frequency;
mod options;
mod policy;
mod replay;
mod serve;
mod tail;
#[cfg(test)]
mod tests;
mod wear;

pub(crate) use contents::Contents;
pub(crate) use drive::Cache;
pub use drive::{CacheStatus, read_label};
pub use flash::{FlashBlock, FlashMeasures, Region};
pub use frequency::Place;
pub use options::{CacheError, CacheOptions};
pub use policy::{
    CacheCounters, Found, Frame, Hits, Key, Measures, Placed, Policy, Side, Staged, Standing,
};
pub use replay::Replay;
pub use wear::{Endurance, WearReport};
