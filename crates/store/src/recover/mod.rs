//! Opening a store: the newest checkpoint, what the log has behind it, and a new checkpoint.
//!
//! ```text
//! superblocks -> newest -> checkpoint -> scan its runway -> replay -> both copies alike
//!   -> superblock once more -> a mount of its own -> torn records elsewhere, checkpoint -> open
//! ```
//!
//! Nothing of the log is changed, but to write a whole record over the torn copy of itself, until
//! the last checkpoint, which makes the recovered state durable at once. So recovery may be cut at
//! any point, and begun again.

mod age;
mod census;
mod increments;
mod load;
mod members;
mod replay;
mod scan;
mod torn;

use crate::drive::Drive;
use crate::error::{Halt, OpenError};
use crate::format::superblock::DriveState;
use crate::position::Position;
use crate::rules::{Rule, Rules};
use crate::store::{Store, Tuning};
use crate::units::{DriveIndex, Mount, Nonce};

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Drawn at random for this mount by the caller, never used again.
    pub nonce: Nonce,
    /// Whether to go on without drives that are missing. They are marked, so that they can come
    /// back later but do not count until then.
    pub allow_missing: bool,
    /// Whether to give up what was durable behind a damaged record, see [`OpenError::Damaged`].
    pub accepts_loss: bool,
    /// How far the store was, as far as is remembered outside its drives: one that is behind that
    /// is refused, see [`OpenError::Older`].
    pub known: Option<Position>,
    /// What time it is, in seconds since 1970, for the superblocks; 0 if nobody knows. Later,
    /// [`Store::set_unix_time`] tells.
    pub unix_time_s: u64,
    /// What may differ from mount to mount.
    pub tuning: Tuning,
    /// Which commit rules hold: all, but in tests of mutants.
    pub rules: Rules,
}

impl OpenOptions {
    /// All as usual, for a mount with this nonce.
    pub fn new(nonce: Nonce) -> Self {
        let (tuning, rules) = (Tuning::default(), Rules::default());
        Self {
            nonce,
            allow_missing: false,
            accepts_loss: false,
            known: None,
            unix_time_s: 0,
            tuning,
            rules,
        }
    }
}

impl<D: Drive> Store<D> {
    /// Opens the store on these drives, given in any order, and recovers it.
    ///
    /// # Errors
    /// [`OpenError`]; the drives are as they were, or recovered in part, which does no harm.
    pub async fn open(drives: Vec<D>, options: OpenOptions) -> Result<Self, OpenError> {
        let mut store = Self::recover(drives, None, options).await?;
        store.begin(options.nonce).await?;
        Ok(store)
    }

    /// Finds the state, forgetting for good what a drive had that is `lost`. All that it writes are
    /// whole records over their own torn copies.
    pub(crate) async fn recover(
        drives: Vec<D>,
        lost: Option<DriveIndex>,
        options: OpenOptions,
    ) -> Result<Self, OpenError> {
        let found = members::find(drives, lost, &options).await?;
        let (state, replayed) = load::load(&found, options.rules).await?;
        let store = Self::new(found.chain, state, options.tuning);
        store.set_unix_time(options.unix_time_s);
        found.rolled_back.iter().for_each(|drive| store.note_rolled_back(*drive));
        let candidates = store.scan(&replayed).await;
        store.restored_headers.set(candidates.restored.len());
        store.replay(candidates, &options).await?;
        store.refuse_older(&options)?;
        store.state.borrow_mut().space.loaded();
        // What was open is sealed now, and what a stale drive had begun is never gone on with.
        for member in &store.chain.members {
            member.finish_zones().await;
        }
        Ok(store)
    }

    /// Begins the mount that the state was found for.
    pub(crate) async fn begin(&mut self, nonce: Nonce) -> Result<(), OpenError> {
        self.repeat_superblock().await;
        self.begin_epoch(nonce);
        self.move_torn().await;
        self.settle_state().await?;
        self.use_cache(None).map_err(OpenError::Cache)
    }

    /// Writes the newest superblock once more, to the other slot, on all drives that take part.
    ///
    /// A power cut may have left it in one place on one drive. Were that the only one when the next
    /// checkpoint is written over the one before, and were it unreadable then, there would be no
    /// checkpoint that any superblock names.
    pub(crate) async fn repeat_superblock(&self) {
        let held = self.superblock.acquire().await;
        let failures = self.write_next_superblock(|_| {}).await;
        drop(held);
        self.fail_drives(failures).await;
    }

    /// Makes the state durable as it is now, before there are clients.
    pub(crate) async fn settle_state(&self) -> Result<(), OpenError> {
        self.make_checkpoint().await;
        let halted = self.state.borrow().halted;
        halted.map_or(Ok(()), |halt| Err(stopped(halt)))
    }

    /// Gives the mount its epoch, and every drive that is here its part in it.
    fn begin_epoch(&self, nonce: Nonce) {
        let state = &mut *self.state.borrow_mut();
        if state.rules.hold(Rule::FreshEpoch) {
            state.mount = Mount { epoch: state.mount.epoch + 1, nonce };
        }
        state.last = [None, None];
        for member in &self.chain.members {
            // A drive that was stale and is here is back: what it may lack was taken off the
            // segment table. One that failed while the store was opened is out.
            let row = &mut state.superblock.drives[member.index.index()];
            row.state = match row.state {
                _ if member.is_present() && !member.has_failed() => DriveState::InSync,
                DriveState::InSync => DriveState::Stale { since: state.applied.next() },
                known @ DriveState::Stale { .. } => known,
            };
            member.state.set(row.state);
        }
    }
}

fn stopped(halt: Halt) -> OpenError {
    match halt {
        Halt::Drive(drive, error) => OpenError::Drive(drive, error),
        Halt::Closed => OpenError::Inconsistent("the store was closed while it was opened"),
    }
}
