//! Arrays of devices that look like one: linear, RAID 0, RAID 1 and RAID 10.
//!
//! ```text
//!   linear       | 0 1 2 3 | 4 5 6 7 |        members one behind the other
//!   RAID 0       | 0 2 4 6 | 1 3 5 7 |        stripe units in turn
//!   RAID 1       | 0 1 2 3 | 0 1 2 3 |        every member holds everything
//!   RAID 10      | 0 2 | 0 2 | 1 3 | 1 3 |    stripe units in turn over pairs
//! ```
//!
//! A request is cut into one piece per member and stripe row that it touches, and is done when the
//! last piece is. A write goes to every mirror; a read goes to the mirror with the fewest requests
//! under way, of those to the one that was last nearest to it. A mirror that fails a request is not
//! asked again, and its read is tried on its fellow; with no mirror left the request fails.
//! Source: Patterson, Gibson and Katz, "A case for redundant arrays of inexpensive disks (RAID)",
//! SIGMOD 1988.

use std::collections::VecDeque;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::{Device, Op, Outcome, Step};

/// How the members of an array hold its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One behind the other.
    Linear,
    /// Stripe units in turn (RAID 0).
    Striped {
        /// Bytes of a stripe unit, at least 1.
        unit_bytes: u64,
    },
    /// Every member holds everything (RAID 1).
    Mirrored,
    /// Stripe units in turn over pairs of mirrors (RAID 10).
    StripedMirrors {
        /// Bytes of a stripe unit, at least 1.
        unit_bytes: u64,
    },
}

/// Why members make no array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// No member at all.
    #[error("an array needs a member")]
    NoMember,
    /// An odd number of members in pairs.
    #[error("RAID 10 needs its members in pairs; add one or leave one out")]
    OddMembers,
    /// A stripe unit of no bytes, or beyond a member.
    #[error("a stripe unit must have at least one byte and fit into the smallest member")]
    StripeUnit,
}

/// An array of devices. See the [module](self).
#[derive(Clone, Debug)]
pub struct Array<D> {
    layout: Layout,
    members: Vec<Member<D>>,
    size_bytes: u64,
    requests: Slots<Request>,
    pieces: Slots<Piece>,
    done: VecDeque<(u32, Outcome)>,
}

#[derive(Clone, Debug)]
struct Member<D> {
    device: D,
    size_bytes: u64,
    /// When it wants to be polled; nothing while it has nothing to do.
    wake: Option<Nanos>,
    failed: bool,
    outstanding: u32,
    /// The byte behind its last request.
    last_end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    tag: u32,
    pieces_left: u32,
    outcome: Outcome,
}

/// What one member, or each mirror of a group, does of a request.
#[derive(Clone, Copy, Debug)]
struct Piece {
    request: u32,
    op: Op,
    /// Mirrors that have not answered.
    waiting: u32,
    /// Whether one answered well.
    served: bool,
}

/// A part of a request: a group of mirrors, first byte on each of them, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    group: usize,
    offset: u64,
    length: u64,
}

impl<D: Device> Array<D> {
    /// An array of these members.
    ///
    /// # Errors
    ///
    /// Members that do not fit the layout.
    pub fn new(layout: Layout, members: Vec<D>) -> Result<Self, ArrayError> {
        let sizes: Vec<u64> = members.iter().map(Device::size_bytes).collect();
        let least = *sizes.iter().min().ok_or(ArrayError::NoMember)?;
        let striped = |unit_bytes: u64, groups: u64| {
            let rows = least.checked_div(unit_bytes).filter(|rows| *rows > 0);
            rows.map(|rows| rows * unit_bytes * groups).ok_or(ArrayError::StripeUnit)
        };
        let count = sizes.len() as u64;
        let size_bytes = match layout {
            Layout::Linear => sizes.iter().sum(),
            Layout::Striped { unit_bytes } => striped(unit_bytes, count)?,
            Layout::Mirrored => least,
            Layout::StripedMirrors { .. } if count % 2 == 1 => return Err(ArrayError::OddMembers),
            Layout::StripedMirrors { unit_bytes } => striped(unit_bytes, count / 2)?,
        };
        let members = members.into_iter().zip(sizes);
        let members = members.map(|(device, size_bytes)| Member {
            device,
            size_bytes,
            wake: None,
            failed: false,
            outstanding: 0,
            last_end: 0,
        });
        Ok(Self {
            layout,
            members: members.collect(),
            size_bytes,
            requests: Slots::default(),
            pieces: Slots::default(),
            done: VecDeque::new(),
        })
    }

    /// Whether a member failed a request, and is out of use if it has a mirror.
    pub fn has_failed(&self, member: usize) -> bool {
        self.members[member].failed
    }

