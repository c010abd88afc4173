//! Devices unknown to the gate, drawn at random: stations that serve in
//! parallel, from one queue or from one each, and disks; some with a write-back cache, pauses, slow
//! writes, another initiator, or a change in mid-run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Write as _;

use evenkeel_core::float::exponential;
use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::{Cost, Kind};
use evenkeel_core::time::{Nanos, Span};

use super::clients::DEVICE_BYTES;
use crate::device::spindle::{Spindle, SpindleSpec};
use crate::device::{Device, Op, Outcome, Step};

/// Tags from here on are the other initiator's.
const OTHERS: u32 = 1 << 24;
/// How often the other initiator looks at its latency.
const LOOK: Span = Span::from_millis(100);
/// The change, while the depth is still to settle.
const CHANGE_AT: Nanos = Nanos(2_500_000_000);

/// A device by what was drawn. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    /// A disk; stations where there is none.
    disk: Option<Spindle>,
    stations: Stations,
    other: Option<Other>,
    /// When the disk was done with the last one.
    disk_done: Nanos,
}

#[derive(Clone, Debug)]
struct Stations {
    spec: Spec,
    prng: Prng,
    /// One, or one for each station.
    queues: Vec<VecDeque<Op>>,
    /// Stations of each queue that serve.
    busy: Vec<u32>,
    /// Ends of service: when, in which order they began, of which request, from which queue.
    ends: BinaryHeap<Reverse<(Nanos, u64, u32, usize)>>,
    begun: u64,
    /// How long each request that is out holds its station.
    held: BTreeMap<u32, Span>,
    /// What the cache holds that is not on the medium, as of then.
    dirty_bytes: f64,
    dirty_at: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    stations: u32,
    has_own_queues: bool,
    /// Mean time of a request at a station, without its bytes.
    fixed: Span,
    /// Nanoseconds for each KiB.
    per_kib_ns: u64,
    service: Service,
    /// Time between the last station and the client.
    delay: Span,
    /// Reads are so many times quicker than writes.
    writes_slower: u64,
    /// Bytes of a write-back cache, into which a write takes a twentieth of its time; 0 for none.
    cache_bytes: u64,
    /// So much slower for 30 ms of each 100: a host without its processor.
    is_in_bursts: bool,
    /// Five times slower for a fifth of a second in each 1.6: collects garbage.
    collects: bool,
    /// From the middle of the settling on, times last so many percent.
    change_percent: u64,
}

/// How times at a station are distributed about their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Constant,
    Exponential,
    Lognormal,
    /// One of ten takes eleven times as long as the others.
    Bimodal,
}

/// Another host before the same device, which takes as much as its latency allows.
#[derive(Clone, Debug)]
struct Other {
    under_way: u32,
    window: u32,
    sent: Vec<Nanos>,
    looked: Nanos,
    request_time: Span,
    requests: u64,
    least: Span,
    prng: Prng,
}

impl Drawn {
    pub(crate) fn draw(prng: &mut Prng) -> Self {
        let disk = (prng.below(6) == 0)
            .then(|| Spindle::new(SpindleSpec::of_2013().of_size(DEVICE_BYTES), prng.next_u64()));
        let spec = Spec::draw(prng);
        let queues = if spec.has_own_queues { spec.stations as usize } else { 1 };
        let stations = Stations {
            spec,
            prng: Prng::new(0),
            queues: vec![VecDeque::new(); queues],
            busy: vec![0; queues],
            ends: BinaryHeap::new(),
            begun: 0,
            held: BTreeMap::new(),
            dirty_bytes: 0.0,
            dirty_at: Nanos::ZERO,
        };
        let other = (prng.below(10) == 0).then(|| Other::new(prng.next_u64()));
        Self { disk, stations, other, disk_done: Nanos::ZERO }
    }

    /// How long a station, or the disk, was held by the request that is done now.
    pub(super) fn held(&mut self, now: Nanos, tag: u32) -> Span {
        if self.disk.is_some() {
            let since = std::mem::replace(&mut self.disk_done, now);
            return now.since(since);
        }
        self.stations.held.remove(&tag).unwrap_or(Span::ZERO)
    }

    pub(super) fn describe(&self) -> String {
        let spec = &self.stations.spec;
        let mut text = match &self.disk {
            Some(_) => "EMULATED 10k disk".to_owned(),
            None => spec.describe(),
        };
        if self.other.is_some() {
            text += ", another initiator";
        }
        text
    }

