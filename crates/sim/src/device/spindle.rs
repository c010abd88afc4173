//! A disk by its averages, behind the queue of a host with deadlines.
//!
//! [`super::hdd`] knows where every sector is; this model knows a seek curve, a rotation that is
//! drawn, and a rate, which is enough to tell what sequential access is worth:
//!
//! ```text
//!   seek(x) = least + root * sqrt(x)     x: distance as a part of the whole stroke
//!   service = command + (0 if it goes on where the head is, else seek + a part of a turn) + bytes
//! ```
//!
//! The queue serves one direction for a batch, the nearest first, then the other; what has waited
//! beyond its expiry goes first in a batch. Requests that continue each other are served as one. No
//! write cache: a write is done when it is on the platter, so a flush takes no time.
//!
//! Worked example: alternating between two places with 256 KiB each, a drive of 120 MB/s whose seek
//! and turn take 3.6 and 3 ms moves 256 KiB in 2.2 + 6.6 ms: a quarter of its rate. With 4 MiB it
//! is five sixths. That is the whole argument for a log whose tail has a drive of its own.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use serde::Deserialize;

use super::standby::PowerSpec;
use super::{Device, Op, Outcome, Step};

/// What is to be known of the drive and its queue. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpindleSpec {
    /// What people call it.
    pub name: String,
    /// Where the figures come from.
    pub source: String,
    /// Bytes over the whole stroke.
    pub size_bytes: u64,
    /// The shortest seek.
    pub seek_least_ns: u64,
    /// What the full stroke takes longer; a part of the stroke takes its root of that.
    pub seek_root_ns: u64,
    /// One revolution.
    pub revolution_ns: u64,
    /// Bytes per second under the head.
    pub rate_bytes_per_s: u64,
    /// What any command takes besides.
    pub command_ns: u64,
    /// The host's queue.
    pub queue: QueueSpec,
    /// What it draws, and how long it takes to start.
    pub power: PowerSpec,
}

/// The host's queue before a drive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Commands in one direction before the other has its turn.
    pub batch: u32,
    /// Bytes of a command at most; longer requests are cut, shorter ones merged up to it.
    pub merge_bytes: u64,
    /// After so long a read goes first in a batch.
    pub read_expiry_ns: u64,
    /// After so long a write goes first in a batch.
    pub write_expiry_ns: u64,
}

/// The drive. See the [module](self).
#[derive(Clone, Debug)]
pub struct Spindle {
    spec: SpindleSpec,
    prng: Prng,
    /// Where the head is.
    head: u64,
    reads: VecDeque<Piece>,
    writes: VecDeque<Piece>,
    direction: Direction,
    /// Commands that the present batch may still have.
    left: u32,
    serving: Option<Serving>,
    /// Pieces that each request still waits for.
    pieces: BTreeMap<u32, u32>,
    done: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// A request, or the part of one that fits a command.
#[derive(Clone, Copy, Debug)]
struct Piece {
    tag: u32,
    offset: u64,
    length: u64,
    since: Nanos,
}

#[derive(Clone, Debug)]
struct Serving {
    until: Nanos,
    tags: Vec<u32>,
}

impl SpindleSpec {
    /// The drive that comes with the simulator: 10,000 rpm, 2.5 inch, 512 GB, of 2013.
    pub fn of_2013() -> Self {
        let text = include_str!("../../drives/sata-10k-2013.toml");
        toml::from_str(text).expect("the drive's file is part of the build")
    }

    /// The same drive with fewer bytes over the same stroke: seeks over the same part of it take as
    /// long, and so does each byte.
    #[must_use]
    pub fn of_size(self, size_bytes: u64) -> Self {
        Self { size_bytes, ..self }
    }
}

impl Spindle {
    /// A drive at rest with its head at the start; the seed draws where the platter is.
    pub fn new(spec: SpindleSpec, seed: u64) -> Self {
        Self {
            spec,
            prng: Prng::new(seed),
            head: 0,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            direction: Direction::Read,
            left: 0,
            serving: None,
            pieces: BTreeMap::new(),
            done: VecDeque::new(),
        }
    }

    fn waiting(&mut self, direction: Direction) -> &mut VecDeque<Piece> {
        match direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
        }
    }

