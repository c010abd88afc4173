//! Transformations of traces, each a machine that takes records one by one in bounded memory.
//!
//! ```text
//! records -> cut -> scale -> anonymise ->        one in, at most one out
//!
//! records of a ->
//! records of b -> merge ->                       several in, one out, in the order of time
//! ```

pub mod agreement;
pub mod anonymise;
pub mod cut;
pub mod merge;
pub mod permutation;
pub mod ratio;
pub mod scale;
pub mod siphash;

#[cfg(test)]
pub(crate) mod testing;
