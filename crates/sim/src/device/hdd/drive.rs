//! A hard disk drive: one arm, one bus, a queue and a buffer.
//!
//! ```text
//!   read, miss    |overhead|== seek ==|= wait =|x|x|x|x|  reading ahead, while nobody else waits
//!                                               |bus bus bus bus|done
//!   read, hit     |overhead|bus bus bus bus|done
//!   write back    |overhead|bus bus bus bus|done
//!                          |== seek, settle ==|= wait =|x|x|x|x|  the arm is free again
//! ```
//!
//! The arm serves one request at a time, and so does the bus. A read sends each sector on as soon
//! as it is in the buffer and the bus is free; it is done with the last one. With write-back a
//! write is done once its sectors lie in the buffer; without, once they lie on the platter. After a
//! read that moved the arm the drive reads on into the segment until the next request arrives: a
//! request for sectors that are still to come lets it go on, any other stops it behind the present
//! sector. A write that continues the one under way, and is next, joins it.
//!
//! Every instant is worked out when the arm takes a request, so that a request costs two events
//! whatever its size. Source: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE
//! Computer 27(3), 1994.

use std::ops::Range;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::cache::{Cache, Hit};
use super::geometry::{Geometry, Place};
use super::mechanics::{Mechanics, Purpose};
use super::parameters::{
    InterfaceParameters, Overhead, Parameters, ReadAhead, SECTOR_BYTES, Writes,
};
use super::queue::{Policy, Queue, Waiting};
use super::sweep::{Arm, Sweep};
use crate::device::{Device, Op, Outcome, Step};

/// A hard disk drive. See the [module](self).
#[derive(Clone, Debug)]
pub struct Hdd {
    geometry: Geometry,
    mechanics: Mechanics,
    interface: InterfaceParameters,
    write_back: bool,
    read_ahead: ReadAhead,
    read_ahead_on_hit: bool,
    whole_track: bool,
    segment_sectors: u64,
    cache: Cache,
    queue: Queue,
    arm: Arm,
    /// The reading into the segment used last, while it goes on.
    reading: Option<Reading>,
    serving: Option<Serving>,
    /// What the last completed request was; overheads depend on it.
    last: Purpose,
}

#[derive(Clone, Debug)]
struct Reading {
    sweep: Sweep,
    /// The sector at which it stops.
    limit: u64,
}

/// The request that the arm is with.
#[derive(Clone, Copy, Debug)]
struct Serving {
    tag: u32,
    purpose: Purpose,
    /// The sector behind its last.
    end: u64,
    /// When its owner hears of it.
    done: Nanos,
    told: bool,
    /// When the arm takes the next.
    free: Nanos,
}

impl Hdd {
    /// A drive at rest over its first track, its buffer empty.
    pub fn new(parameters: &Parameters, policy: Policy) -> Self {
        let geometry = Geometry::new(&parameters.geometry, parameters.mechanics.revolution_ns);
        let last = parameters.geometry.zones.last().expect("checked to have a zone");
        Self {
            mechanics: Mechanics::new(&parameters.mechanics, last.cylinders[1] + 1),
            geometry,
            interface: parameters.interface.clone(),
            write_back: parameters.cache.writes == Writes::Back,
            read_ahead: parameters.cache.read_ahead,
            read_ahead_on_hit: parameters.cache.read_ahead_on_hit,
            whole_track: parameters.cache.whole_track,
            segment_sectors: parameters.cache.segment_sectors,
            cache: Cache::new(&parameters.cache),
            queue: Queue::new(policy),
            arm: Arm::default(),
            reading: None,
            serving: None,
            last: Purpose::Read,
        }
    }

