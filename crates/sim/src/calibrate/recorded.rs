//! Models of a device from requests that it was seen to serve, while nobody ordered them.
//!
//! What a recording has is when requests came and when they were done. How long the device worked
//! on each depends on how many it serves at once, which nobody says. So that is supposed, each
//! number in turn, and a device that serves `k` at once in the order of arrival has begun each
//! request when fewer than `k` older ones were left:
//!
//! ```text
//! came    a  b  c                    k = 1: a works 4, b 3, c 1
//! done          .   a   b  c         k = 2: a works 4, b 6, c 3 or less
//! ```
//!
//! What is done before it could have begun speaks against a `k`. Beside these there are
//!
//! - a device that serves one at a time in an order of its own, as a disk does;
//! - one that passes requests on one by one, and lets each take the time of a lone one behind that:
//!   a fast medium behind a slow link;
//! - a limit on bytes per second that has saved some for bursts, as clouds and nbdkit have.
//!
//! Several of these may explain a recording. [`crate::forecast`] plays it on each, and keeps those
//! that do.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::line;
use super::measured::{Direction, MeasuredSpec};
use super::model::{SizeLine, whole};
use crate::device::spec::{DeviceSpec, NbdkitService, RateSpec};

/// How many a device may serve at once.
const SERVERS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 4096];

/// No more requests may be done before they could have begun, of all.
const EARLY_MAX: f64 = 0.03;

/// So many lone requests tell what a lone one takes.
const LONE_MIN: usize = 20;

/// Sizes of which there are fewer, of all requests of a direction, shape no line.
const RARE: f64 = 0.005;

/// Bytes are counted over windows of this length,
const BUSY_WINDOW: Span = Span::from_millis(250);

/// of which no more are kept,
const BUSY_WINDOWS_MAX: u64 = 1 << 20;

/// and a limit is seen in so many at least.
const BUSY_MIN: usize = 8;

/// Connections through which a limit is asked, which matters little.
const LIMITED_CONNECTIONS: u32 = 4;

/// A load varies if at the least of times, a twentieth of all, so many times fewer requests are
/// under way than at the greatest.
const VARIES: f64 = 1.5;

/// Nobody knows how large the device is; offsets play no part in these models.
const SIZE_BYTES: u64 = 1 << 50;

/// A request that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// When it came.
    pub at: Nanos,
    /// How long it took.
    pub response: Span,
    /// What for.
    pub kind: Kind,
    /// Bytes.
    pub length: u64,
}

/// Durations of requests of one direction, by size.
#[derive(Clone, Debug, Default)]
struct Times {
    /// By the logarithm of the size: count, sum of sizes, sum of times in nanoseconds.
    sizes: BTreeMap<u32, (u64, f64, f64)>,
    /// Each with its size.
    all: Vec<(u64, Span)>,
}

/// What one supposition makes of a recording.
#[derive(Clone, Debug, Default)]
struct Supposed {
    /// Reads and writes.
    times: [Times; 2],
    flushes: Times,
    early: u64,
    requests: u64,
}

/// The devices that these requests may have been served by, the simplest first. They are in the
/// order of arrival. Empty if there are none.
pub fn candidates(served: &[Served]) -> Vec<DeviceSpec> {
    let mut found = Vec::new();
    let one_by_one = supposed(served, 1);
    let in_any_order = in_any_order(served);
    for servers in SERVERS {
        let supposed = if servers == 1 { one_by_one.clone() } else { supposed(served, servers) };
        let early = supposed.early as f64;
        if early <= EARLY_MAX * supposed.requests as f64 {
            found.extend(supposed.served_at_once(servers));
        }
    }
    let lone = lone(served);
    found.extend(in_any_order.served_at_once(1));
    found.extend(passing(&in_any_order, &lone));
    let mut found: Vec<_> = found.into_iter().map(DeviceSpec::Measured).collect();
    found.extend(limited(served, &lone));
    found
}

