//! What this build is: version, commit, target.

/// The version of the package, such as `0.1.0`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from, or `development`.
pub const COMMIT: &str = env!("EVENKEEL_COMMIT");

/// The target triple.
pub const TARGET: &str = env!("EVENKEEL_TARGET");

/// What `evenkeel --version` prints after the name.
pub const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("EVENKEEL_COMMIT"),
    ", ",
    env!("EVENKEEL_TARGET"),
    ")"
);