    fn serve(&mut self, now: Nanos, request: &Waiting) {
        let (done, free) = match request.kind {
            Kind::Read | Kind::Cache => self.read(now, request),
            Kind::Write | Kind::WriteZeroes => self.write(now, request),
            // Whatever was acknowledged before is on the platter once the arm is free.
            Kind::Flush | Kind::Trim => (now, now),
        };
        let (tag, purpose, end) = (request.tag, request.purpose(), request.sectors.end);
        self.serving = Some(Serving { tag, purpose, end, done, told: false, free });
    }

    /// The next request, if it continues the write that the arm is busy with and the buffer has
    /// room: its sectors then follow without a turn in between.
    fn continuing(&mut self, now: Nanos, end: u64) -> Option<Waiting> {
        let before = self.geometry.locate(end.checked_sub(1)?);
        let left = self.arm.ready.since(now);
        let unwritten = self.mechanics.passed(left, before.sectors_per_track);
        if !self.write_back || unwritten >= self.segment_sectors {
            return None;
        }
        self.queue.take_continuing(end, now, self.arm, &self.mechanics)
    }

    /// Where the arm would be if the reading were broken off now.
    fn arm_by(&mut self, now: Nanos) -> Arm {
        match &mut self.reading {
            None => self.arm,
            Some(reading) => {
                let limit = reading.limit;
                reading.sweep.end_by(&self.geometry, &self.mechanics, now, limit);
                reading.sweep.arm_at(&self.mechanics, now, limit)
            }
        }
    }

    /// When a read is done, and when the arm is free.
    fn read(&mut self, now: Nanos, request: &Waiting) -> (Nanos, Nanos) {
        self.note_reading(now);
        let hit = self.cache.find(&request.sectors);
        let goes_on = hit.is_some_and(|hit| self.cache.is_latest(hit.segment));
        if !goes_on {
            self.stop_reading(now);
        }
        let setup = Span(self.interface.transfer_setup_ns);
        let transfer = now.max(request.hit_ready) + setup;
        let done = match hit {
            Some(hit) => self.read_from_cache(now, request, hit, transfer),
            None => self.read_from_platter(now, request),
        };
        let told = done + Span(self.interface.read_completion_ns);
        (told, told)
    }

    fn read_from_cache(
        &mut self,
        now: Nanos,
        request: &Waiting,
        hit: Hit,
        transfer: Nanos,
    ) -> Nanos {
        self.cache.touch(hit.segment);
        let sent = transfer + self.bus(Purpose::Read, &request.sectors);
        if hit.end == request.sectors.end {
            self.read_on(now, request);
            return sent;
        }
        let limit = self.ahead(&request.sectors);
        let reading = match self.reading.take() {
            Some(reading) => Reading { limit: reading.limit.max(limit), ..reading },
            None => self.start_reading(now.max(request.arm_ready), hit.end, limit),
        };
        self.fetch(reading, &request.sectors, hit.end).max(sent)
    }

    /// A read that the buffer serves whole moves the end of the reading ahead.
    fn read_on(&mut self, now: Nanos, request: &Waiting) {
        let limit = self.ahead(&request.sectors);
        let end = self.cache.latest().end;
        if let Some(reading) = &mut self.reading {
            reading.limit = reading.limit.max(limit);
        } else if self.read_ahead_on_hit && end < limit {
            self.reading = Some(self.start_reading(now.max(request.arm_ready), end, limit));
        }
    }

    fn read_from_platter(&mut self, now: Nanos, request: &Waiting) -> Nanos {
        let start = request.sectors.start;
        let kept = if self.whole_track { u64::from(request.place.before) } else { 0 };
        self.cache.take(start - kept);
        self.cache.extend(start);
        let limit = self.ahead(&request.sectors);
        let reading = self.start_reading(now.max(request.arm_ready), start, limit);
        self.fetch(reading, &request.sectors, start)
    }

    fn start_reading(&mut self, ready: Nanos, first: u64, limit: u64) -> Reading {
        let arm = Arm { ready: self.arm.ready.max(ready), ..self.arm };
        let sweep = Sweep::start(&self.geometry, &self.mechanics, arm, first, Purpose::Read);
        Reading { sweep, limit }
    }