/// Whether now more and now less was asked of the device. Where it was always the same, nothing
/// tells a device that serves many slowly from one that serves few quickly. These are in the order
/// of arrival.
pub fn varies(served: &[Served]) -> bool {
    let mut changes: Vec<(Nanos, i32)> = Vec::new();
    for one in served {
        changes.extend([(one.at, 1), (one.at + one.response, -1)]);
    }
    changes.sort_unstable();
    let mut times: BTreeMap<i32, u64> = BTreeMap::new();
    let (mut under_way, mut since) = (0, Nanos::ZERO);
    for (at, change) in changes {
        *times.entry(under_way).or_default() += at.since(since).0;
        (under_way, since) = (under_way + change, at);
    }
    // While nothing is under way nothing is asked.
    times.remove(&0);
    let all: u64 = times.values().sum();
    let at = |part: u64| {
        let mut passed = 0;
        let is_there = |(_, time): &(&i32, &u64)| {
            passed += **time;
            passed >= all / 20 * part
        };
        times.iter().find(is_there).map_or(1, |(under_way, _)| *under_way)
    };
    // One at a time waits for nobody, whatever the device is.
    let most = at(19);
    (most == 1 && all > 0) || f64::from(most) >= VARIES * f64::from(at(1))
}

/// How long the device worked on each request if it served one at a time, whichever came back next.
fn in_any_order(served: &[Served]) -> Supposed {
    let mut found = Supposed::default();
    let mut by_end: Vec<&Served> = served.iter().collect();
    by_end.sort_by_key(|one| one.at + one.response);
    let mut free_at = Nanos::ZERO;
    for one in by_end {
        let ended = one.at + one.response;
        found.requests += 1;
        found.add(one, ended.since(free_at.max(one.at)));
        free_at = ended;
    }
    found
}

/// Limits on bytes per second that may have held these back.
fn limited(served: &[Served], lone: &Supposed) -> Vec<DeviceSpec> {
    let overhead = lone.times.iter().filter_map(Times::least).min().unwrap_or(Span::ZERO);
    let service =
        NbdkitService { connections: LIMITED_CONNECTIONS, overhead, ..NbdkitService::default() };
    let of = |rate_bytes: f64| {
        let rate_bits = whole(rate_bytes * 8.0);
        let spec = RateSpec { size_bytes: SIZE_BYTES, rate_bits, service, ..RateSpec::default() };
        DeviceSpec::Rate(spec)
    };
    let mut rates: Vec<f64> = [0, 1].into_iter().filter_map(|one| busy_rate(served, one)).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates.into_iter().map(of).collect()
}

/// The bytes per second of one direction while some of it were there all the time: half of the
/// time it was less.
fn busy_rate(served: &[Served], direction: usize) -> Option<f64> {
    let window_ns = BUSY_WINDOW.0;
    let mut rates = Vec::new();
    let mut ends: Vec<(Nanos, u64)> = Vec::new();
    // Time up to which some were there without a break, and since when.
    let mut busy: Option<(Nanos, Nanos)> = None;
    let mut close = |busy: Option<(Nanos, Nanos)>, ends: &mut Vec<(Nanos, u64)>| {
        let Some((start, end)) = busy else { return };
        let windows = (end.since(start).0 / window_ns).min(BUSY_WINDOWS_MAX);
        let mut bytes = vec![0_u64; usize::try_from(windows).unwrap_or(0)];
        for (ended, length) in ends.drain(..) {
            let window = usize::try_from(ended.since(start).0 / window_ns).unwrap_or(usize::MAX);
            if let Some(sum) = bytes.get_mut(window) {
                *sum += length;
            }
        }
        rates.extend(bytes.into_iter().map(|bytes| bytes as f64 / BUSY_WINDOW.as_secs_f64()));
    };
    for one in served.iter().filter(|one| direction_of(one.kind) == Some(direction)) {
        let ended = one.at + one.response;
        match &mut busy {
            Some((_, end)) if one.at <= *end => *end = ended.max(*end),
            _ => {
                close(busy.take(), &mut ends);
                busy = Some((one.at, ended));
            }
        }
        ends.push((ended, one.length));
    }
    close(busy, &mut ends);
    if rates.len() < BUSY_MIN {
        return None;
    }
    let middle = rates.len() / 2;
    let (_, rate, _) = rates.select_nth_unstable_by(middle, f64::total_cmp);
    (*rate > 0.0).then_some(*rate)
}

/// Reads or writes; flushes are neither.
fn direction_of(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Read | Kind::Cache => Some(0),
        Kind::Write | Kind::Trim | Kind::WriteZeroes => Some(1),
        Kind::Flush => None,
    }
}

