//! What clients do, drawn from their seeds: which request comes next, and when.
//!
//! Words, draws and arrivals are those of the live load generator, draw for draw: a client of the
//! same seed asks for the same offsets and sizes at the same instants in both worlds.

mod draw;
mod pace;
mod zipf;

pub(crate) use draw::{Draw, Drawer, part_of};
pub(crate) use pace::{Due, Pace, Schedule};