    /// Reads `wanted` from sector `from` on, sends all of it, and says when the last is sent.
    fn fetch(&mut self, mut reading: Reading, wanted: &Range<u64>, from: u64) -> Nanos {
        let sectors = wanted.end - wanted.start;
        let percent = u64::from(self.interface.read_watermark_percent);
        let enough = wanted.start + (sectors * percent / 100).max(1);
        let bus = |sectors| self.bus(Purpose::Read, &(0..sectors));
        let mut done = Nanos::ZERO;
        loop {
            let run = reading.sweep.run();
            let end = run.end().min(wanted.end);
            let first = from.max(run.first);
            let held = |end: u64| {
                let count = u32::try_from(end - run.first).expect("no more than the run");
                run.passed(&self.mechanics, count)
            };
            // The bus cannot have sent a sector before it was read, nor what follows it sooner
            // than it takes; between the ends of a run neither can get worse.
            for read in [first + 1, end] {
                done = done.max(held(read) + bus(wanted.end - read + 1));
            }
            if (first + 1..=end).contains(&enough) {
                let reselect = Span(self.interface.reselect_ns + self.interface.transfer_setup_ns);
                done = done.max(held(enough) + reselect + bus(sectors));
            }
            if run.end() >= wanted.end {
                break;
            }
            reading.sweep.next_run(&self.geometry, &self.mechanics);
        }
        self.cache.extend(wanted.end);
        self.reading = Some(reading);
        done
    }

    /// When a write is done, and when the arm is free.
    fn write(&mut self, now: Nanos, request: &Waiting) -> (Nanos, Nanos) {
        self.note_reading(now);
        self.stop_reading(now);
        self.cache.write(&request.sectors);
        let begins = now.max(request.arm_ready);
        let received = begins + Span(self.interface.transfer_setup_ns);
        let sent = received + self.bus(Purpose::Write, &request.sectors);
        let written = self.write_to_platter(begins, received, request);
        let done = if self.write_back { sent } else { written + Span(self.interface.reselect_ns) };
        let told = done + Span(self.interface.write_completion_ns);
        (told, told.max(written))
    }

    /// When all is written; the arm may move from `begins` on, and the first sector sets out on the
    /// bus at `received`.
    fn write_to_platter(&mut self, begins: Nanos, received: Nanos, request: &Waiting) -> Nanos {
        let seek = self.mechanics.reposition(self.arm.track, request.place.track, Purpose::Write);
        let wait = Span(self.interface.least_write_seek_ns.saturating_sub(seek.0));
        let arm = Arm { ready: self.arm.ready.max(begins) + wait, ..self.arm };
        let Range { start, end } = request.sectors;
        let mut sweep = Sweep::start(&self.geometry, &self.mechanics, arm, start, Purpose::Write);
        sweep.wait_until(&self.mechanics, self.may_write(received, request));
        while sweep.run().end() < end {
            sweep.next_run(&self.geometry, &self.mechanics);
        }
        let run = sweep.run();
        let last = u32::try_from(end - run.first).expect("no more than the run");
        let ready = run.passed(&self.mechanics, last);
        self.arm = Arm { track: run.track(), ready, seen: ready };
        ready
    }

    /// From when on the head can write and will not overtake the bus.
    fn may_write(&self, received: Nanos, request: &Waiting) -> Nanos {
        let sectors = request.sectors.end - request.sectors.start;
        let bus = |sectors| self.bus(Purpose::Write, &(0..sectors));
        let behind = u32::try_from(sectors - 1).unwrap_or(u32::MAX);
        let lead = self.mechanics.passing(behind, request.place.sectors_per_track);
        let enough = sectors.min(self.interface.write_after_sectors.max(1));
        (received + bus(sectors) - lead).max(received + bus(enough))
    }

