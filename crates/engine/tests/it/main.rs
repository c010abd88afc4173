//! Integration tests of the engine, in one binary.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod access;
mod allocation;
mod attribution;
mod check;
mod closed;
mod disciplines;
mod explain;
mod golden;
mod late;
mod matching;
mod mix;
mod properties;
mod room;
mod service;
mod shared;
mod shares;
mod simulated;
mod slots;
mod tiers;
mod world;
