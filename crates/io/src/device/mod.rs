//! Devices.
mod memory;