    /// What a request takes of it, as a calibration would tell.
    pub(super) fn cost(&self, kind: Kind, size_bytes: u64) -> Cost {
        let spec = &self.stations.spec;
        match (&self.disk, kind) {
            // A seek and half a turn, and 120 MB/s.
            (Some(_), _) => Cost(6_600_000 + size_bytes * 25 / 3),
            (None, Kind::Write) => Cost(spec.mean_ns(size_bytes) * spec.writes_slower),
            (None, _) => Cost(spec.mean_ns(size_bytes)),
        }
    }

    /// The run begins.
    pub(super) fn begin(&mut self, seed: u64) {
        self.stations.prng = Prng::new(seed);
        let first: Vec<Op> = self.other.as_mut().map_or_else(Vec::new, |it| it.ask(Nanos::ZERO));
        for op in first {
            self.enter(Nanos::ZERO, op);
        }
    }

    fn enter(&mut self, now: Nanos, op: Op) {
        match &mut self.disk {
            Some(disk) => disk.submit(now, op),
            None => self.stations.submit(now, op),
        }
    }
}

impl Device for Drawn {
    fn submit(&mut self, now: Nanos, op: Op) {
        self.enter(now, op);
    }

    fn poll(&mut self, now: Nanos) -> Step {
        loop {
            let step = match &mut self.disk {
                Some(disk) => disk.poll(now),
                None => self.stations.poll(now),
            };
            let tag = match step {
                Step::Done { tag, .. } if tag >= OTHERS => tag,
                step => return step,
            };
            let other = self.other.as_mut().expect("it has asked");
            other.done(now, tag);
            for op in other.ask(now) {
                self.enter(now, op);
            }
        }
    }

    fn size_bytes(&self) -> u64 {
        DEVICE_BYTES
    }
}

impl Spec {
    fn draw(prng: &mut Prng) -> Self {
        let stations = 1 << prng.below(9);
        let has_own_queues = prng.below(3) == 0;
        // All of them together do 300 to 30,000 small requests a second, each within 20 ms.
        let rate = 300.0 * exponential(prng.unit_f64() * 4.6);
        let stations = stations.min(1 << whole(rate * 0.02).max(1).ilog2());
        let is_far = prng.below(4) == 0;
        let mean = Span(whole(f64::from(if is_far { 1 } else { stations }) / rate * 1e9));
        let service =
            [Service::Constant, Service::Exponential, Service::Lognormal, Service::Bimodal]
                [usize::try_from(prng.below(4)).expect("few")];
        Self {
            stations: if is_far { 1 } else { stations },
            has_own_queues: has_own_queues && !is_far,
            fixed: mean,
            per_kib_ns: mean.0 / [16, 64, 1024][usize::try_from(prng.below(3)).expect("few")],
            service,
            delay: if is_far { Span(prng.below(50_000_000)) } else { Span::ZERO },
            writes_slower: if prng.below(5) == 0 { 10 } else { 1 },
            cache_bytes: if prng.below(6) == 0 { (64 << 20) << prng.below(7) } else { 0 },
            is_in_bursts: prng.below(10) == 0,
            collects: prng.below(10) == 0,
            change_percent: [100, 100, 100, 100, 30, 300]
                [usize::try_from(prng.below(6)).expect("few")],
        }
    }

    /// What a read takes at a station on average.
    fn mean_ns(&self, size_bytes: u64) -> u64 {
        self.fixed.0 + self.per_kib_ns * (size_bytes >> 10)
    }

    fn describe(&self) -> String {
        let queues = if self.has_own_queues { ", a queue each" } else { "" };
        let mut text = format!(
            "{} stations{queues}, {:?} {} us",
            self.stations,
            self.service,
            self.fixed.0 / 1000
        );
        let is_else: [(bool, &str); 6] = [
            (self.delay > Span::ZERO, "far away"),
            (self.writes_slower > 1, "slow writes"),
            (self.cache_bytes > 0, "write-back cache"),
            (self.is_in_bursts, "bursts"),
            (self.collects, "collects garbage"),
            (self.change_percent != 100, "changes"),
        ];
        for (_, word) in is_else.iter().filter(|(holds, _)| *holds) {
            write!(text, ", {word}").expect("memory");
        }
        text
    }
}

