//! Ring 2: the real machine.

pub mod gate;
