//! The simulator as a whole: devices against the real ones, runs twice, faults.

mod hdd;
