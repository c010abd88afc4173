//! The smallest depth at which a device gives what it can: the knee of its throughput.
//!
//! Nothing is known of the device beforehand, and nothing but completions tells of it. The depth
//! moves on a ladder of [`LADDER`] rungs, each about 1.4 times the one below.
//!
//! ```text
//! rate                     . - - - -o- - - -o    from 16 to 32 nothing is gained: 16
//!                   o
//!            o                                   ramp: doubled until two doublings gained
//!       o                                              nothing, then back to the knee
//!   o                                            track: base, probe, base, probe ..
//!   1   2    4      8      16       32   depth
//! ```
//!
//! - **Ramp.** From 1 on the depth doubles for as long as that pays, as in TCP's slow start. Where
//!   chance hides what two doublings gained, it goes on, unless latency has grown so much that the
//!   device is full anyway. It stays at 1 for a moment: what a request takes is known while it is
//!   alone with the device, and costs are learned from that before they measure gains.
//! - **Track.** Now and then a window at another depth is held against those before and after it
//!   ([`Contrast`]): at twice the base, at half of it, and at the rung below. The base goes up
//!   where doubling gains more than [`WORTH`], and down where halving loses less, both beyond
//!   chance. A probe of less depth costs throughput, so that such probes are as rare as it takes to
//!   lose half a percent to them; those of more depth become rare when they gain nothing.
//! - **Clients that come and go tell nothing.** A window counts if the depth was full, or as full
//!   as clients that always ask can make it. These have no queue here that could be ordered: the
//!   depth comes down to what they ask for, and further down if that costs nothing.
//! - **Tenants with little wait less.** Where some send now and then, half the depth is worth it if
//!   their requests gain more time than throughput is lost ([`sparse`](super::sparse)): a disk, or
//!   a host below, that prefers a long sequential read starves them inside the device, where no
//!   order of the gate's helps. Their time alone is never a reason for more depth, nor to stay at
//!   it.
//! - **The device changes**: a rate that has moved by more than chance makes old comparisons count
//!   for little, and brings new ones soon.
//!
//! A gain is one of work per time, and work is what tickets cost, so that a mix of sizes counts the
//! same at every depth. Costs that are far from what requests take mislead it: a device that passes
//! the small ones first then looks quicker the more it has. And where tenants ask for little at a
//! time, a great depth is for the others, so that the mix changes with the depth: what of a gain or
//! loss an error of costs could explain then does not count ([`Contrast`]).
//!
//! Related: the two extremes of BBR (Cardwell et al., ACM Queue 2016), whose product of least
//! latency and greatest rate is the knee of a device that serves a fixed number in parallel, but
//! not of a disk, whose rate grows slowly with all that it may order; PARDA (Gulati et al., FAST
//! 2009), which needs a latency to hold. This needs no figure.

use super::contrast::{Contrast, Measure};
use super::rate::{Rate, Window};
use super::scatter::Scatter;
use super::sparse::Sparse;
use crate::float::{exponential, natural_log};
use crate::ticket::Ticket;
use crate::time::{Nanos, Span};