impl Stations {
    fn submit(&mut self, now: Nanos, op: Op) {
        // Multiplied, so that no stride of the clients leaves stations out.
        let place = (op.offset >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let queue = usize::try_from(place).expect("64 bits") % self.queues.len();
        self.queues[queue].push_back(op);
        self.serve(now, queue);
    }

    fn poll(&mut self, now: Nanos) -> Step {
        match self.ends.peek() {
            None => Step::Idle,
            Some(&Reverse((at, ..))) if at > now => Step::WaitUntil(at),
            Some(&Reverse((at, _, tag, queue))) => {
                self.ends.pop();
                if queue < self.queues.len() {
                    self.busy[queue] -= 1;
                    self.serve(at, queue);
                    if self.spec.delay > Span::ZERO {
                        // On its way back it holds no station.
                        self.ends.push(Reverse((
                            at + self.spec.delay,
                            self.begun,
                            tag,
                            usize::MAX,
                        )));
                        return self.poll(now);
                    }
                }
                Step::Done { tag, outcome: Outcome::Good }
            }
        }
    }

    fn serve(&mut self, now: Nanos, queue: usize) {
        let each = if self.spec.has_own_queues { 1 } else { self.spec.stations };
        while self.busy[queue] < each {
            let Some(op) = self.queues[queue].pop_front() else { return };
            self.busy[queue] += 1;
            self.begun += 1;
            let time = self.time(now, &op);
            self.held.insert(op.tag, time);
            let end = now + time;
            self.ends.push(Reverse((end, self.begun, op.tag, queue)));
        }
    }

    fn time(&mut self, now: Nanos, op: &Op) -> Span {
        let mut mean = self.spec.mean_ns(op.length);
        if op.kind == Kind::Write {
            mean *= self.spec.writes_slower;
        }
        if now >= CHANGE_AT {
            mean = mean * self.spec.change_percent / 100;
        }
        if self.spec.is_in_bursts && now.0 % 100_000_000 < 30_000_000 {
            mean *= 3;
        }
        if self.spec.collects && now.0 % 1_600_000_000 < 200_000_000 {
            mean *= 5;
        }
        if op.kind == Kind::Write && self.spec.cache_bytes > 0 {
            mean = self.cached(now, op, mean);
        }
        let mean = Span(mean.max(1000));
        match self.spec.service {
            Service::Constant => mean,
            Service::Exponential => self.prng.exponential(mean),
            Service::Lognormal => {
                let normal: f64 = (0..12).map(|_| self.prng.unit_f64()).sum::<f64>() - 6.0;
                scaled(mean, exponential(0.8 * normal - 0.32))
            }
            Service::Bimodal if self.prng.below(10) == 0 => scaled(mean, 5.5),
            Service::Bimodal => scaled(mean, 0.5),
        }
    }

    /// A write goes to the cache while that has room, which empties at the medium's rate.
    fn cached(&mut self, now: Nanos, op: &Op, mean_ns: u64) -> u64 {
        let rate = op.length as f64 * f64::from(self.spec.stations) / mean_ns as f64;
        let drained = now.since(self.dirty_at).0 as f64 * rate;
        self.dirty_bytes = (self.dirty_bytes - drained).max(0.0) + op.length as f64;
        self.dirty_at = now;
        if self.dirty_bytes <= self.spec.cache_bytes as f64 { mean_ns / 20 } else { mean_ns }
    }
}

impl Other {
    fn new(seed: u64) -> Self {
        Self {
            under_way: 0,
            window: 1,
            sent: Vec::new(),
            looked: Nanos::ZERO,
            request_time: Span::ZERO,
            requests: 0,
            least: Span(u64::MAX),
            prng: Prng::new(seed),
        }
    }

    /// What it asks now.
    fn ask(&mut self, now: Nanos) -> Vec<Op> {
        let count = self.window.saturating_sub(self.under_way);
        self.under_way += count;
        let one = |_| {
            let tag = OTHERS + u32::try_from(self.sent.len()).expect("few");
            self.sent.push(now);
            let offset = self.prng.below(DEVICE_BYTES >> 14) << 14;
            Op { tag, kind: Kind::Read, offset, length: 16 << 10 }
        };
        (0..count).map(one).collect()
    }

    /// Its window grows by one while latency stays below three times the least, and halves else.
    fn done(&mut self, now: Nanos, tag: u32) {
        let latency = now.since(self.sent[(tag - OTHERS) as usize]);
        self.under_way -= 1;
        self.request_time += latency;
        self.requests += 1;
        if now.since(self.looked) < LOOK {
            return;
        }
        let mean = Span(self.request_time.0 / self.requests);
        self.least = self.least.min(mean);
        let is_late = mean.0 > 3 * self.least.0;
        self.window = if is_late { (self.window / 2).max(1) } else { (self.window + 1).min(64) };
        (self.looked, self.request_time, self.requests) = (now, Span::ZERO, 0);
    }
}

fn scaled(span: Span, factor: f64) -> Span {
    Span(whole(span.as_secs_f64() * factor * 1e9))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, positive")]
fn whole(value: f64) -> u64 {
    value as u64
}