    fn mirrors(&self) -> usize {
        match self.layout {
            Layout::Linear | Layout::Striped { .. } => 1,
            Layout::Mirrored => self.members.len(),
            Layout::StripedMirrors { .. } => 2,
        }
    }

    /// The part of a request that begins at `offset`, at most `length` long.
    fn part(&self, offset: u64, length: u64) -> Part {
        match self.layout {
            Layout::Mirrored => Part { group: 0, offset, length },
            Layout::Linear => {
                let mut before = 0;
                let holds = |member: &Member<D>| {
                    let here = offset < before + member.size_bytes;
                    before += if here { 0 } else { member.size_bytes };
                    here
                };
                let group = self.members.iter().position(holds).expect("within the array");
                let left = before + self.members[group].size_bytes - offset;
                Part { group, offset: offset - before, length: length.min(left) }
            }
            Layout::Striped { unit_bytes } | Layout::StripedMirrors { unit_bytes } => {
                let groups = (self.members.len() / self.mirrors()) as u64;
                let (unit, within) = (offset / unit_bytes, offset % unit_bytes);
                Part {
                    group: usize::try_from(unit % groups).expect("fewer than the members"),
                    offset: unit / groups * unit_bytes + within,
                    length: length.min(unit_bytes - within),
                }
            }
        }
    }

    fn submit_part(&mut self, now: Nanos, request: u32, kind: Kind, part: Part) {
        let op = Op { tag: 0, kind, offset: part.offset, length: part.length };
        let piece = Piece { request, op, waiting: 0, served: false };
        let piece = self.pieces.insert(piece);
        self.requests.at(request).pieces_left += 1;
        let first = part.group * self.mirrors();
        if matches!(kind, Kind::Read | Kind::Cache) {
            if let Some(mirror) = self.mirror_for(first, part.offset) {
                self.submit_to(now, mirror, piece);
            }
        } else {
            for member in first..first + self.mirrors() {
                if self.usable(member) {
                    self.submit_to(now, member, piece);
                }
            }
        }
        if self.pieces.at(piece).waiting == 0 {
            self.finish_piece(piece, Outcome::Failed);
        }
    }

    fn submit_to(&mut self, now: Nanos, member: usize, piece: u32) {
        let waiting = self.pieces.at(piece);
        waiting.waiting += 1;
        let op = Op { tag: piece, ..waiting.op };
        let member = &mut self.members[member];
        member.outstanding += 1;
        member.last_end = op.offset + op.length;
        member.wake = Some(now);
        member.device.submit(now, op);
    }

    /// The mirror that should read at `offset`.
    fn mirror_for(&self, first: usize, offset: u64) -> Option<usize> {
        let group = first..first + self.mirrors();
        group.filter(|member| self.usable(*member)).min_by_key(|member| {
            let member = &self.members[*member];
            (member.outstanding, member.last_end.abs_diff(offset))
        })
    }

    /// A member without a mirror is asked whatever it did before.
    fn usable(&self, member: usize) -> bool {
        !self.members[member].failed || self.mirrors() == 1
    }

    fn member_done(&mut self, now: Nanos, member: usize, tag: u32, outcome: Outcome) {
        self.members[member].outstanding -= 1;
        self.members[member].failed |= outcome == Outcome::Failed;
        let piece = self.pieces.at(tag);
        piece.waiting -= 1;
        piece.served |= outcome == Outcome::Good;
        let Piece { op, waiting, served, .. } = *piece;
        if waiting > 0 {
            return;
        }
        if !served && matches!(op.kind, Kind::Read | Kind::Cache) && self.mirrors() > 1 {
            let first = member - member % self.mirrors();
            if let Some(mirror) = self.mirror_for(first, op.offset) {
                self.submit_to(now, mirror, tag);
                return;
            }
        }
        self.finish_piece(tag, if served { Outcome::Good } else { Outcome::Failed });
    }

    fn finish_piece(&mut self, piece: u32, outcome: Outcome) {
        let request = self.pieces.remove(piece).request;
        let entry = self.requests.at(request);
        entry.pieces_left -= 1;
        if outcome == Outcome::Failed {
            entry.outcome = Outcome::Failed;
        }
        if entry.pieces_left == 0 {
            self.finish_request(request);
        }
    }

    fn finish_request(&mut self, request: u32) {
        let Request { tag, outcome, .. } = self.requests.remove(request);
        self.done.push_back((tag, outcome));
    }

