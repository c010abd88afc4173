//! The drive: takes requests, moves them through the parts, and says when they are done.
//!
//! ```text
//! read    Command --> ArrayRead (each page) --> ReadOut (each page) --> Complete
//! write   Command --> Arrived --> units into the cache, waiting for room --> done
//! destage a program's worth of dirty units --> a die: DieDone --> room in the cache
//! collect CollectRead --> DieDone, until the victim is empty; then erase: DieDone
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::cache::{Cache, Epoch, Leaving};
use super::flash::{DieQueue, Job, PageRead};
use super::gc::Collection;
use super::geometry::{Die, Geometry, Slot, Unit};
use super::interface::{HostLink, Pipe};
use super::layout::{Layout, Precondition};
use super::map::Map;
use super::pool::{Pool, Stream};
use super::spec::{OPEN_BLOCKS, SsdSpec, SsdSpecError};
use crate::device::{Device, Op, Outcome, Step};

/// Free blocks of a die that is overwritten without pause: collection has used up its head start,
/// and what it frees is written at once.
const FREE_UNDER_LOAD: u32 = 1;

/// What the flash has gone through, in units of the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Units that the host wrote to the cache; a unit written twice counts twice.
    pub host_units: u64,
    /// Units that went from the cache to the flash.
    pub programmed_units: u64,
    /// Units that garbage collection moved.
    pub moved_units: u64,
    /// Units' room that was programmed with nothing.
    pub padding_units: u64,
    /// Blocks erased, each over all planes of a die.
    pub erases: u64,
    /// Pages read because the host wrote a part of a unit.
    pub merge_reads: u64,
}

impl Wear {
    /// What the flash programmed over what came from the cache; 1 if nothing came.
    pub fn write_amplification(&self) -> f64 {
        if self.programmed_units == 0 {
            return 1.0;
        }
        let all = self.programmed_units + self.moved_units + self.padding_units;
        all as f64 / self.programmed_units as f64
    }
}

/// A flash drive. See the [module](super).
#[derive(Clone, Debug)]
pub struct Ssd {
    pub(super) geometry: Geometry,
    spec: SsdSpec,
    link: HostLink,
    channels: Vec<Pipe>,
    dies: Vec<DieState>,
    /// Where the search for a die that can program begins.
    next_die: u32,
    pub(super) map: Map,
    pub(super) cache: Cache,
    /// Writes that have arrived and wait for room in the cache, in order.
    waiting: VecDeque<u32>,
    /// Flushes that wait for their epoch.
    flushes: VecDeque<(Epoch, u32)>,
    requests: Vec<Request>,
    spare_requests: Vec<u32>,
    events: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    done: VecDeque<u32>,
    wear: Wear,
}

#[derive(Clone, Debug)]
struct DieState {
    queue: DieQueue,
    pool: Pool,
    collection: Option<Collection>,
    /// What the program that is queued or under way writes; empty if there is none.
    leaving: Vec<Leaving>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    op: Op,
    /// Page reads under way.
    pending: u32,
    /// The next unit of a write that the cache has not taken yet.
    next_unit: u32,
}

/// What happens at an instant; equal instants keep the order of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Nanos,
    sequence: u64,
    event: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Command { request: u32 },
    Arrived { request: u32 },
    ArrayRead { die: u32, plane: u32, request: u32, bytes: u32 },
    ReadOut { request: u32 },
    CollectRead { die: u32, units: u32 },
    DieDone { die: u32 },
    Complete { request: u32 },
}

impl Ssd {
    /// The drive that `spec` describes, in the state that it asks for. Cheap whatever its size.
    ///
    /// # Errors
    /// As [`SsdSpec::check`].
    pub fn new(spec: SsdSpec) -> Result<Self, SsdSpecError> {
        spec.check()?;
        let geometry = spec.geometry;
        let rows = match spec.precondition {
            Precondition::Fresh => 0,
            Precondition::Sequential => {
                geometry.blocks_per_plane - spec.collection.start_free_blocks - OPEN_BLOCKS
            }
            Precondition::Random => geometry.blocks_per_plane - FREE_UNDER_LOAD - OPEN_BLOCKS,
        };
        let die = |die| DieState {
            queue: DieQueue::new(),
            pool: Pool::new(&geometry, Die(die), rows),
            collection: None,
            leaving: Vec::new(),
        };
        let layout = Layout::new(&geometry, spec.precondition, rows, spec.seed);
        let cache_units = spec.cache.capacity_bytes / u64::from(geometry.unit_bytes);
        let mut drive = Self {
            geometry,
            link: HostLink::new(spec.interface),
            channels: vec![Pipe::new(spec.flash.channel_rate_bytes); geometry.channels as usize],
            dies: (0..geometry.dies()).map(die).collect(),
            next_die: 0,
            map: Map::new(&geometry, layout),
            cache: Cache::new(u32::try_from(cache_units).unwrap_or(u32::MAX)),
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
            requests: Vec::new(),
            spare_requests: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            done: VecDeque::new(),
            wear: Wear::default(),
            spec,
        };
        if drive.spec.precondition == Precondition::Random {
            drive.stagger();
        }
        Ok(drive)
    }