/// The depths that are tried.
pub const LADDER: [u32; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
const TOP: usize = LADDER.len() - 1;

/// What doubling the depth must gain to be worth it, as a logarithm. A device whose latency rises
/// in a straight line with the depth has 97.6 % of its greatest rate where doubling gains this.
const WORTH: f64 = 0.012;
/// A gain of this much is no matter of half a doubling.
const LARGE_GAIN: f64 = 0.2;
/// The same of a loss: the rung below is not worth a probe.
const LARGE_LOSS: f64 = -0.3;
/// Two doublings of the ramp that gain less than this have gained nothing.
const RAMP_WORTH: f64 = 0.05;
/// Chance may hide this much of a gain; with more doubt the ramp goes on ..
const RAMP_DOUBT: f64 = 0.15;
/// .. unless the latency has grown by this much, as a logarithm: about sevenfold.
const RAMP_INFLATION: f64 = 2.0;
/// For tenants with little, half the depth may lose this much throughput, as a logarithm: nobody
/// can pull a device that serves many at once far below what it serves, whatever its own requests
/// take.
const FORGONE_MAX: f64 = -0.35;
/// The part of the throughput that probes of less depth may cost.
const PROBE_BUDGET: f64 = 0.005;
/// A change of the rate beyond this, and beyond three standard errors, is none of chance.
const LEVEL_CHANGE: f64 = 0.15;

/// A window is at least so long ..
const WINDOW_MIN: Span = Span::from_millis(5);
/// .. and ends when it is as sure as this, or after so long.
const RAMP_ERROR: f64 = 0.03;
const RAMP_WINDOW_MAX: Span = Span::from_millis(400);
const TRACK_ERROR: f64 = 0.012;
const TRACK_WINDOW_MAX: Span = Span::from_millis(100);
/// It is longer where that brings so many sparse requests.
const SPARSE_WINDOW_MAX: Span = Span::from_millis(250);
const SPARSE_REQUESTS: u32 = 16;
/// So many windows of the base in a row with them make sure that they are there, and so many
/// without them that they are gone.
const SPARSE_COME: u32 = 3;
const SPARSE_GONE: u32 = 8;
/// Completions that a window of the ramp and of the track has at least.
const RAMP_COMPLETIONS: u32 = 4;
const TRACK_COMPLETIONS: u32 = 16;
/// The ramp stays at a depth of 1 for so long and so many completions, or for as long as this.
const ALONE_MIN: Span = Span::from_millis(200);
const ALONE_COMPLETIONS: u32 = 32;
const ALONE_MAX: Span = Span::from_secs(1);
/// The least and the greatest pause between two probes of more depth that gain nothing.
const PAUSE_MIN: Span = Span::from_millis(100);
const PAUSE_MAX: Span = Span::from_secs(3);
/// The greatest pause while the time of sparse requests is not known well enough to judge a probe.
const UNKNOWN_PAUSE: Span = Span::from_millis(500);
/// So soon a depth that was hardly missed is tried after the device has changed.
const RETRY: Span = Span::from_millis(500);

/// A search for the knee. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Knee {
    /// The rung that has proven itself.
    base: usize,
    /// The rung in force: the base, or the one that is tried.
    rung: usize,
    /// No rung below it is tried.
    least: usize,
    /// Rate by rung, while it ramps up.
    ramp: Option<Vec<(usize, Rate)>>,
    window: Window,
    usage: Usage,
    sparse: Sparse,
    /// Completions that still tell of the depth before.
    stale: u32,
    /// What is being tried, and since when.
    probe: Option<(Probe, Nanos)>,
    /// What the probe came to, and how long it took.
    tried: Option<(Probe, Measure, Span)>,
    /// What the base came to before it.
    base_measure: Option<Measure>,
    contrasts: [Contrast; 3],
    scatter: Scatter,
    /// By probe: not before.
    next: [Nanos; 3],
    pause: Span,
    /// The base's rate before the last window, if that one was far from it.
    level: Option<Rate>,
    /// The clients ask for no more than the base.
    base_is_all: bool,
    /// There are sparse requests: some windows in a row had some, and not many have had none since.
    has_sparse: bool,
    /// Windows in a row that say otherwise.
    otherwise: u32,
    /// Windows tell nothing for now.
    is_disturbed: bool,
}

/// What a window at another depth is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// What twice the depth would gain.
    Double = 0,
    /// What half of it would lose.
    Half = 1,
    /// What the rung below would lose.
    Below = 2,
}

/// How much of the depth was in use in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    changed: Nanos,
    in_service: u32,
    /// Time in which the depth was not full.
    unfilled: Span,
    /// Tickets in service, added up over time.
    request_time: Span,
    peak: u32,
}

impl Knee {
    /// A search that begins at a depth of 1, with so many tickets in service.
    pub(super) fn new(in_service: u32) -> Self {
        Self {
            base: 0,
            rung: 0,
            least: 0,
            ramp: Some(Vec::with_capacity(LADDER.len())),
            window: Window::new(Nanos::ZERO),
            usage: Usage { in_service, ..Usage::default() },
            sparse: Sparse::default(),
            // What is in service was sent under another depth.
            stale: in_service.max(1),
            probe: None,
            tried: None,
            base_measure: None,
            contrasts: [Contrast::default(); 3],
            scatter: Scatter::default(),
            next: [Nanos::ZERO; 3],
            pause: Span::ZERO,
            level: None,
            base_is_all: false,
            has_sparse: false,
            otherwise: 0,
            is_disturbed: false,
        }
    }

