//! The chained log: a crash-safe block store whose writes are sequential whatever its clients do.
//!
//! The store is straight-line async code over the [`Drive`] trait. It has no clock, no thread and
//! no runtime of its own: the machine's driver and the simulator each bring drives and an executor,
//! and run this very code. What lies on the drives, and why that survives a power cut, is written
//! down in `docs/store-format.md`.

pub mod buffer;
pub mod cache;
mod chain;
pub mod check;
mod checkpoint;
mod clean;
mod create;
pub mod drive;
pub mod dump;
mod error;
pub mod format;
mod hops;
mod log;
mod map;
mod position;
mod read;
mod recover;
mod replace;
mod rules;
mod scrub;
mod space;
mod state;
mod store;
mod sync;
mod telemetry;
pub mod units;
mod volume;

pub use buffer::{Buffer, BufferMut};
pub use cache::{CacheCounters, CacheError, CacheOptions, CacheStatus};
pub use chain::read_superblock;
pub use clean::{Attendance, Chore, ChoreKind};
pub use create::{CreateOptions, create, possible_bytes};
pub use drive::zone::{DriveShape, ZoneState, Zoning};
pub use drive::{Drive, DriveError, Durability, Geometry};
pub use error::{
    Damage, FormatError, Halt, OpenError, ReplacementError, Side, StoreError, ZoneProblem,
};
pub use position::Position;
pub use recover::OpenOptions;
pub use replace::Replacement;
pub use rules::{Rule, Rules};
pub use scrub::{Flaw, FlawKind, SCRUB_STEP_BYTES, Scrub, ScrubReport, ScrubStep};
pub use state::Counters;
pub use store::{Cleaning, Status, Store, Tuning};
pub use telemetry::{Telemetry, time_to_full};
pub use units::{BLOCK_BYTES, DriveIndex, Lsn, Mount, Nonce, Uuid, VolumeId};
pub use volume::{Provision, Shrink, VOLUME_BYTES_MAX, VOLUMES_MAX, Volume, VolumeKind};
