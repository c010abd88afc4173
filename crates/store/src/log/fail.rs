//! A drive that failed a write or a flush takes no part any more, and every other drive says so
//! before anything is acknowledged without it.
//!
//! Otherwise a power cut right after the acknowledgement could bring the failed drive back as if it
//! had everything. A failed flush is never tried again: what the drive dropped, it will not write
//! because it is asked twice.

use crate::chain::Failure;
use crate::checkpoint::Base;
use crate::drive::{Drive, DriveError};
use crate::error::Halt;
use crate::format::superblock::{DriveState, Superblock};
use crate::rules::Rule;
use crate::store::Store;

impl<D: Drive> Store<D> {
    /// Goes on without these drives, or stops if that cannot be. Returns when the others know of
    /// these and of all that failed before.
    pub(crate) async fn fail_drives(&self, failures: Vec<Failure>) {
        if failures.is_empty() && !self.state.borrow().has_unmarked {
            return;
        }
        let _held = self.superblock.acquire().await;
        let mut failures = failures;
        while let Some((drive, error)) = self.drop_drives(&failures) {
            if !self
                .state
                .borrow()
                .space
                .is_whole_on(|index| self.chain.members[index.index()].is_active())
            {
                self.halt(Halt::Drive(drive, error));
                return;
            }
            if !self.state.borrow().rules.hold(Rule::StaleBeforeAck) {
                break;
            }
            failures = self.write_next_superblock(|_| {}).await;
        }
        self.state.borrow_mut().has_unmarked = false;
    }

    /// Takes the drives out; gives one of those that took part until now.
    fn drop_drives(&self, failures: &[Failure]) -> Option<Failure> {
        let mut state = self.state.borrow_mut();
        let mut dropped = None;
        for &(drive, error) in failures {
            let member = &self.chain.members[drive.index()];
            if !member.is_active() {
                continue;
            }
            assert!(!matches!(error, DriveError::Misuse(_)), "drive {drive}: {error}");
            let marked = DriveState::Stale { since: state.durable.next() };
            member.state.set(marked);
            state.superblock.drives[drive.index()].state = marked;
            state.space.drop_drive(drive);
            state.drops += 1;
            state.has_unmarked = true;
            // The drives that are left get a whole checkpoint, twice if there is one.
            state.base = Base::default();
            dropped = Some((drive, error));
        }
        dropped
    }

    /// Writes the superblock, changed like this and with the next sequence number, to all drives
    /// that take part, and makes it durable; tells which failed. The caller holds the lock.
    pub(crate) async fn write_next_superblock(
        &self,
        change: impl FnOnce(&mut Superblock),
    ) -> Vec<Failure> {
        let next = {
            let mut state = self.state.borrow_mut();
            state.superblock.sequence += 1;
            state.superblock.unix_time_s = self.unix_time_s.get();
            change(&mut state.superblock);
            state.superblock.clone()
        };
        let mut failures = self.chain.write_superblock(&next).await;
        failures.extend(self.chain.flush(|_| true).await);
        failures
    }
}
