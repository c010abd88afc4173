//! Who waited because of whom.

/// Pairs of tenants that a report names at most.
pub const TOP_PAIRS: usize = 64;
