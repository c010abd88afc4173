//! What an operator watches: how much is written for each byte of a client, how far the cleaner is
//! behind, how pure the tail is, and when the store will be full.
//!
//! Everything is counted since the store was opened, in whole numbers; ratios are per mille,
//! rounded down. The store has no clock: what time does, [`time_to_full`] tells from two looks.

use std::cell::Cell;

use evenkeel_core::time::Span;

use crate::chain::{Chain, Member};
use crate::drive::Drive;
use crate::state::State;
use crate::units::{BLOCK_BYTES_U64, Copies};

/// What an operator watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// Bytes of data that clients wrote, in whole blocks.
    pub client_bytes: u64,
    /// Bytes read from all drives, whatever for.
    pub drive_read_bytes: u64,
    /// Bytes written to all drives, whatever for: each copy, headers, what was moved, checkpoints.
    pub drive_written_bytes: u64,
    /// Bytes written to drives for each copy of 1,000 bytes of clients: 1,000 would be perfect.
    /// `None` until clients have written something.
    pub write_amplification_permille: Option<u64>,
    /// Live blocks that the cleaner has to move until it has nothing to do, were nothing written
    /// meanwhile. At zero it rests.
    pub cleaner_debt_blocks: u64,
    /// Commands to the drives that were the tail at the time.
    pub tail_commands: u64,
    /// Those of them that appended to the log.
    pub tail_appends: u64,
    /// Appends among 1,000 commands to the tail's drives: 1,000 would be a tail that never seeks.
    /// `None` until something was appended.
    pub tail_purity_permille: Option<u64>,
    /// Bytes of clients that are in the log, one copy counted.
    pub live_bytes: u64,
    /// Bytes that will be there when all provisioned volumes are full, and nothing else grows.
    pub provisioned_bytes: u64,
    /// What is left of these.
    pub until_full_bytes: u64,
    /// Bytes that clients can write until the cleaner has to work; zero if it has to now.
    pub until_cleaning_bytes: u64,
}

/// What one drive was asked for.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    is_tail: Cell<bool>,
    read_bytes: Cell<u64>,
    written_bytes: Cell<u64>,
    tail_commands: Cell<u64>,
    tail_appends: Cell<u64>,
}

impl Traffic {
    pub(crate) fn note_read(&self, bytes: usize) {
        self.read_bytes.set(self.read_bytes.get() + bytes as u64);
        self.note_command();
    }

    pub(crate) fn note_write(&self, bytes: usize) {
        self.written_bytes.set(self.written_bytes.get() + bytes as u64);
        self.note_command();
    }

    fn note_command(&self) {
        self.tail_commands.set(self.tail_commands.get() + u64::from(self.is_tail.get()));
    }
}

impl<D: Drive> Chain<D> {
    /// The next write to each of these copies appends to the tail, which is there from now on.
    pub(crate) fn note_append(&self, copies: Copies) {
        for member in &self.members {
            let is_tail = copies.iter().flatten().any(|slot| slot.drive == member.index);
            member.traffic.is_tail.set(is_tail);
            if is_tail && member.is_active() {
                member.traffic.tail_appends.set(member.traffic.tail_appends.get() + 1);
            }
        }
    }

    fn sum(&self, amount: impl Fn(&Traffic) -> &Cell<u64>) -> u64 {
        self.members.iter().map(|member: &Member<D>| amount(&member.traffic).get()).sum()
    }
}

impl Telemetry {
    pub(crate) fn of<D: Drive>(chain: &Chain<D>, state: &State) -> Self {
        let client_bytes = state.counters.written_blocks * BLOCK_BYTES_U64;
        let drive_written_bytes = chain.sum(|traffic| &traffic.written_bytes);
        let tail_commands = chain.sum(|traffic| &traffic.tail_commands);
        let tail_appends = chain.sum(|traffic| &traffic.tail_appends);
        let live_bytes = state.space.live_blocks() * BLOCK_BYTES_U64;
        let provisioned_bytes = state.provisioned_blocks() * BLOCK_BYTES_U64;
        let copied_bytes = client_bytes * u64::from(state.superblock.copies);
        let (above, missing) = state.distance_to_cleaning();
        let segment_bytes = u64::from(state.space.segment_blocks()) * BLOCK_BYTES_U64;
        Self {
            client_bytes,
            drive_read_bytes: chain.sum(|traffic| &traffic.read_bytes),
            drive_written_bytes,
            write_amplification_permille: permille(drive_written_bytes, copied_bytes),
            cleaner_debt_blocks: state.space.debt_blocks(missing),
            tail_commands,
            tail_appends,
            tail_purity_permille: permille(tail_appends, tail_commands),
            live_bytes,
            provisioned_bytes,
            until_full_bytes: provisioned_bytes.saturating_sub(live_bytes),
            until_cleaning_bytes: above as u64 * segment_bytes,
        }
    }
}

fn permille(part: u64, whole: u64) -> Option<u64> {
    let part = u128::from(part) * 1000;
    part.checked_div(u128::from(whole)).and_then(|ratio| u64::try_from(ratio).ok())
}

/// The time until a store is full, if it goes on as between two looks that lie so far apart. `None`
/// if it does not grow.
pub fn time_to_full(earlier: &Telemetry, later: &Telemetry, apart: Span) -> Option<Span> {
    let grown_bytes = later.live_bytes.checked_sub(earlier.live_bytes).filter(|&it| it > 0)?;
    let ns = u128::from(later.until_full_bytes) * u128::from(apart.0) / u128::from(grown_bytes);
    Some(Span(u64::try_from(ns).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(live_bytes: u64) -> Telemetry {
        Telemetry { live_bytes, until_full_bytes: 1000 - live_bytes, ..Telemetry::default() }
    }

    #[test]
    fn a_store_that_grows_evenly_is_full_when_growth_says() {
        let hour = Span::from_secs(3600);
        assert_eq!(time_to_full(&look(100), &look(200), hour), Some(Span::from_secs(8 * 3600)));
        assert_eq!(time_to_full(&look(200), &look(200), hour), None);
        assert_eq!(time_to_full(&look(200), &look(100), hour), None);
        assert_eq!(time_to_full(&look(900), &look(1000), hour), Some(Span::ZERO));
    }

    #[test]
    fn ratios_are_per_mille_and_none_of_nothing() {
        assert_eq!(permille(3, 2), Some(1500));
        assert_eq!(permille(u64::MAX, 1), None);
        assert_eq!(permille(0, 0), None);
    }
}