    /// A search that begins at the last rung of at most this depth, tries none of less than
    /// another, and gets whole windows ([`super::periods`]).
    pub(super) fn from_depth(depth: u32, least: u32) -> Self {
        let (rung, least) = (rung_within(depth), rung_within(least));
        Self { base: rung.max(least), rung: rung.max(least), least, ..Self::new(0) }
    }

    /// Goes on from the last rung of at most this depth.
    pub(super) fn set_base(&mut self, depth: u32) {
        let rung = rung_within(depth).max(self.least);
        if self.base != rung || self.ramp.is_some() {
            (self.base, self.ramp) = (rung, None);
            self.begin_anew(Nanos::ZERO);
        }
    }

    /// What completes from now on tells nothing, or something again. The depth stays meanwhile.
    pub(super) fn disturb(&mut self, is_disturbed: bool) {
        self.is_disturbed = is_disturbed;
        (self.probe, self.tried, self.base_measure, self.level) = (None, None, None, None);
        self.rung = if self.is_found() { self.base } else { self.rung };
        self.stale = self.depth();
    }

    /// The depth in force.
    pub(super) fn depth(&self) -> u32 {
        LADDER[self.rung]
    }

    /// The depth that has proven itself, beside which others are tried.
    pub(super) fn found(&self) -> u32 {
        LADDER[self.base]
    }

    /// Whether it has come to a knee, from which it goes on.
    pub(super) fn is_found(&self) -> bool {
        self.ramp.is_none()
    }

    /// A ticket has come, and waits.
    pub(super) fn arrived(&mut self, now: Nanos, ticket: &Ticket) {
        self.sparse.arrived(now, ticket);
    }

    /// One has come that waited elsewhere for its tenant's own sake.
    pub(super) fn arrived_late(&mut self, now: Nanos, ticket: &Ticket) {
        self.sparse.arrived_late(now, ticket);
    }

    /// A ticket that waited was taken back.
    pub(super) fn withdrawn(&mut self, now: Nanos, ticket: &Ticket) {
        self.sparse.withdrawn(now, ticket);
    }

    /// Everything that waited was taken back.
    pub(super) fn drained(&mut self) {
        self.sparse.drained();
    }

    /// The part of throughput that twice the depth would gain, and that is forgone so that tenants
    /// with little wait less; none where nothing is.
    pub(super) fn forgone(&self) -> Option<f64> {
        let gain = self.contrasts[Probe::Double as usize].rate_beside_time()?;
        (self.is_found() && gain > WORTH).then(|| 1.0 - exponential(-gain))
    }

    /// A ticket went to the device.
    pub(super) fn started(&mut self, now: Nanos, ticket: &Ticket) {
        self.sparse.started(now, ticket);
        self.usage.advance(now, self.depth());
        self.usage.in_service += 1;
        self.usage.peak = self.usage.peak.max(self.usage.in_service);
    }

    /// A ticket left the device without having told anything.
    pub(super) fn left(&mut self, now: Nanos, ticket: &Ticket) {
        self.sparse.left(now, ticket);
        self.give_back(now);
    }

    fn give_back(&mut self, now: Nanos) {
        self.usage.advance(now, self.depth());
        self.usage.in_service = self.usage.in_service.saturating_sub(1);
    }

    /// The device has done what a ticket asks, which is work.
    pub(super) fn finished(&mut self, now: Nanos, ticket: &Ticket) {
        self.sparse.finished(now, ticket);
        self.give_back(now);
        if self.is_disturbed {
            return self.open(now);
        }
        if self.stale > 0 {
            self.stale -= 1;
            return self.open(now);
        }
        self.window.add(now, ticket.tenant, ticket.cost);
        self.look(now);
    }

