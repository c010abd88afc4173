//! Hard disk drives, down to the sector under the head.
//!
//! ```text
//!   requests -> queue -> [cache] -> arm (seek, settle) -> platter (rotation) -> bus -> done
//! ```
//!
//! [`parameters`] says what is to be known of a drive, [`geometry`] where a sector lies,
//! [`mechanics`] how long the moving parts take, [`sweep`] when consecutive sectors pass,
//! [`cache`] what the buffer holds, [`queue`] who is next, and [`drive`] puts them together.
//! [`validate`] replays a [`recording`] of a real drive, [`depth`] runs closed loops, and
//! [`reproduce`] holds both against published figures.

pub mod cache;
mod check;
pub mod depth;
pub mod drive;
pub mod geometry;
pub mod mechanics;
pub mod parameters;
pub mod queue;
pub mod recording;
pub mod reproduce;
pub mod sweep;
pub mod validate;

pub use drive::Hdd;
pub use parameters::{BUILT_IN, ParameterError, Parameters};
pub use queue::Policy;