    /// Takes the next command, if anything waits.
    fn serve(&mut self, now: Nanos) {
        let Some(is_fresh) = self.turn() else { return };
        let Some(first) = self.take_next(now, is_fresh) else { return };
        let mut end = first.offset + first.length;
        let mut tags = vec![first.tag];
        while let Some(piece) = self.take_continuing(end, first.offset) {
            end += piece.length;
            tags.push(piece.tag);
        }
        self.left -= 1;
        let positioning = self.positioning(first.offset);
        let rate = u128::from(self.spec.rate_bytes_per_s);
        let transfer_ns = u128::from(end - first.offset) * 1_000_000_000 / rate;
        let transfer = Span(u64::try_from(transfer_ns).expect("a command is bounded"));
        self.head = end;
        let until = now + Span(self.spec.command_ns) + positioning + transfer;
        self.serving = Some(Serving { until, tags });
    }

    /// Settles the direction; whether a batch begins, or nothing if nothing waits.
    fn turn(&mut self) -> Option<bool> {
        if self.reads.is_empty() && self.writes.is_empty() {
            return None;
        }
        let direction = self.direction;
        let goes_on = self.left > 0 && !self.waiting(direction).is_empty();
        if goes_on {
            return Some(false);
        }
        let other = match direction {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        };
        if !self.waiting(other).is_empty() {
            self.direction = other;
        }
        self.left = self.spec.queue.batch;
        Some(true)
    }

    /// The nearest in the present direction; at the start of a batch one that has expired.
    fn take_next(&mut self, now: Nanos, is_fresh: bool) -> Option<Piece> {
        let direction = self.direction;
        let expiry = Span(match direction {
            Direction::Read => self.spec.queue.read_expiry_ns,
            Direction::Write => self.spec.queue.write_expiry_ns,
        });
        let head = self.head;
        let waiting = self.waiting(direction);
        let has_expired = is_fresh && now.since(waiting.front()?.since) > expiry;
        let nearest = waiting.iter().enumerate();
        let nearest = nearest.min_by_key(|(_, piece)| piece.offset.abs_diff(head));
        let index = if has_expired { 0 } else { nearest?.0 };
        waiting.remove(index)
    }

    fn take_continuing(&mut self, end: u64, start: u64) -> Option<Piece> {
        let merge_bytes = self.spec.queue.merge_bytes;
        let waiting = self.waiting(self.direction);
        let continues =
            |piece: &Piece| piece.offset == end && end + piece.length - start <= merge_bytes;
        let index = waiting.iter().position(continues)?;
        waiting.remove(index)
    }

    fn positioning(&mut self, offset: u64) -> Span {
        if offset == self.head {
            return Span::ZERO;
        }
        let distance = u128::from(offset.abs_diff(self.head));
        let part = (distance << 32) / u128::from(self.spec.size_bytes.max(1));
        // The root of a part in 2^-32ths is in 2^-16ths.
        let root = u64::try_from(part.isqrt()).expect("a distance is within the stroke");
        let seek_ns = self.spec.seek_least_ns + ((self.spec.seek_root_ns * root) >> 16);
        Span(seek_ns + self.prng.below(self.spec.revolution_ns.max(1)))
    }

    fn finish(&mut self, tags: Vec<u32>) {
        for tag in tags {
            let left = self.pieces.get_mut(&tag).expect("every piece belongs to a request");
            *left -= 1;
            if *left == 0 {
                self.pieces.remove(&tag);
                self.done.push_back(tag);
            }
        }
    }
}

impl Device for Spindle {
    fn submit(&mut self, now: Nanos, op: Op) {
        let direction = match op.kind {
            Kind::Read | Kind::Cache => Direction::Read,
            Kind::Write | Kind::WriteZeroes => Direction::Write,
            Kind::Flush | Kind::Trim => {
                self.done.push_back(op.tag);
                return;
            }
        };
        let most = self.spec.queue.merge_bytes;
        let (mut offset, end) = (op.offset, op.offset + op.length);
        let mut count = 0;
        while offset < end {
            let length = most.min(end - offset);
            let piece = Piece { tag: op.tag, offset, length, since: now };
            self.waiting(direction).push_back(piece);
            offset += length;
            count += 1;
        }
        self.pieces.insert(op.tag, count);
    }