    /// Ends the window if it is long enough.
    fn look(&mut self, now: Nanos) {
        let is_ramp = self.ramp.is_some();
        let (least, error, longest) = if is_ramp {
            (RAMP_COMPLETIONS, RAMP_ERROR, RAMP_WINDOW_MAX)
        } else {
            (TRACK_COMPLETIONS, TRACK_ERROR, TRACK_WINDOW_MAX)
        };
        let length = self.window.length();
        if length < WINDOW_MIN || self.window.completions() < least.max(self.depth()) {
            return;
        }
        let is_alone = is_ramp && self.rung == 0;
        let is_short = length < ALONE_MIN || self.window.completions() < ALONE_COMPLETIONS;
        if is_alone && is_short && length < ALONE_MAX {
            return;
        }
        let Some(rate) = self.window.rate() else { return };
        if rate.variance > error * error && length < longest {
            return;
        }
        let has_sparse = !is_ramp && self.sparse.is_there();
        if has_sparse && self.sparse.requests() < SPARSE_REQUESTS && length < SPARSE_WINDOW_MAX {
            return;
        }
        let times = if has_sparse { self.sparse.times(now) } else { None };
        let measure = Measure { rate, mix: self.window.mix(), times };
        if self.usage.is_filled(length) {
            self.take(now, measure);
        } else if let Some(asked) = self.usage.steady_peak(length) {
            self.take_all(now, measure, asked);
        } else {
            self.discard(now);
        }
    }

    /// A window was full to its end.
    pub(super) fn take(&mut self, now: Nanos, measure: Measure) {
        if self.ramp.is_some() {
            return self.climb(now, measure.rate);
        }
        if let Some((probe, since)) = self.probe.take() {
            self.tried = Some((probe, measure, now.since(since)));
            return self.go(now, self.base);
        }
        self.note_sparse(now, measure.times.is_some());
        let before = self.base_measure.replace(measure);
        if let Some(before) = &before {
            self.scatter.add(&before.rate, &measure.rate);
        }
        match (self.tried.take(), before) {
            (Some((probe, tried, took)), Some(before)) => {
                let windows = [before, tried, measure];
                let widen = |one: Measure| Measure { rate: self.scatter.widen(one.rate), ..one };
                self.contrasts[probe as usize].add(&windows.map(widen));
                if let Some(base) = self.better_base() {
                    self.base = base;
                    return self.begin_anew(now);
                }
                self.put_off(now, probe, took);
            }
            (None, Some(before)) => self.watch(now, before.rate, measure.rate),
            (_, None) => {}
        }
        let next = self.next_probe(now);
        self.probe = next.map(|probe| (probe, now));
        self.go(now, next.map_or(self.base, |probe| self.rung_of(probe)));
    }

    /// Whether there are sparse requests. What their coming or going makes worth a probe is tried
    /// soon, however long it was to wait.
    fn note_sparse(&mut self, now: Nanos, has_sparse: bool) {
        self.otherwise = if self.has_sparse == has_sparse { 0 } else { self.otherwise + 1 };
        let needed = if has_sparse { SPARSE_COME } else { SPARSE_GONE };
        if self.otherwise < needed {
            return;
        }
        (self.has_sparse, self.otherwise) = (has_sparse, 0);
        let probe = if has_sparse { Probe::Half } else { Probe::Double };
        let next = &mut self.next[probe as usize];
        *next = (*next).min(now + RETRY);
    }

    /// The clients had all that they ask for at the device, which is less than the depth.
    pub(super) fn take_all(&mut self, now: Nanos, measure: Measure, asked: u32) {
        let enough = LADDER.iter().position(|&depth| depth >= asked).unwrap_or(TOP);
        let enough = enough.max(self.least);
        if let Some(mut seen) = self.ramp.take() {
            seen.push((enough, measure.rate));
            self.base = knee_of(&seen).expect("there is one at least").min(enough);
            return self.begin_anew(now);
        }
        if self.probe.is_some_and(|(probe, _)| probe == Probe::Double) {
            self.base_is_all = true;
        } else if self.probe.is_none() {
            self.base_is_all = true;
            if enough < self.base {
                self.base = enough;
                return self.begin_anew(now);
            }
        }
        self.take(now, measure);
    }

    /// Clients come and go: nothing is known, and nothing changes.
    pub(super) fn discard(&mut self, now: Nanos) {
        if let Some((probe, _)) = self.probe.take() {
            self.next[probe as usize] = now + PAUSE_MIN;
        }
        self.tried = None;
        self.go(now, if self.ramp.is_some() { self.rung } else { self.base });
    }

    /// Looks whether the base's rate has moved, and stays there.
    fn watch(&mut self, now: Nanos, before: Rate, rate: Rate) {
        let chance = 3.0 * rate.doubt_beside(&before);
        match self.level.take() {
            Some(level) if is_beyond(&level, &rate, chance) => self.doubt(now),
            None if is_beyond(&before, &rate, chance) => self.level = Some(before),
            _ => {}
        }
    }

