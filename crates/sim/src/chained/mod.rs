//! The chained log against a striped one: the store's own code on drives that take their time.
//!
//! ```text
//!   clients --+                       log+RAID 0    store over 1 drive striped over n
//!   readers --+--> store --> drives:  log+RAID 10   store over 1 drive striped over n/2 mirrors
//!   cleaner --+                       chain of L    store over L drives striped over n/L each
//!                                     pairs         store with two copies over n drives
//! ```
//!
//! Only what lies under the store differs. [`rig`] sets one up, [`cleaning`] writes while the
//! cleaner works, [`contention`] while readers read, and [`traces`] does both as it was recorded;
//! [`caches`] replays traces through the policy of the store's cache alone. The question is that of
//! "Gecko: contention-oblivious disk arrays for cloud storage" (FAST 2013): whether one drive that
//! is only appended to gives more than many that seek.
//!
//! Drives are smaller than the real ones, over the same stroke: seeks over the same part of a drive
//! take as long, and a log of gigabytes stands for one of terabytes.

pub mod caches;
pub mod clairvoyant;
pub mod cleaning;
pub mod contention;
pub mod published;
pub mod rig;
pub mod standby;
pub mod traces;
