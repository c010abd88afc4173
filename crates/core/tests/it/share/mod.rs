//! Allocators over several devices: the figures of the paper's talk, and their promises on random
//! problems.

mod promises;
mod support;
mod table;
