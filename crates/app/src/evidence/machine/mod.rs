//! The machine that an experiment runs on: can it judge at all?
//!
//! ```text
//! sleeps      sleeps          sleeps
//! others      others, steal, every second       others
//! |-- before --|------------ during ------------|-- after --|
//!                                                     judge: what disturbed it, if anything
//! ```
//!
//! What counts is what others did: the processor time of programs that the experiment did not
//! start, what a hypervisor withheld, and how late sleeps end while the experiment itself rests.
//! Its own processes, and kernel threads, which work for it, count for nothing.
//!
//! | file | what |
//! |---|---|
//! | [`judge`] | limits, and whether a reading is within them: a pure function |
//! | `watch` | takes the readings |
//! | `processes`, `counters`, `sleeps` | what `/proc` and the clock tell |

mod counters;
pub mod judge;
mod processes;
mod sleeps;
mod watch;

pub use judge::{Bears, Reading};
pub use sleeps::Sleeps;
pub use watch::{Conditions, Watch};
