//! Allocators over several devices: the figures of the paper's talk, and their promises on random
//! problems.

mod bounds;
mod device_time;
mod examples;
mod promises;
mod simplex;
mod support;
mod table;
