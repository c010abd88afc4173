//! Replays: recorded requests, one after the other from a stream that is never held in memory.

use std::collections::VecDeque;
use std::ops::Range;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::Draw;
use evenkeel_trace::Record;

use super::World;
use super::tables::Sender;
use crate::checkers::Verdict;
use crate::events::Event;
use crate::link::Link;
use crate::result::Steady;
use crate::run::Stream;
use crate::scenario::{Replay, ReplayTiming, SIZE_BYTES_MAX};

/// Records of one replay that may be under way; further ones wait, and their waiting counts.
const UNDER_WAY_MAX: u32 = 1 << 20;

/// Offsets that had to be changed fall on multiples of this.
const SECTOR_BYTES: u64 = 512;

/// The places of a replay, and of those that continue it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// By requests under way, or answered and being thought about.
    taken: u32,
    /// The replay that began last: what becomes free is its own.
    owner: u32,
}

impl Places {
    pub(super) fn new(owner: u32) -> Self {
        Self { taken: 0, owner }
    }
}

/// One replay.
pub(super) struct Replayer<'s> {
    pub(super) name: String,
    /// None once it is over.
    stream: Option<Stream<'s>>,
    /// The record that starts next.
    next: Option<Record>,
    /// Indexes among the world's targets, by source.
    routes: Range<u32>,
    /// The target of all further sources.
    otherwise: Option<u32>,
    timing: ReplayTiming,
    start: Nanos,
    stop: Nanos,
    /// Index of the places that it shares with those that it continues.
    places: u32,
    /// When places are free again whose clients think.
    thinking: VecDeque<Nanos>,
    /// Requests that may still be sent before others have their answers.
    window_left: u32,
    /// Requests that wait for that, with the instant since when, and their target.
    held: VecDeque<(Draw, Nanos, u32)>,
    pub(super) link: Link,
    wake_at: Option<Nanos>,
    pub(super) steady: Steady,
}

impl<'s> Replayer<'s> {
    /// A replay that has sent nothing yet.
    pub(super) fn new(
        replay: &Replay,
        stream: Stream<'s>,
        (routes, otherwise): (Range<u32>, Option<u32>),
        places: u32,
        link: Link,
    ) -> Self {
        Self {
            name: replay.name.clone(),
            stream: Some(stream),
            next: None,
            routes,
            otherwise,
            timing: replay.timing,
            start: Nanos::ZERO + replay.start,
            stop: replay.stop.map_or(Nanos(u64::MAX), |stop| Nanos::ZERO + stop),
            places,
            thinking: VecDeque::new(),
            window_left: replay.window.unwrap_or(UNDER_WAY_MAX),
            held: VecDeque::new(),
            link,
            wake_at: None,
            steady: Steady::default(),
        }
    }

    /// The next record, which stays until it is taken.
    fn peek(&mut self) -> Option<Record> {
        if self.next.is_none() {
            self.next = self.stream.as_mut().and_then(Iterator::next);
        }
        self.next
    }