    /// Brings the buffer up to date with the reading.
    fn note_reading(&mut self, now: Nanos) {
        let Some(reading) = &mut self.reading else { return };
        let limit = reading.limit;
        let end = reading.sweep.end_by(&self.geometry, &self.mechanics, now, limit);
        self.cache.extend(end);
        if end == limit {
            self.stop_reading(now);
        }
    }

    fn stop_reading(&mut self, now: Nanos) {
        if let Some(reading) = self.reading.take() {
            self.arm = reading.sweep.arm_at(&self.mechanics, now, reading.limit);
        }
    }

    /// Where reading stops that serves `wanted` into the segment used last.
    fn ahead(&self, wanted: &Range<u64>) -> u64 {
        let most = self.geometry.sectors();
        match self.read_ahead {
            ReadAhead::Sectors(sectors) => most.min(wanted.end + sectors),
            ReadAhead::Tracks if wanted.end >= most => most,
            ReadAhead::Tracks => {
                let place = self.geometry.locate(wanted.end);
                let track = wanted.end - u64::from(place.before);
                let crossed = self.cache.latest().start < track;
                let more = if crossed { place.sectors_per_track } else { 0 };
                most.min(wanted.end + u64::from(place.left) + u64::from(more))
            }
        }
    }

    fn bus(&self, purpose: Purpose, sectors: &Range<u64>) -> Span {
        let each = match purpose {
            Purpose::Read => self.interface.read_sector_ns,
            Purpose::Write => self.interface.write_sector_ns,
        };
        Span((sectors.end - sectors.start) * each)
    }

    fn after_last(&self, overhead: Overhead) -> Span {
        Span(match self.last {
            Purpose::Read => overhead.after_read,
            Purpose::Write => overhead.after_write,
        })
    }

    /// The sectors that a request touches, whole.
    fn sectors(&self, op: &Op) -> Range<u64> {
        let start = (op.offset / SECTOR_BYTES).min(self.geometry.sectors() - 1);
        let end = (op.offset + op.length).div_ceil(SECTOR_BYTES);
        start..end.clamp(start + 1, self.geometry.sectors())
    }
}

impl Device for Hdd {
    fn submit(&mut self, now: Nanos, op: Op) {
        let sectors = self.sectors(&op);
        let place: Place = self.geometry.locate(sectors.start);
        let (hit, miss) = match op.kind {
            Kind::Read | Kind::Cache => (self.interface.read_hit_ns, self.interface.read_miss_ns),
            _ => (self.interface.write_ns, self.interface.write_ns),
        };
        self.queue.push(Waiting {
            tag: op.tag,
            kind: op.kind,
            sectors,
            place,
            hit_ready: now + self.after_last(hit),
            arm_ready: now + self.after_last(miss),
        });
    }

    fn poll(&mut self, now: Nanos) -> Step {
        loop {
            if let Some(serving) = &mut self.serving {
                if !serving.told {
                    if serving.done > now {
                        return Step::WaitUntil(serving.done);
                    }
                    serving.told = true;
                    self.last = serving.purpose;
                    return Step::Done { tag: serving.tag, outcome: Outcome::Good };
                }
                let (end, free) = (serving.end, serving.free);
                if free > now {
                    let Some(request) = self.continuing(now, end) else {
                        return Step::WaitUntil(free);
                    };
                    self.serve(now, &request);
                    continue;
                }
                self.serving = None;
            }
            let arm = self.arm_by(now);
            let Some(request) = self.queue.take(now, arm, &self.mechanics) else {
                return Step::Idle;
            };
            self.serve(now, &request);
        }
    }