    fn poll(&mut self, now: Nanos) -> Step {
        if let Some(serving) = self.serving.take_if(|serving| serving.until <= now) {
            self.finish(serving.tags);
        }
        if let Some(tag) = self.done.pop_front() {
            return Step::Done { tag, outcome: Outcome::Good };
        }
        if self.serving.is_none() {
            self.serve(now);
        }
        match &self.serving {
            Some(serving) => Step::WaitUntil(serving.until),
            None => Step::Idle,
        }
    }

    fn size_bytes(&self) -> u64 {
        self.spec.size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn drive() -> Spindle {
        Spindle::new(SpindleSpec::of_2013(), 1)
    }

    fn op(tag: u32, kind: Kind, offset: u64, length: u64) -> Op {
        Op { tag, kind, offset, length }
    }

    /// Everything that was submitted, in the order in which it is done, with the instants.
    fn run(drive: &mut Spindle) -> Vec<(u32, Nanos)> {
        let mut now = Nanos::ZERO;
        let mut done = Vec::new();
        loop {
            match drive.poll(now) {
                Step::Done { tag, .. } => done.push((tag, now)),
                Step::WaitUntil(at) => now = at,
                Step::Idle => return done,
            }
        }
    }

    #[test]
    fn what_goes_on_where_the_head_is_takes_its_bytes_and_no_more() {
        let mut drive = drive();
        drive.submit(Nanos::ZERO, op(0, Kind::Write, 0, 12 * MIB));
        // 24 commands of 512 KiB.
        let bytes_ns = 524_288 * 1_000_000_000 / 120_000_000;
        assert_eq!(run(&mut drive), [(0, Nanos(24 * (50_000 + bytes_ns)))]);
    }

    #[test]
    fn a_seek_over_a_quarter_of_the_stroke_takes_half_the_root_and_a_part_of_a_turn() {
        let mut drive = drive();
        let mean_ns = (0..1000).map(|_| drive.positioning(128_000_000_000).0).sum::<u64>() / 1000;
        assert!((6_250_000..6_550_000).contains(&mean_ns), "3.4 ms and half a turn: {mean_ns}");
    }

    #[test]
    fn neighbours_are_served_as_one_and_directions_take_turns() {
        let mut drive = drive();
        for (tag, offset) in [(0, 40 * MIB), (1, 0), (2, MIB / 4)] {
            drive.submit(Nanos::ZERO, op(tag, Kind::Read, offset, MIB / 4));
        }
        drive.submit(Nanos::ZERO, op(3, Kind::Write, 80 * MIB, MIB / 4));
        let order: Vec<u32> = run(&mut drive).into_iter().map(|(tag, _)| tag).collect();
        // Nothing was served before, so the first batch is of the direction that is not reads.
        assert_eq!(order, [3, 0, 2, 1], "then the nearest reads first, from there back");
    }

    #[test]
    fn what_has_waited_too_long_goes_first() {
        let mut drive = drive();
        drive.spec.queue.batch = 1;
        drive.submit(Nanos::ZERO, op(0, Kind::Read, 400_000_000_000, 4096));
        let mut now = Nanos::ZERO;
        let mut done = Vec::new();
        for tag in 1..200 {
            drive.submit(now, op(tag, Kind::Read, u64::from(tag) * MIB, 4096));
            while let Step::Done { tag, .. } = drive.poll(now) {
                done.push(tag);
            }
            if let Step::WaitUntil(at) = drive.poll(now) {
                now = at;
            }
        }
        let place = done.iter().position(|tag| *tag == 0).expect("it is served");
        assert!((50..160).contains(&place), "after half a second of others: {place}");
    }

    #[test]
    fn a_flush_takes_no_time() {
        let mut drive = drive();
        drive.submit(Nanos::ZERO, op(0, Kind::Write, MIB, MIB));
        drive.submit(Nanos::ZERO, op(1, Kind::Flush, 0, 0));
        assert_eq!(drive.poll(Nanos::ZERO), Step::Done { tag: 1, outcome: Outcome::Good });
    }
}