    /// When a record is due.
    fn due(&self, record: &Record, now: Nanos) -> Nanos {
        match self.timing {
            // A closed loop: its requests arrive when they are sent.
            ReplayTiming::Closed { .. } => self.start.max(now),
            ReplayTiming::Recorded { speed_milli } => {
                let scaled = u128::from(record.at.0) * 1000 / u128::from(speed_milli.max(1));
                self.start + Span(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
        }
    }

    /// The most that may be under way at once.
    fn depth(&self) -> u32 {
        match self.timing {
            ReplayTiming::Closed { depth, .. } => depth,
            ReplayTiming::Recorded { .. } => UNDER_WAY_MAX,
        }
    }

    /// How long a place stays empty after an answer.
    fn think(&self) -> Span {
        match self.timing {
            ReplayTiming::Closed { think, .. } => think,
            ReplayTiming::Recorded { .. } => Span::ZERO,
        }
    }

    fn route(&self, record: &Record) -> Option<u32> {
        let routed = self.routes.start.checked_add(record.source.0);
        routed.filter(|target| self.routes.contains(target)).or(self.otherwise)
    }
}

/// Where a record's request lies in a target of some size: unchanged if it fits, else wrapped
/// around.
fn fit(record: &Record, size_bytes: u64) -> Draw {
    let length = record.length.min(size_bytes).min(u64::from(SIZE_BYTES_MAX));
    let size = u32::try_from(length).expect("bounded above");
    let last = size_bytes - length;
    let offset = match record.offset {
        fits if fits <= last => fits,
        beyond => (beyond % (last + 1)) / SECTOR_BYTES * SECTOR_BYTES,
    };
    Draw { kind: record.kind, offset, size_bytes: size, fua: false }
}

impl World<'_> {
    pub(super) fn wake_replay(&mut self, index: u32) -> Verdict {
        let now = self.now;
        let replay = &mut self.replays[index as usize];
        let is_due = replay.wake_at.take_if(|at| *at <= now).is_some();
        let places = replay.thinking.iter().take_while(|at| **at <= now).count();
        replay.thinking.drain(..places);
        if is_due {
            self.start_replay(index)?;
        }
        self.free_places(index, u32::try_from(places).expect("no more than there are places"))
    }

    /// A request of a replay has been answered.
    pub(super) fn replay_answered(&mut self, index: u32) -> Verdict {
        self.send_held(index)?;
        let replay = &mut self.replays[index as usize];
        let think = replay.think();
        if think > Span::ZERO {
            let at = self.now + think;
            replay.thinking.push_back(at);
            self.events.push(at, Event::Replay(index));
            return Ok(());
        }
        self.free_places(index, 1)
    }

    /// Starts every record that is due and has a place.
    pub(super) fn start_replay(&mut self, index: u32) -> Verdict {
        loop {
            let replay = &mut self.replays[index as usize];
            let Some(record) = replay.peek() else { return Ok(()) };
            let due = replay.due(&record, self.now);
            if due >= self.measured.end.min(replay.stop) {
                // It arrives after the measured time; what is left of the stream is not read.
                (replay.stream, replay.next) = (None, None);
                return Ok(());
            }
            if due > self.now {
                if replay.wake_at.replace(due) != Some(due) {
                    self.events.push(due, Event::Replay(index));
                }
                return Ok(());
            }
            let places = &mut self.places[replay.places as usize];
            places.owner = index;
            if places.taken >= replay.depth() {
                return Ok(());
            }
            replay.next = None;
            if let Some(target) = replay.route(&record) {
                places.taken += 1;
                let draw = fit(&record, self.targets[target as usize].size_bytes);
                self.replays[index as usize].held.push_back((draw, due, target));
                self.send_next(index)?;
            }
        }
    }

    /// So many places are free again, for whoever has them by now.
    fn free_places(&mut self, index: u32, count: u32) -> Verdict {
        if count == 0 {
            return Ok(());
        }
        let places = &mut self.places[self.replays[index as usize].places as usize];
        places.taken -= count;
        let owner = places.owner;
        self.start_replay(owner)
    }

    /// One has its answer: another may be sent.
    fn send_held(&mut self, index: u32) -> Verdict {
        self.replays[index as usize].window_left += 1;
        self.send_next(index)
    }

    /// Sends the one that waits longest, if one may be sent.
    fn send_next(&mut self, index: u32) -> Verdict {
        let replay = &mut self.replays[index as usize];
        if replay.window_left == 0 {
            return Ok(());
        }
        let Some((draw, due, target)) = replay.held.pop_front() else { return Ok(()) };
        replay.window_left -= 1;
        self.start(Sender::Replay(index), &draw, due, target..target + 1)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::Kind;
    use evenkeel_trace::SourceId;

    use super::*;

    fn record(offset: u64, length: u64) -> Record {
        let at = Nanos::ZERO;
        Record { at, source: SourceId(0), kind: Kind::Read, offset, length, response: None }
    }

    #[test]
    fn records_that_fit_stay_where_they_are_and_others_wrap_around() {
        let place = |offset, length| {
            let draw = fit(&record(offset, length), 1 << 20);
            (draw.offset, draw.size_bytes)
        };
        assert_eq!(place(777, 4096), (777, 4096));
        assert_eq!(place((1 << 20) - 4096, 4096), ((1 << 20) - 4096, 4096));
        assert_eq!(place(1 << 20, 4096), (3584, 4096), "one beyond the last place, whole sectors");
        assert_eq!(place(5, 1 << 30), (0, 1 << 20));
        assert_eq!(place(u64::MAX, 0).1, 0);
    }
}
