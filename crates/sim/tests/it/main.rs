//! Whole runs of the simulator.

mod scenes;
mod shares;