    /// The next rung of the ramp, or its end.
    fn climb(&mut self, now: Nanos, rate: Rate) {
        let rung = self.rung;
        let seen = self.ramp.as_mut().expect("it ramps up");
        seen.push((rung, rate));
        if rung == TOP || has_levelled_off(seen) {
            self.base = knee_of(seen).expect("there is one at least");
            self.ramp = None;
            return self.begin_anew(now);
        }
        self.base = rung;
        self.go(now, doubled(rung));
    }

    /// Where the base is to go by what the contrasts say.
    fn better_base(&self) -> Option<usize> {
        let [double, half, below] = self.contrasts;
        // What may not be forgone on the way down is not forgone on the way up either.
        let is_needed = double.rate_is_above(-FORGONE_MAX);
        // A tenant that gets more than its share waits less, which is no merit of the device's.
        let gains = double.rate_is_above(WORTH) && double.is_above(WORTH);
        if is_needed || gains {
            let is_large = is_needed || double.log().is_some_and(|gain| gain > LARGE_GAIN);
            return Some(if is_large { doubled(self.base) } else { (self.base + 1).min(TOP) });
        }
        // Whoever waits longer at less depth, though no throughput is lost, waits for its own sake.
        let is_worth_it = |probe: &Contrast, loss: f64, forgone_max: f64| {
            let is_cheap = || probe.rate_beside_time().is_none_or(|forgone| forgone > forgone_max);
            probe.rate_is_above(loss) || probe.is_above(loss) && is_cheap()
        };
        if is_worth_it(&half, -WORTH, FORGONE_MAX) {
            return Some(halved(self.base).max(self.least));
        }
        is_worth_it(&below, -WORTH / 2.0, FORGONE_MAX / 2.0).then(|| self.base - 1)
    }

    /// Says when to try this again: the later, the more it cost or the less it gained.
    fn put_off(&mut self, now: Nanos, probe: Probe, took: Span) {
        let contrast = &self.contrasts[probe as usize];
        let mut ratios = [contrast.log(), contrast.rate_log()].into_iter().flatten();
        // Time alone is no reason to stay at more depth either.
        let log = if probe == Probe::Double { ratios.next() } else { ratios.reduce(f64::max) };
        let loss = times(took, log.map_or(0.0, |log| (-log).max(0.0)) / PROBE_BUDGET);
        let wait = if contrast.is_time_unknown() {
            loss.min(UNKNOWN_PAUSE)
        } else if probe == Probe::Double {
            let pause = Span(self.pause.0 * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            let is_in_vain = contrast.is_below(WORTH) || contrast.rate_is_below(WORTH);
            self.pause = if is_in_vain { pause } else { Span::ZERO };
            // It starves somebody meanwhile, and costs power as one of less depth costs throughput.
            let is_power = self.has_sparse && contrast.rate_beside_time().is_some();
            if is_power { self.pause.max(loss) } else { self.pause }
        } else {
            loss
        };
        self.next[probe as usize] = now + wait;
    }

    /// The device is not what it was.
    fn doubt(&mut self, now: Nanos) {
        self.contrasts.iter_mut().for_each(Contrast::fade);
        self.pause = Span::ZERO;
        self.base_is_all = false;
        for next in &mut self.next {
            // Much was to be lost by a probe that was to wait for long.
            *next = (*next).min(now + Span(next.since(now).0 / 4).max(RETRY));
        }
        self.next[Probe::Double as usize] = now;
    }

    /// Begins to track at another base.
    fn begin_anew(&mut self, now: Nanos) {
        self.contrasts = [Contrast::default(); 3];
        self.next = [now; 3];
        self.pause = Span::ZERO;
        (self.base_measure, self.tried, self.probe) = (None, None, None);
        (self.level, self.base_is_all) = (None, false);
        self.go(now, self.base);
    }

    /// Of the probes that are due, the one of which least is known.
    fn next_probe(&self, now: Nanos) -> Option<Probe> {
        let is_due =
            |probe: &Probe| self.rung_of(*probe) != self.base && self.is_wanted(now, *probe);
        let due = [Probe::Double, Probe::Half, Probe::Below].into_iter().filter(is_due);
        let error = |probe: &Probe| self.contrasts[*probe as usize].error();
        due.reduce(|first, second| if error(&second) > error(&first) { second } else { first })
    }

    fn is_wanted(&self, now: Nanos, probe: Probe) -> bool {
        let half = self.contrasts[Probe::Half as usize].log();
        // Between the base and its half there is something to find if the half loses some.
        let is_between = half.is_some_and(|loss| LARGE_LOSS < loss && loss < -WORTH);
        let is_sensible = match probe {
            Probe::Double => !self.base_is_all,
            Probe::Half => true,
            Probe::Below => self.base > self.least.max(2) && is_between,
        };
        is_sensible && now >= self.next[probe as usize]
    }

    fn rung_of(&self, probe: Probe) -> usize {
        match probe {
            Probe::Double => doubled(self.base),
            Probe::Half => halved(self.base).max(self.least),
            Probe::Below => self.base.saturating_sub(1),
        }
    }

    /// Puts a rung in force; what completes first still tells of the one before.
    fn go(&mut self, now: Nanos, rung: usize) {
        let before = std::mem::replace(&mut self.rung, rung);
        self.stale = if before == rung { 0 } else { LADDER[before.max(rung)] };
        self.open(now);
    }

    fn open(&mut self, now: Nanos) {
        self.window.open(now);
        self.usage.open(now);
        self.sparse.open(now);
    }
}

impl Usage {
    fn advance(&mut self, now: Nanos, depth: u32) {
        let elapsed = now.since(self.changed);
        if self.in_service < depth {
            self.unfilled += elapsed;
        }
        self.request_time += Span(elapsed.0.saturating_mul(u64::from(self.in_service)));
        self.changed = now;
    }

