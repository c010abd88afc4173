//! Requests that are kept off bytes which a late write may still reach.
//!
//! ```text
//! write x -- connection lost -- x sent again, answered        x may come once more
//!                               |---------------- late ----------------|
//!                  newer write to the same bytes:  waits ............. goes
//!                  any other request:              goes
//! ```
//!
//! A piece that changes content ends where such bytes begin, and one that begins there waits. What
//! was queued when the connection was lost stands in line again. A volume keeps the ranges of its
//! members besides, with what an earlier process may still do: it must not move them or give them
//! out either.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_core::id::ServerId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use crate::Request;
use crate::lease::LateRanges;
use crate::placement::{Piece, Placed, Placement};
use crate::service::Service;

/// What late writes may reach, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// By server, and disk there.
    disks: BTreeMap<(ServerId, u64), LateRanges>,
    /// Requests that wait, oldest first.
    waiters: Vec<u32>,
}

impl Late {
    /// Until then a late write may reach a range of a disk.
    pub(crate) fn add(
        &mut self,
        now: Nanos,
        disk: (ServerId, u64),
        range: &Range<u64>,
        until: Nanos,
    ) {
        self.forget(now);
        self.disks.entry(disk).or_default().add(range, until);
    }

    /// The first byte of a range that one may still reach; where there is a volume, as that knows.
    pub(crate) fn first_in(
        &self,
        now: Nanos,
        volume: Option<&Service>,
        disk: (ServerId, u64),
        range: &Range<u64>,
    ) -> Option<u64> {
        match volume {
            Some(volume) => volume.first_late(now, disk.0, range),
            None => self.disks.get(&disk)?.first_in(now, range),
        }
    }

    /// Every range, with its server and its end.
    pub(crate) fn all(&self, now: Nanos) -> impl Iterator<Item = (ServerId, Range<u64>, Nanos)> {
        let of_disk = move |((server, _), ranges): (&(ServerId, u64), &LateRanges)| {
            let server = *server;
            let ranges: Vec<_> = ranges.all(now).collect();
            ranges.into_iter().map(move |(range, until)| (server, range, until))
        };
        self.disks.iter().flat_map(of_disk)
    }

    /// When the next range is let go of.
    pub(crate) fn next_end(&self) -> Option<Nanos> {
        self.disks.values().filter_map(LateRanges::next_end).min()
    }

    /// Forgets what is over.
    pub(crate) fn forget(&mut self, now: Nanos) {
        self.disks.retain(|_, ranges| {
            ranges.forget(now);
            !ranges.is_empty()
        });
    }

    /// Whether anybody waits.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// A request waits.
    pub(crate) fn wait(&mut self, slot: u32) {
        self.waiters.push(slot);
    }

    /// A request waits no longer, since its client is gone.
    pub(crate) fn withdraw(&mut self, slot: u32) {
        self.waiters.retain(|other| *other != slot);
    }

    /// Those who wait, oldest first: all of them look again.
    pub(crate) fn take_waiters(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.waiters)
    }
}

/// Places without the bytes that a late write may still reach.
pub(crate) struct KeptOff<'a, P, F> {
    pub(crate) places: &'a P,
    /// The first byte of a range of a server that one may still reach.
    pub(crate) first_late: F,
}

impl<P, F> Placement for KeptOff<'_, P, F>
where
    P: Placement,
    F: Fn(ServerId, &Range<u64>) -> Option<u64>,
{
    fn place(&self, now: Nanos, request: &Request, at: u64) -> Placed {
        let placed = self.places.place(now, request, at);
        let Placed::Piece(piece) = placed else { return placed };
        if !changes_content(request.kind) {
            return placed;
        }
        let range = piece.offset..piece.offset.saturating_add(piece.length);
        match (self.first_late)(piece.server, &range) {
            None => placed,
            Some(first) if first <= piece.offset => Placed::Late,
            Some(first) => Placed::Piece(Piece { length: first - piece.offset, ..piece }),
        }
    }

    fn flushed(&self, index: usize) -> Option<ServerId> {
        self.places.flushed(index)
    }
}

/// Whether a request of this kind changes what its bytes hold.
pub(crate) fn changes_content(kind: Kind) -> bool {
    matches!(kind, Kind::Write | Kind::Trim | Kind::WriteZeroes)
}