/// How long the device worked on each request if it served so many at once.
fn supposed(served: &[Served], servers: u32) -> Supposed {
    let mut found = Supposed::default();
    // Ends in order; of one instant, in the order of arrival.
    let mut ends: Vec<(Nanos, u32)> =
        (0..).zip(served).map(|(index, one)| (one.at + one.response, index)).collect();
    ends.sort_unstable();
    let mut begun: Vec<Option<Nanos>> = vec![None; served.len()];
    let mut waiting: VecDeque<u32> = VecDeque::new();
    let mut is_over = vec![false; served.len()];
    let (mut at_work, mut arrivals) = (0, (0_u32..).zip(served).peekable());
    for (ended, index) in ends {
        while let Some((arrived, one)) = arrivals.next_if(|(_, one)| one.at < ended) {
            if is_over[arrived as usize] {
                continue;
            }
            if at_work < servers {
                at_work += 1;
                begun[arrived as usize] = Some(one.at);
            } else {
                waiting.push_back(arrived);
            }
        }
        is_over[index as usize] = true;
        let one = &served[index as usize];
        found.requests += 1;
        let Some(since) = begun[index as usize] else {
            // What takes no time waits for nobody.
            found.early += u64::from(one.response > Span::ZERO);
            continue;
        };
        found.add(one, ended.since(since));
        at_work -= 1;
        while let Some(next) = waiting.pop_front() {
            if !is_over[next as usize] {
                begun[next as usize] = Some(ended);
                at_work += 1;
                break;
            }
        }
    }
    found
}

/// What requests took that found nothing else there.
fn lone(served: &[Served]) -> Supposed {
    let mut found = Supposed::default();
    let mut free_at = Nanos::ZERO;
    for one in served {
        let ended = one.at + one.response;
        if one.at >= free_at {
            found.add(one, one.response);
        }
        free_at = free_at.max(ended);
    }
    found
}

/// A device that passes requests on one by one, where enough is known of lone ones.
fn passing(one_by_one: &Supposed, lone: &Supposed) -> Option<MeasuredSpec> {
    let of = |direction: usize| {
        let (gate, service) = (&one_by_one.times[direction], &lone.times[direction]);
        if gate.all.is_empty() {
            return Some(None);
        }
        if service.all.len() < LONE_MIN {
            return None;
        }
        let alone = service.line();
        let p99_excess_ns = service.p99_excess_ns(&alone);
        Some(Some(Direction { service: alone, gate: gate.line(), p99_excess_ns }))
    };
    let (read, write) = (of(0)?, of(1)?);
    let read = read.or(write)?;
    Some(MeasuredSpec {
        size_bytes: SIZE_BYTES,
        servers: *SERVERS.last().expect("there are some"),
        is_gate_shared: true,
        flush_ns: one_by_one.flushes.mean_ns(),
        write: write.unwrap_or(read),
        read,
    })
}

impl Supposed {
    fn add(&mut self, one: &Served, time: Span) {
        let times = match direction_of(one.kind) {
            Some(direction) => &mut self.times[direction],
            None => &mut self.flushes,
        };
        times.add(one.length, time);
    }

    /// A device of so many servers; none if nothing was read or written.
    fn served_at_once(&self, servers: u32) -> Option<MeasuredSpec> {
        let [read, write] = self.times.each_ref().map(|times| {
            let line = (!times.all.is_empty()).then(|| times.line())?;
            let no_gate = SizeLine::from_fit((0.0, 0.0));
            Some(Direction {
                service: line,
                gate: no_gate,
                p99_excess_ns: times.p99_excess_ns(&line),
            })
        });
        let read = read.or(write)?;
        Some(MeasuredSpec {
            size_bytes: SIZE_BYTES,
            servers,
            is_gate_shared: true,
            flush_ns: self.flushes.mean_ns(),
            write: write.unwrap_or(read),
            read,
        })
    }
}

impl Times {
    fn add(&mut self, size_bytes: u64, time: Span) {
        let size = self.sizes.entry(size_bytes.max(1).ilog2()).or_default();
        size.0 += 1;
        size.1 += size_bytes as f64;
        size.2 += time.0 as f64;
        self.all.push((size_bytes, time));
    }

    /// Through the means of each size, then as high that all of them take as long as they took.
    fn line(&self) -> SizeLine {
        let all = self.all.len() as f64;
        let counted = self.sizes.values().filter(|size| size.0 as f64 >= RARE * all);
        let points: Vec<(f64, f64)> = counted
            .map(|&(count, bytes, ns)| (bytes / count as f64, (ns / count as f64).max(1.0)))
            .collect();
        let (fixed, slope) = line::fit(&points);
        let took: f64 = self.sizes.values().map(|size| size.2).sum();
        let by_line: f64 =
            self.sizes.values().map(|size| fixed * size.0 as f64 + slope * size.1).sum();
        let times = took / by_line.max(1.0);
        SizeLine::from_fit((fixed * times, slope * times))
    }

