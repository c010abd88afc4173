//! Ring 1 of Evenkeel: the algorithms, and nothing that could make two runs differ.
//!
//! No clock, socket, file, thread or random source is used here; `now` is always an argument. The
//! simulator and the gate drive this very code.

pub mod bytes;
pub mod cache;
pub mod control;
pub mod crc32c;
pub mod date;
pub mod device;
pub mod fair;
pub mod float;
pub mod histogram;
pub mod id;
pub mod place;
pub mod prng;
pub mod sched;
pub mod share;
pub mod ticket;
pub mod time;
pub mod workload;