    fn open(&mut self, now: Nanos) {
        *self = Self { changed: now, in_service: self.in_service, ..Self::default() };
    }

    /// Whether a window of this length was full for nine tenths.
    fn is_filled(&self, length: Span) -> bool {
        self.unfilled.0 <= length.0 / 10
    }

    /// What the clients ask for, if they always do.
    fn steady_peak(&self, length: Span) -> Option<u32> {
        let whole = length.0.saturating_mul(u64::from(self.peak));
        (self.request_time.0 >= whole / 10 * 9).then_some(self.peak.max(1))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds, and positive"
)]
#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn times(span: Span, factor: f64) -> Span {
    Span((span.0 as f64 * factor) as u64)
}

/// Whether a rate has moved by more than chance.
fn is_beyond(level: &Rate, rate: &Rate, chance: f64) -> bool {
    rate.gain_over(level).abs() > LEVEL_CHANGE + chance
}

/// The last rung of at most this depth.
fn rung_within(depth: u32) -> usize {
    LADDER.iter().rposition(|&rung| rung <= depth).unwrap_or(0)
}

/// The rung at twice the depth.
fn doubled(rung: usize) -> usize {
    let target = LADDER[rung] * 2;
    LADDER.iter().position(|&depth| depth >= target).unwrap_or(TOP)
}

/// The rung at half the depth: of 3 it is 2, since 1 is a third of it.
fn halved(rung: usize) -> usize {
    let target = LADDER[rung].div_ceil(2);
    LADDER.iter().rposition(|&depth| depth <= target).unwrap_or(0)
}

/// Whether the last two doublings gained nothing.
fn has_levelled_off(seen: &[(usize, Rate)]) -> bool {
    let [.., (_, two_ago), (_, one_ago), (rung, last)] = seen else { return false };
    let (first_rung, first) = &seen[0];
    let depths = f64::from(LADDER[*rung]) / f64::from(LADDER[*first_rung]);
    let inflation = natural_log(depths) - last.gain_over(first);
    let gain = last.gain_over(two_ago);
    let is_known = gain + last.doubt_beside(two_ago) < RAMP_DOUBT || inflation > RAMP_INFLATION;
    gain.max(last.gain_over(one_ago)) < RAMP_WORTH && is_known
}

/// The first rung that is as good as the best.
fn knee_of(seen: &[(usize, Rate)]) -> Option<usize> {
    let best = seen.iter().map(|(_, rate)| rate.log).reduce(f64::max)?;
    seen.iter().find(|(_, rate)| rate.log >= best - RAMP_WORTH).map(|(rung, _)| *rung)
}