    fn size_bytes(&self) -> u64 {
        self.geometry.sectors() * SECTOR_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::run;

    const MS: u64 = 1_000_000;

    fn cheetah() -> Hdd {
        Hdd::new(&Parameters::built_in("cheetah-9lp").unwrap(), Policy::Fcfs)
    }

    fn op(tag: u32, kind: Kind, sector: u64, sectors: u64) -> Op {
        Op { tag, kind, offset: sector * SECTOR_BYTES, length: sectors * SECTOR_BYTES }
    }

    /// What each request took, by tag.
    fn took(drive: &mut Hdd, arrivals: &[(u64, Op)]) -> Vec<u64> {
        let mut done = run(drive, arrivals);
        done.sort_unstable_by_key(|(_, tag)| *tag);
        done.iter().zip(arrivals).map(|((at, _), (sent, _))| at - sent).collect()
    }

    #[test]
    fn a_read_finds_what_was_read_ahead() {
        let requests = [
            (0, op(0, Kind::Read, 1_000_000, 8)),
            (50 * MS, op(1, Kind::Read, 1_000_008, 8)),
            (100 * MS, op(2, Kind::Read, 1_000_000, 16)),
        ];
        let took = took(&mut cheetah(), &requests);
        assert!(took[0] > 3 * MS);
        // The overhead of a hit, and the bus.
        assert_eq!(took[1..], [66_000 + 8 * 105_000, 66_000 + 16 * 105_000]);
    }

    #[test]
    fn a_read_catches_up_with_the_reading_ahead() {
        let mut drive = cheetah();
        let first = took(&mut drive, &[(0, op(0, Kind::Read, 1_000_000, 8))])[0];
        // The bus took longer than the platter, which is now 30 sectors further.
        let next = [(first, op(1, Kind::Read, 1_000_020, 60))];
        assert_eq!(took(&mut drive, &next)[0], 66_000 + 60 * 105_000);
    }

    #[test]
    fn a_write_is_done_in_the_buffer_and_the_next_request_waits_for_the_platter() {
        let requests =
            [(0, op(0, Kind::Write, 9_000_000, 8)), (MS, op(1, Kind::Read, 9_000_000, 8))];
        let took = took(&mut cheetah(), &requests);
        assert_eq!(took[0], 748_000 + 8 * 105_000);
        assert!(took[1] > 4 * MS, "{took:?}");
    }

    #[test]
    fn a_flush_waits_for_the_platter() {
        let requests = [(0, op(0, Kind::Write, 9_000_000, 8)), (2 * MS, op(1, Kind::Flush, 0, 0))];
        let took = took(&mut cheetah(), &requests);
        assert!(took[1] > 4 * MS, "{took:?}");
    }

    #[test]
    fn without_write_back_a_write_waits_for_the_platter() {
        let mut parameters = Parameters::built_in("cheetah-9lp").unwrap();
        parameters.cache.writes = Writes::Through;
        let mut drive = Hdd::new(&parameters, Policy::Fcfs);
        assert!(took(&mut drive, &[(0, op(0, Kind::Write, 9_000_000, 8))])[0] > 6 * MS);
    }

    #[test]
    fn queued_writes_that_continue_each_other_lose_no_turn() {
        let writes = |step: u64| {
            (0..40).map(move |index: u32| {
                (0, op(index, Kind::Write, 1_000_000 + u64::from(index) * step, 8))
            })
        };
        let last = |step| run(&mut cheetah(), &writes(step).collect::<Vec<_>>()).last().unwrap().0;
        // The bus alone takes 34 ms for all; with a hole between them each waits for its turn.
        assert!(last(8) < 60 * MS && last(9) > 200 * MS, "{} {}", last(8), last(9));
    }

    #[test]
    fn a_request_beyond_a_sector_edge_takes_whole_sectors() {
        let drive = cheetah();
        let op = |offset, length| Op { tag: 0, kind: Kind::Read, offset, length };
        assert_eq!(drive.sectors(&op(511, 2)), 0..2);
        assert_eq!(drive.sectors(&op(512, 512)), 1..2);
        assert_eq!(drive.sectors(&op(0, 0)), 0..1);
    }
}
