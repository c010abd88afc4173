//! Whole runs of the simulator.

mod golden;
mod hdd;
mod random;
mod scenes;
mod script;
mod shares;
