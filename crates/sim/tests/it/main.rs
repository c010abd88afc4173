//! Whole runs of the simulator.

mod hdd;
mod scenes;
mod shares;
