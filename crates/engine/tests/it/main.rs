//! Integration tests of the engine, in one binary.

mod attribution;
mod check;
mod golden;
mod matching;
mod properties;
mod shares;
mod simulated;
mod world;