    /// By how much the 99th percentile is above the mean, where a request takes the mean time.
    fn p99_excess_ns(&self, line: &SizeLine) -> u64 {
        let mut ratios: Vec<f64> = self
            .all
            .iter()
            .map(|&(bytes, time)| time.0 as f64 / line.at(bytes).0.max(1) as f64)
            .collect();
        if ratios.is_empty() {
            return 0;
        }
        let place = ratios.len() * 99 / 100;
        let (_, p99, _) = ratios.select_nth_unstable_by(place, f64::total_cmp);
        let excess = (*p99 - 1.0).max(0.0);
        whole(excess * self.mean_ns() as f64)
    }

    /// What hardly any took less than.
    fn least(&self) -> Option<Span> {
        let mut times: Vec<Span> = self.all.iter().map(|(_, time)| *time).collect();
        let place = times.len() / 20;
        (!times.is_empty()).then(|| *times.select_nth_unstable(place).1)
    }

    fn mean_ns(&self) -> u64 {
        let sum: u128 = self.all.iter().map(|(_, time)| u128::from(time.0)).sum();
        u64::try_from(sum / self.all.len().max(1) as u128).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::prng::Prng;

    use super::*;

    const US: u64 = 1000;

    /// Bursts of requests of two sizes on a device of so many servers, each taking 100 us and 10 us
    /// a KiB; what comes of them.
    fn served(servers: usize, requests: u64) -> Vec<Served> {
        let mut prng = Prng::new(7);
        let mut free = vec![0_u64; servers];
        let mut at = 0;
        let mut all = Vec::new();
        for number in 0..requests {
            let is_burst = number % 40 < 30;
            at += if is_burst { prng.below(50 * US) } else { prng.below(3000 * US) };
            let kib = [4, 64][usize::try_from(prng.below(2)).expect("0 or 1")];
            let server = (0..servers).min_by_key(|one| free[*one]).expect("one at least");
            free[server] = free[server].max(at) + 100 * US + kib * 10 * US;
            let response = Span(free[server] - at);
            all.push(Served { at: Nanos(at), response, kind: Kind::Read, length: kib << 10 });
        }
        all
    }

    fn measured(found: &[DeviceSpec]) -> impl Iterator<Item = &MeasuredSpec> {
        found.iter().filter_map(|one| match one {
            DeviceSpec::Measured(spec) => Some(spec),
            _ => None,
        })
    }

    #[test]
    fn a_device_is_among_its_own_candidates() {
        for servers in [1, 4, 16] {
            let found = candidates(&served(servers, 20_000));
            let wanted = u32::try_from(servers).expect("few");
            let own = measured(&found).find(|one| one.servers == wanted).expect("it is possible");
            let us = |kib: u64| own.read.service.at(kib << 10).0 as f64 / US as f64;
            assert!((us(4) / 140.0 - 1.0).abs() < 0.03, "{servers}: {}", us(4));
            assert!((us(64) / 740.0 - 1.0).abs() < 0.03, "{servers}: {}", us(64));
        }
    }

    #[test]
    fn what_could_not_be_in_time_is_no_candidate() {
        let found = candidates(&served(16, 20_000));
        assert!(measured(&found).next().expect("some are possible").servers > 1, "{found:?}");
    }

    #[test]
    fn a_load_that_is_always_the_same_does_not_vary() {
        assert!(varies(&served(4, 20_000)));
        let steady = |number: u64| Served {
            at: Nanos(number * 100 * US),
            response: Span(800 * US),
            kind: Kind::Read,
            length: 4096,
        };
        assert!(!varies(&(0..10_000).map(steady).collect::<Vec<_>>()));
        assert!(!varies(&[]));
    }

    #[test]
    fn what_takes_no_time_takes_no_server() {
        let mut all = served(1, 20_000);
        let zero = |number: u64| Served {
            at: Nanos(number * 10_000_000 + 1),
            response: Span::ZERO,
            kind: Kind::Read,
            length: 4096,
        };
        all.extend((0..20).map(zero));
        all.sort_by_key(|one| one.at);
        let found = candidates(&all);
        let own = measured(&found).find(|one| one.servers == 1).expect("it is possible");
        let us = own.read.service.at(4096).0 / US;
        assert!((130..150).contains(&us), "{us}");
    }

    #[test]
    fn of_nothing_there_is_no_device() {
        assert_eq!(candidates(&[]), []);
        let flush = Served { at: Nanos(5), response: Span(9), kind: Kind::Flush, length: 0 };
        assert_eq!(candidates(&[flush]), []);
    }
}
