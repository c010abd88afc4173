//! Whole runs of the simulator.

mod devices;
mod golden;
mod hdd;
mod load;
mod random;
mod scenes;
mod script;
mod shares;
