//! Sizes in words, as people write them in a policy: `4 MiB`, `1 MB`, `4097 B`.

use std::fmt;

/// The units of sizes, the largest first.
pub const UNITS: &[(&str, u64)] = &[
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// So many bytes. Shown in the largest unit that leaves a whole number, so that nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(
    /// How many.
    pub u64,
);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_exact = |(_, unit): &&(&str, u64)| self.0.is_multiple_of(*unit) && self.0 > 0;
        let (name, unit) = UNITS.iter().find(is_exact).unwrap_or(&("B", 1));
        write!(f, "{} {name}", self.0 / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_full_with_the_largest_unit_that_is_exact() {
        let sizes = [0, 1, 4097, 1_000_000, 4 << 20, 3 << 39, 5 << 40, 3 << 50];
        let told = sizes.map(|n| Bytes(n).to_string());
        let expected = ["0 B", "1 B", "4097 B", "1 MB", "4 MiB", "1536 GiB", "5 TiB", "3 PiB"];
        assert_eq!(told, expected);
    }
}
