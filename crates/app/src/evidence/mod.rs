//! What the rows of an experiment are worth: verdicts, their count, and the machine they were
//! measured on.
//!
//! ```text
//! machine   before, during and after: could this machine judge at all?  --+
//! verdict   holds, attained, fails, known, not judged, shown              |--> tally --> exit code
//! known     which failures a decision record accepts, and how bad         --+
//! ```
//!
//! `reproduce` and `evenkeel-bench` share this. A row that fails on a quiet machine is a regression
//! and ends with 1. A row that fails on a disturbed one proves nothing: it is not judged, and ends
//! with 6. A row that fails as a decision says it does ends with 0, as long as it is no worse.

mod known;
pub mod machine;
mod missed;
mod tally;
mod verdict;

pub use known::{Shortfall, known_shortfall};
pub use missed::missed;
pub use tally::Tally;
pub use verdict::{Decision, Verdict};
