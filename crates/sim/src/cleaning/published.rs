//! What was published of the policy that the store uses: victims by cost-benefit with the square
//! root of the age, what clients write and what the cleaner moves in segments of their own.
//!
//! Source: the simulation of the project's notes on the chained log, section 7.5, column
//! "cost-benefit and user/GC split": 16 to 32 thousand blocks in 256 segments' worth of
//! data, eight to ten overwrites, the second half of them counted.

use super::Load;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// What the table calls the load.
    pub name: &'static str,
    /// Which blocks are overwritten.
    pub load: Load,
    /// Write amplification at U = 0.7, 0.8 and 0.9.
    pub amplification: [f64; 3],
}

impl Published {
    /// Segments of the simulation.
    pub const SEGMENTS: u64 = 256;

    /// U of the columns, in percent.
    pub const FULL_PERCENT: [u64; 3] = [70, 80, 90];
}

/// The table.
pub const PUBLISHED: [Published; 4] = [
    Published { name: "uniform", load: Load::Uniform, amplification: [1.91, 2.80, 5.91] },
    Published { name: "80 % to 20 %", load: Load::Hot(80), amplification: [1.87, 2.61, 5.22] },
    Published { name: "90 % to 10 %", load: Load::Hot(90), amplification: [1.61, 2.17, 3.88] },
    Published { name: "Zipf 0.99", load: Load::Zipf(0.99), amplification: [1.78, 2.36, 4.26] },
];