    /// Lets the members that are due go on, until one completes a request of the array.
    fn drain_members(&mut self, now: Nanos) {
        for member in 0..self.members.len() {
            while self.members[member].wake.is_some_and(|wake| wake <= now) {
                match self.members[member].device.poll(now) {
                    Step::Done { tag, outcome } => self.member_done(now, member, tag, outcome),
                    Step::WaitUntil(wake) => self.members[member].wake = Some(wake),
                    Step::Idle => self.members[member].wake = None,
                }
            }
        }
    }
}

impl<D: Device> Device for Array<D> {
    fn submit(&mut self, now: Nanos, op: Op) {
        let request = Request { tag: op.tag, pieces_left: 1, outcome: Outcome::Good };
        let request = self.requests.insert(request);
        if op.length == 0 {
            for group in 0..self.members.len() / self.mirrors() {
                self.submit_part(now, request, op.kind, Part { group, offset: 0, length: 0 });
            }
        }
        let (mut offset, mut left) = (op.offset, op.length);
        while left > 0 {
            let part = self.part(offset, left);
            self.submit_part(now, request, op.kind, part);
            offset += part.length;
            left -= part.length;
        }
        // The piece too many kept the request alive while it was cut.
        let entry = self.requests.at(request);
        entry.pieces_left -= 1;
        if entry.pieces_left == 0 {
            self.finish_request(request);
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        if self.done.is_empty() {
            // A read that a mirror failed may go to a member that was passed already.
            loop {
                self.drain_members(now);
                if !self.members.iter().any(|member| member.wake.is_some_and(|at| at <= now)) {
                    break;
                }
            }
        }
        if let Some((tag, outcome)) = self.done.pop_front() {
            return Step::Done { tag, outcome };
        }
        let next = self.members.iter().filter_map(|member| member.wake).min();
        next.map_or(Step::Idle, Step::WaitUntil)
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

/// Values by a small number that is used again once they are gone.
#[derive(Clone, Debug)]
struct Slots<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.values[slot as usize] = Some(value);
            return slot;
        }
        self.values.push(Some(value));
        u32::try_from(self.values.len() - 1).expect("fewer requests than tags")
    }

    fn at(&mut self, slot: u32) -> &mut T {
        self.values[slot as usize].as_mut().expect("a slot in use")
    }

