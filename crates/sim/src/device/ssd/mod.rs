//! A flash drive: host interface, write cache, translation layer with its own garbage collection,
//! and channels of dies of planes.
//!
//! ```text
//!           link            cache            translation              flash
//! submit -> command, ---> dirty units ---> open block of a die --> channel -> die: program
//!           payload         |    ^              |                               (all planes)
//!                           |    | full:        +-- few free blocks: greedy
//!   write done <------------+    | writes wait      collection: read, program, erase
//!                                |
//!   read: hit in the cache ------+
//!         or  map: unit -> slot -> plane: array read -> channel -> link -> done
//! ```
//!
//! The state of the flash (which unit lies where) changes at the instant at which an operation
//! starts; a read that could tell the difference finds the unit in the cache. Everything is integer
//! time and integer addresses, so that a run is the same in every build.
//!
//! What is left out: suspending a program or an erase for a read, the SLC mode of consumer drives,
//! wear levelling, read disturb, and a cache of clean data.
//!
//! A drive that has been filled, or has seen random overwrites for ever, is set up without
//! simulating either: see [`layout`]. Memory is taken as units are written, see [`sparse`].

pub mod cache;
pub mod catalogue;
mod drive;
pub mod flash;
pub mod gc;
pub mod geometry;
pub mod interface;
pub mod layout;
pub mod map;
pub mod pool;
pub mod sparse;
pub mod spec;
#[cfg(test)]
mod tests;

pub use drive::{Ssd, Wear};
pub use layout::Precondition;
pub use spec::{SsdSpec, SsdSpecError};
