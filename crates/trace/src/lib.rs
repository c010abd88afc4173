//! Ring 1: block traces.
//!
//! A trace is a sequence of [`Record`]s in the order of their arrival. Decoders turn bytes into
//! records and encoders records into bytes; neither reads a file, so that the driver chooses where
//! bytes come from, how they are compressed, and how many are in memory at once.

pub mod cache;
pub mod clients;
pub mod codec;
pub mod format;
pub mod generate;
mod record;
pub mod statistics;
mod text;
pub mod transform;

pub use record::{Record, SourceId, Sources};