    fn remove(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.values[slot as usize].take().expect("a slot in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::run;

    /// A member that takes as long as it is told, in order, and fails if told.
    #[derive(Clone, Debug)]
    struct Fixed {
        takes_ns: u64,
        fails: bool,
        busy_until: u64,
        queue: VecDeque<(u64, u32)>,
        seen: Vec<Op>,
    }

    fn fixed(takes_ns: u64, fails: bool) -> Fixed {
        Fixed { takes_ns, fails, busy_until: 0, queue: VecDeque::new(), seen: Vec::new() }
    }

    impl Device for Fixed {
        fn submit(&mut self, now: Nanos, op: Op) {
            self.busy_until = self.busy_until.max(now.0) + self.takes_ns;
            self.queue.push_back((self.busy_until, op.tag));
            self.seen.push(op);
        }

        fn poll(&mut self, now: Nanos) -> Step {
            match self.queue.front().copied() {
                None => Step::Idle,
                Some((due, _)) if due > now.0 => Step::WaitUntil(Nanos(due)),
                Some((_, tag)) => {
                    self.queue.pop_front();
                    let outcome = if self.fails { Outcome::Failed } else { Outcome::Good };
                    Step::Done { tag, outcome }
                }
            }
        }

        fn size_bytes(&self) -> u64 {
            100
        }
    }

    fn array(layout: Layout, members: &[(u64, bool)]) -> Array<Fixed> {
        let members = members.iter().map(|(takes_ns, fails)| fixed(*takes_ns, *fails)).collect();
        Array::new(layout, members).unwrap()
    }

    fn op(tag: u32, kind: Kind, offset: u64, length: u64) -> Op {
        Op { tag, kind, offset, length }
    }

    /// What each member was asked: offset and length.
    fn asked(array: &Array<Fixed>) -> Vec<Vec<(u64, u64)>> {
        let asked = |member: &Member<Fixed>| {
            member.device.seen.iter().map(|op| (op.offset, op.length)).collect()
        };
        array.members.iter().map(asked).collect()
    }

    #[test]
    fn a_striped_request_is_cut_at_stripe_units_and_done_with_its_last_piece() {
        let mut array = array(Layout::Striped { unit_bytes: 10 }, &[(5, false), (7, false)]);
        assert_eq!(array.size_bytes(), 200);
        let done = run(&mut array, &[(0, op(9, Kind::Read, 5, 30))]);
        assert_eq!(asked(&array), [vec![(5, 5), (10, 10)], vec![(0, 10), (10, 5)]]);
        assert_eq!(done, [(14, 9)]);
    }

    #[test]
    fn a_linear_request_runs_over_the_edge_of_a_member() {
        let mut array = array(Layout::Linear, &[(5, false), (7, false), (1, false)]);
        assert_eq!(array.size_bytes(), 300);
        assert_eq!(run(&mut array, &[(0, op(1, Kind::Write, 90, 20))]), [(7, 1)]);
        assert_eq!(asked(&array), [vec![(90, 10)], vec![(0, 10)], vec![]]);
    }

    #[test]
    fn mirrors_share_the_reads_and_repeat_the_writes() {
        let mut array = array(Layout::Mirrored, &[(5, false), (5, false)]);
        let requests = [
            (0, op(0, Kind::Write, 40, 10)),
            (10, op(1, Kind::Read, 0, 10)),
            (10, op(2, Kind::Read, 20, 10)),
            // The second mirror was last at byte 30, the first at byte 10.
            (30, op(3, Kind::Read, 30, 10)),
        ];
        assert_eq!(run(&mut array, &requests), [(5, 0), (15, 1), (15, 2), (35, 3)]);
        assert_eq!(asked(&array), [vec![(40, 10), (0, 10)], vec![(40, 10), (20, 10), (30, 10)]]);
    }

    #[test]
    fn pairs_are_striped() {
        let unit_bytes = 10;
        let members = [(5, false); 4];
        let mut array = array(Layout::StripedMirrors { unit_bytes }, &members);
        assert_eq!(array.size_bytes(), 200);
        let _ = run(&mut array, &[(0, op(0, Kind::Write, 5, 10))]);
        assert_eq!(asked(&array), [vec![(5, 5)], vec![(5, 5)], vec![(0, 5)], vec![(0, 5)]]);
    }

    fn outcome(array: &mut Array<Fixed>, request: Op) -> Outcome {
        array.submit(Nanos(0), request);
        let mut now = Nanos(0);
        loop {
            match array.poll(now) {
                Step::Done { outcome, .. } => return outcome,
                Step::WaitUntil(next) => now = next,
                Step::Idle => panic!("lost"),
            }
        }
    }

    #[test]
    fn a_mirrored_array_survives_a_failing_member() {
        for kind in [Kind::Read, Kind::Write, Kind::Flush] {
            let mut array = array(Layout::Mirrored, &[(5, true), (5, false)]);
            let length = if kind == Kind::Flush { 0 } else { 10 };
            assert_eq!(outcome(&mut array, op(0, kind, 0, length)), Outcome::Good);
            assert!(array.has_failed(0) && !array.has_failed(1));
        }
    }

    #[test]
    fn a_request_without_a_good_member_fails() {
        let mut mirrors = array(Layout::Mirrored, &[(5, true), (5, true)]);
        assert_eq!(outcome(&mut mirrors, op(0, Kind::Read, 0, 10)), Outcome::Failed);
        assert_eq!(outcome(&mut mirrors, op(1, Kind::Write, 0, 10)), Outcome::Failed);
        let mut striped = array(Layout::Striped { unit_bytes: 10 }, &[(5, false), (5, true)]);
        assert_eq!(outcome(&mut striped, op(0, Kind::Write, 0, 20)), Outcome::Failed);
        assert_eq!(outcome(&mut striped, op(1, Kind::Write, 0, 10)), Outcome::Good);
    }

    #[test]
    fn every_byte_of_a_striped_array_has_its_own_place() {
        for layout in [Layout::Striped { unit_bytes: 8 }, Layout::Linear] {
            let array = array(layout, &[(1, false), (1, false), (1, false)]);
            let place = |offset| array.part(offset, 1);
            let mut places: Vec<_> =
                (0..array.size_bytes()).map(|at| (place(at).group, place(at).offset)).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len() as u64, array.size_bytes());
            assert!(places.iter().all(|(_, offset)| *offset < 100));
        }
    }

    #[test]
    fn members_that_make_no_array_are_refused() {
        let refused = |layout, count: usize| {
            Array::new(layout, vec![fixed(1, false); count]).map(|_| ()).unwrap_err()
        };
        assert_eq!(refused(Layout::Linear, 0), ArrayError::NoMember);
        assert_eq!(refused(Layout::StripedMirrors { unit_bytes: 1 }, 3), ArrayError::OddMembers);
        assert_eq!(refused(Layout::Striped { unit_bytes: 0 }, 2), ArrayError::StripeUnit);
        assert_eq!(refused(Layout::Striped { unit_bytes: 101 }, 2), ArrayError::StripeUnit);
    }
}