    /// Opens blocks and leaves them at different heights in different dies. Dies that have been
    /// in use for long do not all run out of free blocks at once.
    fn stagger(&mut self) {
        let dies = self.geometry.dies();
        let pages = self.geometry.pages_per_block;
        for (state, number) in self.dies.iter_mut().zip(0..) {
            for (stream, turn) in [(Stream::Host, number), (Stream::Moved, number + dies / 2)] {
                let programs = pages * (turn % dies) / dies;
                for _ in 0..programs * self.geometry.units_per_program() {
                    self.map.pad(state.pool.take(&self.geometry, stream));
                }
            }
        }
    }

    /// What the flash has gone through since the start.
    pub fn wear(&self) -> Wear {
        self.wear
    }

    fn schedule(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse(Entry { at, sequence: self.sequence, event }));
    }

    fn handle(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Command { request } => self.execute(now, request),
            Event::Arrived { request } => {
                self.waiting.push_back(request);
                self.admit(now);
            }
            Event::ArrayRead { die, plane, request, bytes } => {
                self.dies[die as usize].queue.end_read(plane);
                let at = self.channel(Die(die)).carry(now, u64::from(bytes));
                self.schedule(at, Event::ReadOut { request });
                self.start_jobs(now, Die(die));
            }
            Event::ReadOut { request } => self.page_read(now, request),
            Event::CollectRead { die, units } => {
                // Out to the controller and back in.
                let bytes = 2 * u64::from(units) * u64::from(self.geometry.unit_bytes);
                let at = self.channel(Die(die)).carry(now, bytes);
                self.schedule(at + Span(self.spec.flash.program_ns), Event::DieDone { die });
            }
            Event::DieDone { die } => self.die_done(now, Die(die)),
            Event::Complete { request } => self.complete(request),
        }
    }

    /// The drive has understood a command.
    fn execute(&mut self, now: Nanos, request: u32) {
        let op = self.requests[request as usize].op;
        match op.kind {
            Kind::Read if op.length > 0 => self.read(now, request),
            Kind::Write if op.length > 0 => {
                let at = self.link.receive(now, op.length);
                self.schedule(at, Event::Arrived { request });
            }
            Kind::WriteZeroes if op.length > 0 => {
                self.schedule(now, Event::Arrived { request });
            }
            Kind::Flush if !self.spec.cache.is_protected => {
                let epoch = self.cache.end_epoch();
                self.flushes.push_back((epoch, request));
                self.destage(now);
                self.end_flushes();
            }
            Kind::Trim => {
                let unit = u64::from(self.geometry.unit_bytes);
                let first = unit_number(op.offset.div_ceil(unit));
                let end = unit_number((op.offset + op.length) / unit);
                if first < end {
                    self.cache.discard_range(first, end);
                    self.map.trim(first, end);
                }
                self.complete(request);
                self.end_flushes();
                self.admit(now);
            }
            // A protected cache is durable; there is no cache of clean data to read ahead into.
            Kind::Read | Kind::Write | Kind::WriteZeroes | Kind::Flush | Kind::Cache => {
                self.complete(request);
            }
        }
    }

    /// Reads the pages of a request; neighbours in one page are read at once.
    fn read(&mut self, now: Nanos, request: u32) {
        let (first, end) = self.units_of(&self.requests[request as usize].op);
        let mut group: Option<(Slot, u32)> = None;
        for unit in (first.0..end.0).map(Unit) {
            if self.cache.holds(unit) {
                continue;
            }
            let Some(slot) = self.map.slot_of(unit) else { continue };
            let page = |slot: Slot| slot.0 / self.geometry.units_per_page();
            group = match group {
                Some((start, units)) if page(start) == page(slot) => Some((start, units + 1)),
                Some((start, units)) => {
                    self.read_page(now, request, start, units);
                    Some((slot, 1))
                }
                None => Some((slot, 1)),
            };
        }
        if let Some((start, units)) = group {
            self.read_page(now, request, start, units);
        } else {
            self.deliver(now, request);
        }
    }

    fn read_page(&mut self, now: Nanos, request: u32, slot: Slot, units: u32) {
        let (block, index) = self.geometry.place(slot);
        let die = self.geometry.die_of(block);
        let plane = self.geometry.plane_of(index);
        self.requests[request as usize].pending += 1;
        let bytes = units * self.geometry.unit_bytes;
        self.dies[die.0 as usize].queue.push(Job::Read(PageRead { request, plane, bytes }));
        self.start_jobs(now, die);
    }

    /// A page of a request has reached the controller.
    fn page_read(&mut self, now: Nanos, request: u32) {
        let entry = &mut self.requests[request as usize];
        entry.pending -= 1;
        if entry.pending > 0 {
            return;
        }
        let op = entry.op;
        if op.kind == Kind::Read {
            self.deliver(now, request);
        } else if entry.next_unit == self.units_of(&op).1.0 {
            self.complete(request);
        }
    }

    fn deliver(&mut self, now: Nanos, request: u32) {
        let at = self.link.send(now, self.requests[request as usize].op.length);
        self.schedule(at, Event::Complete { request });
    }

    /// Lets waiting writes into the cache as far as there is room, and writes it out.
    fn admit(&mut self, now: Nanos) {
        while let Some(&request) = self.waiting.front() {
            if !self.admit_units(now, request) {
                break;
            }
            self.waiting.pop_front();
            if self.requests[request as usize].pending == 0 {
                self.complete(request);
            }
        }
        self.destage(now);
    }

    /// Whether the cache has taken the whole request.
    fn admit_units(&mut self, now: Nanos, request: u32) -> bool {
        let Request { op, next_unit, .. } = self.requests[request as usize];
        let (_, end) = self.units_of(&op);
        for unit in (next_unit..end.0).map(Unit) {
            let was_held = self.cache.holds(unit);
            if !self.cache.write(unit) {
                return false;
            }
            self.requests[request as usize].next_unit += 1;
            self.wear.host_units += 1;
            if !was_held && self.is_partial(&op, unit) {
                // The rest of the unit must be known before the drive can answer for it.
                if let Some(slot) = self.map.slot_of(unit) {
                    self.wear.merge_reads += 1;
                    self.read_page(now, request, slot, 1);
                }
            }
        }
        true
    }

    /// Gives dirty units to dies that can program, as long as there are enough of both.
    fn destage(&mut self, now: Nanos) {
        let full = self.geometry.units_per_program();
        // A flush cannot wait until a program is full.
        while self.cache.dirty() >= full || (!self.flushes.is_empty() && self.cache.dirty() > 0) {
            let Some(die) = self.die_for_program(now) else { return };
            let leaving = self.cache.take(full);
            let state = &mut self.dies[die.0 as usize];
            for left in &leaving {
                let slot = state.pool.take(&self.geometry, Stream::Host);
                self.map.assign(left.unit, slot);
            }
            let units = u32::try_from(leaving.len()).expect("at most one program");
            for _ in units..full {
                self.map.pad(state.pool.take(&self.geometry, Stream::Host));
            }
            self.wear.programmed_units += u64::from(units);
            self.wear.padding_units += u64::from(full - units);
            state.leaving = leaving;
            state.queue.push(Job::Program);
            self.collect_if_short(die);
            self.start_jobs(now, die);
        }
    }

    /// The next die, round robin, that has no program waiting and has room.
    fn die_for_program(&mut self, now: Nanos) -> Option<Die> {
        let dies = self.geometry.dies();
        for step in 0..dies {
            let die = Die((self.next_die + step) % dies);
            let state = &self.dies[die.0 as usize];
            if !state.leaving.is_empty() {
                continue;
            }
            if state.pool.takes_host() {
                self.next_die = (die.0 + 1) % dies;
                return Some(die);
            }
            // It may have found no victim before; overwrites elsewhere can have made one.
            if self.collect_if_short(die) {
                self.start_jobs(now, die);
            }
        }
        None
    }

    /// Starts garbage collection in a die with too few free blocks; whether it did.
    fn collect_if_short(&mut self, die: Die) -> bool {
        let state = &mut self.dies[die.0 as usize];
        let is_short = state.pool.free() < self.spec.collection.start_free_blocks as usize;
        if !is_short || state.collection.is_some() {
            return false;
        }
        state.collection = Collection::start(&self.geometry, &state.pool, &self.map);
        if state.collection.is_some() {
            state.queue.push(Job::Collect);
        }
        state.collection.is_some()
    }

    /// Starts whatever the die can do now.
    fn start_jobs(&mut self, now: Nanos, die: Die) {
        while let Some(job) = self.dies[die.0 as usize].queue.start() {
            let flash = self.spec.flash;
            let die_done = Event::DieDone { die: die.0 };
            match job {
                Job::Read(PageRead { request, plane, bytes }) => {
                    let event = Event::ArrayRead { die: die.0, plane, request, bytes };
                    self.schedule(now + flash.reads(1), event);
                }
                Job::Program => {
                    let bytes = self.geometry.program_bytes();
                    let at = self.channel(die).carry(now, bytes) + Span(flash.program_ns);
                    self.schedule(at, die_done);
                }
                Job::Collect => self.collect_step(now, die),
                Job::Erase => self.schedule(now + Span(flash.erase_ns), die_done),
            }
        }
    }

    fn collect_step(&mut self, now: Nanos, die: Die) {
        let state = &mut self.dies[die.0 as usize];
        let collection = state.collection.as_mut().expect("the job was queued for it");
        let moved = collection.step(&self.geometry, &mut state.pool, &mut self.map);
        self.wear.moved_units += u64::from(moved.units);
        self.wear.padding_units += u64::from(moved.padding);
        if moved.units == 0 {
            // The host overwrote the rest meanwhile: nothing to do but to go on.
            self.schedule(now, Event::DieDone { die: die.0 });
        } else {
            let at = now + self.spec.flash.reads(moved.reads);
            self.schedule(at, Event::CollectRead { die: die.0, units: moved.units });
        }
    }

    /// A job of the whole die has ended.
    fn die_done(&mut self, now: Nanos, die: Die) {
        let state = &mut self.dies[die.0 as usize];
        match state.queue.end_whole() {
            Job::Program => {
                for left in std::mem::take(&mut state.leaving) {
                    self.cache.release(left);
                }
                self.end_flushes();
            }
            Job::Erase => {
                let collection = state.collection.take().expect("its victim was erased");
                self.map.erase(collection.victim);
                state.pool.give_back(&self.geometry, collection.victim);
                self.wear.erases += 1;
                self.collect_if_short(die);
            }
            Job::Collect => {
                let collection = state.collection.as_ref().expect("it has just made a step");
                let is_empty = self.map.valid_in(collection.victim) == 0;
                state.queue.push(if is_empty { Job::Erase } else { Job::Collect });
            }
            Job::Read(_) => unreachable!("a read does not occupy the whole die"),
        }
        self.admit(now);
        self.start_jobs(now, die);
    }

    fn end_flushes(&mut self) {
        while let Some(&(epoch, request)) = self.flushes.front() {
            if !self.cache.is_durable(epoch) {
                break;
            }
            self.flushes.pop_front();
            self.complete(request);
        }
    }

    fn complete(&mut self, request: u32) {
        self.done.push_back(self.requests[request as usize].op.tag);
        self.spare_requests.push(request);
    }

    fn channel(&mut self, die: Die) -> &mut Pipe {
        &mut self.channels[self.geometry.channel_of(die) as usize]
    }

    /// The units that a request touches: the first, and the one after the last.
    fn units_of(&self, op: &Op) -> (Unit, Unit) {
        let unit = u64::from(self.geometry.unit_bytes);
        (unit_number(op.offset / unit), unit_number((op.offset + op.length).div_ceil(unit)))
    }

    fn is_partial(&self, op: &Op, unit: Unit) -> bool {
        let size = u64::from(self.geometry.unit_bytes);
        let start = u64::from(unit.0) * size;
        op.offset > start || op.offset + op.length < start + size
    }
}

fn unit_number(number: u64) -> Unit {
    Unit(u32::try_from(number).expect("requests lie within the drive"))
}

impl Device for Ssd {
    fn submit(&mut self, now: Nanos, op: Op) {
        let next_unit = self.units_of(&op).0.0;
        let request = Request { op, pending: 0, next_unit };
        let index = if let Some(index) = self.spare_requests.pop() {
            self.requests[index as usize] = request;
            index
        } else {
            self.requests.push(request);
            u32::try_from(self.requests.len() - 1).expect("tags are 32 bits and unique")
        };
        let at = self.link.command(now);
        self.schedule(at, Event::Command { request: index });
    }

    fn poll(&mut self, now: Nanos) -> Step {
        loop {
            if let Some(tag) = self.done.pop_front() {
                return Step::Done { tag, outcome: Outcome::Good };
            }
            match self.events.peek() {
                None => return Step::Idle,
                Some(Reverse(next)) if next.at > now => return Step::WaitUntil(next.at),
                Some(_) => {
                    let Reverse(next) = self.events.pop().expect("there was one");
                    self.handle(next.at, next.event);
                }
            }
        }
    }

    fn size_bytes(&self) -> u64 {
        self.geometry.capacity_bytes
    }
}
