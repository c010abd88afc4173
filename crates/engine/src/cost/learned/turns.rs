//! Turns: a tenant has the device to itself for a moment, and what its requests take is seen.
//!
//! ```text
//! depth 3   |db db B |db db db db db db|B  B  B  B  B  B |db B  db
//!             all     db's turn         B's turn           all
//! ```
//!
//! While only one tenant's requests are with a full device, the time between two of them that come
//! back is what one takes, however the device serves several at once: no way of serving need be
//! inferred ([`Parallelism`]). That matters in front of a device that lets some requests wait for
//! others, as a server with a rate limit does: a large request waits there for an allowance that
//! small ones use up. Its latency is taken for cost, so fewer such requests go, those wait longer
//! still, and their tenant starves.
//!
//! Requests of several tenants may take longer together than by turns: a disk seeks between two
//! streams that it reads quickly one by one. So turns count for as long as **all together take
//! about as long as they do by turns**. Where they take longer, turns are a bound for what is
//! inferred ([`bounds`](super::bounds)): nobody takes less than by turns, nor more than that and
//! all that is lost together. Where they take less, turns say nothing.
//!
//! That also shows that there is one device: two that work side by side do in one second what takes
//! two by turns.
//!
//! A turn takes [`TURN_MIN`] where requests are quick, and [`TURN_MAX`] at most. Before it the
//! requests of the others come back: a device that lets some wait for others would keep them for as
//! long as the turn. Tags go on meanwhile, and whoever waited catches up. Turns come in looks: one
//! for each tenant that keeps the device busy, the lesser first, but last whose turn failed before:
//! a device that lets the others' requests wait for long may not give them back in time, and does
//! where their tenant has just had its own turn. Looks become rare, and sooner so if all had their
//! turns. A turn goes on over a moment in which its tenant sends nothing ([`sched::Scheduler`]).
//!
//! Related: Linux's CFQ served one process at a time, and charged it the time of its slice; BFQ
//! (Valente and Checconi, 2010) also serves one at a time, and charges sectors.
//!
//! [`Parallelism`]: super::parallelism::Parallelism

use evenkeel_core::float::{exponential, natural_log};
use evenkeel_core::id::TenantId;
use evenkeel_core::sched;
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};

use super::bounds::{Bound, raise};
use super::fit::Slope;
use super::tenant::Sums;
use super::{direction, float};

/// A turn has so many intervals, and takes so long.
const INTERVALS_MIN: f64 = 8.0;
const TURN_MIN: Span = Span::from_millis(20);
/// It fails if it takes longer than this, or the others' requests do to come back, or if less than
/// this part of the depth was in use in the mean.
const TURN_MAX: Span = Span::from_millis(150);
const IN_USE_MIN: f64 = 0.75;
/// Tenants that take part, and the part of the device that one has at least.
const TENANTS_MAX: usize = 4;
const PART_MIN: f64 = 0.02;
/// The pause after the first look; it doubles with each, and once more if all had their turns.
const PAUSE_MIN: Span = Span::from_millis(500);
const PAUSE_MAX: Span = Span::from_secs(64);
/// When turns no longer agree, the next look comes so many times sooner.
const SOONER: u64 = 8;
/// What was seen in earlier looks counts for this part.
const KEPT: f64 = 0.5;
/// By turns all take as long as together if the logarithm of the quotient is this near to zero ..
const ALIKE: f64 = 0.1;
/// .. and for as long as it stays this near.
const STILL_ALIKE: f64 = 0.15;
/// Tenants who have had no turn must take less than this part of the time, to tell whether all
/// share one device.
const UNSEEN_MAX: f64 = 0.1;
/// So much time together must have been seen, and is remembered.
const TOGETHER_MIN: Span = Span::from_millis(250);
const TOGETHER_MEMORY: Span = Span::from_secs(1);
/// Turns are believed if nobody's standard error is greater than this part, ..
const ERROR_MAX: f64 = 0.2;
/// .. and if they differ from what was inferred by so many standard errors, and by this
/// as a logarithm.
const ERRORS: f64 = 2.5;
const DIFFERENCE: f64 = 0.1;

/// What was seen of a tenant in its turns.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sums: Sums,
    intervals: f64,
    time_ns: f64,
    squared: f64,
}

impl Seen {
    fn fade(&mut self, keep: f64) {
        self.sums.fade(keep);
        self.intervals *= keep;
        self.time_ns *= keep;
        self.squared *= keep;
    }

    fn merge(&mut self, other: &Self) {
        self.sums.merge(&other.sums, 1.0);
        self.intervals += other.intervals;
        self.time_ns += other.time_ns;
        self.squared += other.squared;
    }

    /// How many times as long its requests take as by these lines; none before its first turn.
    fn times(&self, lines: &[Slope; 2]) -> Option<f64> {
        let expected_ns = self.sums.expected_ns(lines);
        (self.time_ns > 0.0 && expected_ns > 0.0).then(|| self.time_ns / expected_ns)
    }

    /// The standard error of that, as a part of it.
    fn error(&self) -> f64 {
        let spread = self.squared * self.intervals / (self.time_ns * self.time_ns) - 1.0;
        (spread.max(0.0) / self.intervals).sqrt()
    }
}

/// A turn under way.
#[derive(Clone, Copy, Debug)]
struct Turn {
    tenant: TenantId,
    /// When it was given, or when the others' requests were back.
    begun: Nanos,
    /// What the clock of the device showed when the first and the last of its requests came back
    /// since the tenant has the device to itself.
    span_ns: Option<[f64; 2]>,
    seen: Seen,
    /// Requests with the device, times nanoseconds.
    in_use: f64,
}

/// A tenant's part in an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) tenant: TenantId,
    /// What its requests took, in the way that was inferred, and by the lines.
    pub(super) time_ns: f64,
    pub(super) expected_ns: f64,
}

/// Turns, and what they have shown. See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// By tenant: requests with the device.
    under_way: Vec<u32>,
    all_under_way: u32,
    turn: Option<Turn>,
    /// Those whose turns are next, the last one first.
    next: Vec<TenantId>,
    /// What this look has shown so far.
    look: Vec<(TenantId, Seen)>,
    /// Whose turn failed in the last look.
    failed: Option<TenantId>,
    next_look: Nanos,
    pause: Span,
    /// By tenant: what all looks have shown.
    seen: Vec<Seen>,
    depth: u64,
    /// What all together take by turns, and took, at that depth.
    by_turns_ns: f64,
    together_ns: f64,
    are_alike: bool,
    /// Nearly all of the last epoch's time went to tenants that have had a turn.
    are_seen: bool,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            under_way: Vec::new(),
            all_under_way: 0,
            turn: None,
            next: Vec::new(),
            look: Vec::new(),
            failed: None,
            next_look: Nanos::ZERO,
            pause: PAUSE_MIN,
            seen: Vec::new(),
            depth: 0,
            by_turns_ns: 0.0,
            together_ns: 0.0,
            are_alike: false,
            are_seen: false,
        }
    }

    /// The turn that is under way, or has ended by the clock alone.
    pub(super) fn turn(&self) -> Option<sched::Turn> {
        let Turn { tenant, begun, .. } = self.turn?;
        Some(sched::Turn { tenant, until: begun + TURN_MAX })
    }

    /// Whose turn it is.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        self.turn.map(|turn| turn.tenant)
    }

    /// A request goes to the device. Another tenant's ends the look: whose turn it is has no more.
    pub(super) fn started(&mut self, tenant: TenantId) {
        if self.under_way.len() <= tenant.index() {
            self.under_way.resize(tenant.index() + 1, 0);
        }
        self.under_way[tenant.index()] += 1;
        self.all_under_way += 1;
        if self.turn.is_some_and(|turn| turn.tenant != tenant) {
            self.end_look();
        }
    }

    /// A request is no longer with the device, and tells nothing.
    pub(super) fn left(&mut self, tenant: TenantId) {
        if let Some(count) = self.under_way.get_mut(tenant.index()) {
            *count = count.saturating_sub(1);
            self.all_under_way = self.all_under_way.saturating_sub(1);
        }
        if self.tenant() == Some(tenant) {
            self.end_look();
        }
    }

    /// Forgets what is under way.
    pub(super) fn restart(&mut self) {
        self.under_way.fill(0);
        self.all_under_way = 0;
        self.end_look();
    }

    /// A request is back, when the device has had anything under way for so long.
    pub(super) fn finished(&mut self, now: Nanos, ticket: &Ticket, busy_ns: f64) {
        let tenant = ticket.tenant;
        let Some(count) = self.under_way.get_mut(tenant.index()) else { return };
        let (in_use, is_alone) = (f64::from(*count), *count == self.all_under_way);
        *count = count.saturating_sub(1);
        self.all_under_way = self.all_under_way.saturating_sub(1);
        let Some(turn) = &mut self.turn else { return };
        if now.since(turn.begun) > TURN_MAX {
            return self.end_look();
        }
        if turn.tenant != tenant || !is_alone {
            return;
        }
        let [first_ns, last_ns] = turn.span_ns.unwrap_or([busy_ns; 2]);
        if turn.span_ns.replace([first_ns, busy_ns]).is_some() {
            turn.add(ticket, busy_ns - last_ns);
            turn.in_use += in_use * (busy_ns - last_ns);
        } else {
            // What came before was the others' requests coming back.
            turn.begun = now;
        }
        let length_ns = busy_ns - first_ns;
        if length_ns < float(TURN_MIN.0) || turn.seen.intervals < INTERVALS_MIN {
            return;
        }
        if turn.in_use < IN_USE_MIN * float(self.depth) * length_ns {
            return self.end_look();
        }
        self.look.push((tenant, turn.seen));
        self.give_next(now);
    }

    /// From now on this is the depth.
    pub(super) fn set_depth(&mut self, depth: u64) {
        let Some(turn) = self.turn else { return };
        if turn.span_ns.is_some() || !self.look.is_empty() {
            self.end_look();
        } else {
            self.take_depth(depth);
        }
    }

    /// This look is at such a depth.
    fn take_depth(&mut self, depth: u64) {
        if std::mem::replace(&mut self.depth, depth) != depth {
            self.seen.fill(Seen::default());
            self.forget_together();
        }
    }

    fn give_next(&mut self, now: Nanos) {
        self.turn = self.next.pop().map(|tenant| Turn {
            tenant,
            begun: now,
            span_ns: None,
            seen: Seen::default(),
            in_use: 0.0,
        });
        if self.turn.is_none() {
            self.take_look();
        }
    }

    /// All have had their turns: that counts.
    fn take_look(&mut self) {
        self.next_look += Span(self.pause.0 / 2);
        self.pause = Span(self.pause.0 * 2).min(PAUSE_MAX);
        for (tenant, seen) in std::mem::take(&mut self.look) {
            if self.seen.len() <= tenant.index() {
                self.seen.resize(tenant.index() + 1, Seen::default());
            }
            self.seen[tenant.index()].merge(&seen);
        }
    }

    /// The look has failed or is over.
    fn end_look(&mut self) {
        self.failed = self.tenant().or(self.failed);
        self.turn = None;
        self.next.clear();
        self.look.clear();
    }

    /// An epoch without turns is over, of so long a time at this depth. Begins a look if it is time
    /// for one.
    pub(super) fn take_epoch(
        &mut self,
        now: Nanos,
        depth: u64,
        parts: &[Part],
        lines: &[Slope; 2],
    ) {
        let together_ns: f64 = parts.iter().map(|part| part.time_ns).sum();
        if depth == self.depth {
            let by_turns = |part: &Part| match self.times(part.tenant, lines) {
                Some(times) => part.expected_ns * times,
                None => part.time_ns,
            };
            let by_turns_ns: f64 = parts.iter().map(by_turns).sum();
            let keep = super::kept(together_ns / 1e9, TOGETHER_MEMORY);
            self.by_turns_ns = self.by_turns_ns * keep + by_turns_ns;
            self.together_ns = self.together_ns * keep + together_ns;
            let is_unseen = |part: &&Part| self.times(part.tenant, lines).is_none();
            let unseen_ns: f64 = parts.iter().filter(is_unseen).map(|part| part.time_ns).sum();
            self.are_seen = unseen_ns < UNSEEN_MAX * together_ns;
            self.compare(now);
        }
        if now >= self.next_look && self.turn.is_none() {
            self.begin_look(now, depth, parts, together_ns);
        }
    }

    fn compare(&mut self, now: Nanos) {
        if self.together_ns < float(TOGETHER_MIN.0) {
            return;
        }
        let log = natural_log(self.by_turns_ns / self.together_ns).abs();
        if self.are_alike && log > STILL_ALIKE {
            // The device, or the mixture, is no longer what it was.
            self.seen.fill(Seen::default());
            self.forget_together();
            self.next_look = self.next_look.min(now + Span(self.pause.0 / SOONER));
        } else if !self.are_alike {
            self.are_alike = log < ALIKE;
        }
    }

    fn forget_together(&mut self) {
        (self.by_turns_ns, self.together_ns, self.are_alike) = (0.0, 0.0, false);
    }

    fn begin_look(&mut self, now: Nanos, depth: u64, parts: &[Part], together_ns: f64) {
        let mut able: Vec<&Part> =
            parts.iter().filter(|part| part.time_ns > PART_MIN * together_ns).collect();
        if able.len() < 2 {
            return;
        }
        able.sort_by(|one, other| other.time_ns.total_cmp(&one.time_ns));
        able.truncate(TENANTS_MAX);
        // A stable sort: the others keep their order.
        able.sort_by_key(|part| self.failed != Some(part.tenant));
        self.failed = None;
        self.next_look = now + self.pause;
        self.pause = Span(self.pause.0 * 2).min(PAUSE_MAX);
        self.seen.iter_mut().for_each(|seen| seen.fade(KEPT));
        self.take_depth(depth);
        self.next = able.iter().map(|part| part.tenant).collect();
        self.give_next(now);
    }

    /// Whether turns say what requests take, or bound what was inferred.
    pub(super) fn may_correct(&self) -> bool {
        self.are_alike || self.lost_part().is_some()
    }

    /// The part of the time that all lose by being together; none if it is not known, or they lose
    /// nothing.
    fn lost_part(&self) -> Option<f64> {
        let is_known = self.are_seen && self.together_ns >= float(TOGETHER_MIN.0);
        let lost = 1.0 - self.by_turns_ns / self.together_ns;
        (is_known && lost > 0.0).then_some(lost)
    }

    /// Whether all share one device: together they take as long as by turns.
    pub(super) fn share_one_device(&self) -> bool {
        self.are_alike && self.are_seen
    }

    fn times(&self, tenant: TenantId, lines: &[Slope; 2]) -> Option<f64> {
        self.seen.get(tenant.index())?.times(lines)
    }

    /// How many times as long as by these lines each tenant's requests take beside those of the
    /// others, if turns are to be believed rather than what was inferred, which is in `parts`. In
    /// their order.
    pub(super) fn believed(&self, parts: &[Part], lines: &[Slope; 2]) -> Option<Vec<f64>> {
        let known: Vec<Option<Known>> = parts.iter().map(|part| self.known(part, lines)).collect();
        let has_several = known.iter().flatten().count() >= 2;
        let is_exact = known.iter().flatten().all(|known| known.error < ERROR_MAX);
        if !has_several || !is_exact {
            return None;
        }
        let times = match self.lost_part() {
            _ if self.are_alike => by_turns(parts, &known)?,
            Some(lost) => bounded(parts, &known, lost)?,
            None => return None,
        };
        let taken = parts.iter().zip(times);
        Some(taken.map(|(part, time_ns)| time_ns / part.expected_ns).collect())
    }

    /// What turns say of this part.
    fn known(&self, part: &Part, lines: &[Slope; 2]) -> Option<Known> {
        let time_ns = part.expected_ns * self.times(part.tenant, lines)?;
        Some(Known { time_ns, error: self.seen[part.tenant.index()].error() })
    }
}

/// What a tenant's part takes by turns.
#[derive(Clone, Copy, Debug)]
struct Known {
    time_ns: f64,
    /// The standard error, as a part of it.
    error: f64,
}

impl Known {
    /// By how much another figure must differ so that this one is right, as a logarithm.
    fn doubt(&self) -> f64 {
        DIFFERENCE.max(ERRORS * self.error)
    }
}

/// What those take by turns of whom that is known, in times of what was inferred of them.
fn scale_of(parts: &[Part], known: &[Option<Known>]) -> f64 {
    let both = || parts.iter().zip(known).filter_map(|(part, known)| Some((part, known.as_ref()?)));
    let by_turns_ns: f64 = both().map(|(_, known)| known.time_ns).sum();
    let inferred_ns: f64 = both().map(|(part, _)| part.time_ns).sum();
    by_turns_ns / inferred_ns
}

/// What all take by turns, if that is something else than what was inferred.
fn by_turns(parts: &[Part], known: &[Option<Known>]) -> Option<Vec<f64>> {
    let scale = scale_of(parts, known);
    let both = || parts.iter().zip(known);
    let is_other = |(part, known): (&Part, &Option<Known>)| {
        let differs = |one: Known| natural_log(one.time_ns / (part.time_ns * scale)).abs();
        known.is_some_and(|one| differs(one) > one.doubt())
    };
    let times = both().map(|(part, known)| known.map_or(part.time_ns * scale, |one| one.time_ns));
    both().any(is_other).then(|| times.collect())
}

/// What all take that lose this part of their time together, if what was inferred is less than what
/// somebody takes by turns.
fn bounded(parts: &[Part], known: &[Option<Known>], lost: f64) -> Option<Vec<f64>> {
    let kept = (1.0 - lost) / scale_of(parts, known);
    let least = |one: Known| one.time_ns * kept * exponential(-one.doubt());
    let bounds = parts
        .iter()
        .zip(known)
        .map(|(part, known)| Bound { inferred: part.time_ns, least: known.map_or(0.0, least) });
    raise(&bounds.collect::<Vec<_>>())
}

impl Turn {
    fn add(&mut self, ticket: &Ticket, interval_ns: f64) {
        if let Some(direction) = direction(ticket.kind) {
            self.seen.sums.add(direction, float(ticket.size_bytes), interval_ns);
        }
        self.seen.intervals += 1.0;
        self.seen.time_ns += interval_ns;
        self.seen.squared += interval_ns * interval_ns;
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::{Cost, Kind};

    use super::*;

    const SMALL: TenantId = TenantId(0);
    const LARGE: TenantId = TenantId(1);
    /// What they take, and what was inferred.
    const TRUE_NS: [f64; 2] = [100_000.0, 6_400_000.0];
    const INFERRED_NS: [f64; 2] = [70_000.0, 14_080_000.0];
    const LINES: [Slope; 2] = [Slope { fixed_ns: 1000.0, byte_ns: 20.0 }; 2];

    fn ticket(tenant: TenantId) -> Ticket {
        let size_bytes = if tenant == SMALL { 4096 } else { 262_144 };
        let (kind, slot) = (Kind::Read, 0);
        Ticket { tenant, kind, slot, size_bytes, cost: Cost(1), cost_elsewhere: Cost(0) }
    }

    /// A full device at a depth of 2.
    struct World {
        turns: Turns,
        busy_ns: f64,
    }

    impl World {
        fn new() -> Self {
            let mut turns = Turns::new();
            turns.started(SMALL);
            turns.started(LARGE);
            Self { turns, busy_ns: 0.0 }
        }

        fn now(&self) -> Nanos {
            Nanos(super::super::whole(self.busy_ns))
        }

        /// An epoch with 256 small requests and 4 large ones that took so many times as long as
        /// they do by turns.
        fn epoch(&mut self, times: f64) {
            self.busy_ns += 1e8;
            let parts = parts(times);
            self.turns.take_epoch(self.now(), 2, &parts, &LINES);
        }

        /// One comes back, and another of this tenant goes.
        fn swap(&mut self, back: TenantId, next: TenantId, time_ns: f64) {
            self.busy_ns += time_ns;
            self.turns.finished(self.now(), &ticket(back), self.busy_ns);
            let next = self.turns.tenant().unwrap_or(next);
            self.turns.started(next);
        }

        /// Until nobody has a turn, each request taking what `time_ns` says of its number.
        fn look(&mut self, time_ns: impl Fn(TenantId, u32) -> f64) {
            let mut with_device = vec![SMALL, LARGE];
            let mut number = 0;
            while let Some(tenant) = self.turns.tenant() {
                number += 1;
                let back = with_device.remove(0);
                self.swap(back, tenant, time_ns(back, number));
                with_device.push(self.turns.tenant().unwrap_or(tenant));
                assert!(number < 10_000, "it ends");
            }
            // As it was before.
            self.turns.restart();
            self.turns.started(SMALL);
            self.turns.started(LARGE);
        }
    }

    fn parts(times: f64) -> [Part; 2] {
        [SMALL, LARGE].map(|tenant| {
            let index = tenant.index();
            let requests = [256.0, 4.0][index];
            let size_bytes = float(ticket(tenant).size_bytes);
            let time_ns = requests * INFERRED_NS[index] * times;
            Part { tenant, time_ns, expected_ns: requests * LINES[0].at(size_bytes) }
        })
    }

    fn truly(tenant: TenantId, _: u32) -> f64 {
        TRUE_NS[tenant.index()]
    }

    /// What a large request is believed to take in times of a small one.
    fn believed(world: &World) -> Option<f64> {
        let parts = parts(1.0);
        let times = world.turns.believed(&parts, &LINES)?;
        let [small, large] = [4096.0, 262_144.0].map(|size| LINES[0].at(size));
        Some(times[1] * large / (times[0] * small))
    }

    /// All together take about what they take by turns: `256 * 0.07 + 4 * 14.08 = 74` beside
    /// `256 * 0.1 + 4 * 6.4 = 51` ms.
    const ALL: f64 = 51.2 / 74.24;

    #[test]
    fn turns_correct_what_was_inferred_wrongly() {
        let mut world = World::new();
        world.epoch(ALL);
        assert_eq!(world.turns.tenant(), Some(SMALL), "who has less of the device is first");
        world.look(truly);
        assert_eq!(believed(&world), None, "first it must agree with what all take together");
        (0..10).for_each(|_| world.epoch(ALL));
        let ratio = believed(&world).expect("they differ");
        assert!((60.0..68.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn one_device_takes_as_long_for_all_together_as_by_turns() {
        let mut world = World::new();
        world.epoch(ALL);
        assert!(!world.turns.share_one_device(), "nothing was seen yet");
        world.look(truly);
        (0..10).for_each(|_| world.epoch(ALL));
        assert!(world.turns.share_one_device());
        for times in [0.5, 2.0] {
            let mut others = World::new();
            others.epoch(times * ALL);
            others.look(truly);
            (0..10).for_each(|_| others.epoch(times * ALL));
            assert!(!others.turns.share_one_device(), "{times} times as long");
        }
    }

    #[test]
    fn who_had_no_turn_may_have_a_device_of_its_own() {
        let mut world = World::new();
        world.epoch(ALL);
        world.look(truly);
        (0..10).for_each(|_| world.epoch(ALL));
        let [small, large] = parts(ALL);
        let newcomer = Part { tenant: TenantId(2), ..large };
        world.busy_ns += 1e8;
        world.turns.take_epoch(world.now(), 2, &[small, large, newcomer], &LINES);
        assert!(!world.turns.share_one_device());
    }

    #[test]
    fn tenants_in_each_others_way_take_what_they_do_by_turns_at_least() {
        let believed = |times: f64| {
            let mut world = World::new();
            world.epoch(1.0);
            world.look(truly);
            (0..50).for_each(|_| world.epoch(times * ALL));
            assert!(!world.turns.share_one_device());
            believed(&world)
        };
        // A quarter of the time is lost together. The small ones take half of the rest by turns,
        // which is a third more than what was inferred of them.
        let ratio = believed(1.33).expect("they differ");
        assert!((90.0..130.0).contains(&ratio), "{ratio}, where 64 is by turns and 201 inferred");
        assert_eq!(believed(4.0), None, "as inferred, and three quarters are lost");
    }

    #[test]
    fn who_takes_less_together_than_by_turns_does_not_share_one_device() {
        let mut world = World::new();
        world.epoch(ALL);
        world.look(truly);
        (0..50).for_each(|_| world.epoch(0.5 * ALL));
        assert_eq!(believed(&world), None);
    }

    #[test]
    fn turns_are_forgotten_when_they_no_longer_agree() {
        let mut world = World::new();
        world.epoch(ALL);
        world.look(truly);
        (0..10).for_each(|_| world.epoch(ALL));
        assert!(believed(&world).is_some());
        (0..10).for_each(|_| world.epoch(2.0 * ALL));
        assert_eq!(believed(&world), None);
    }

    #[test]
    fn an_erratic_device_shows_nothing_in_so_short_a_time() {
        let mut world = World::new();
        world.epoch(ALL);
        let erratic = |tenant, number: u32| {
            truly(tenant, number) * if number.is_multiple_of(4) { 3.7 } else { 0.1 }
        };
        world.look(erratic);
        (0..10).for_each(|_| world.epoch(ALL));
        assert_eq!(believed(&world), None);
    }

    #[test]
    fn a_turn_that_leaves_much_of_the_depth_unused_shows_nothing() {
        for (depth, is_seen) in [(2, true), (3, false)] {
            let mut world = World::new();
            let epoch = |world: &mut World| {
                world.busy_ns += 1e8;
                world.turns.take_epoch(world.now(), depth, &parts(ALL), &LINES);
            };
            epoch(&mut world);
            world.look(truly);
            (0..10).for_each(|_| epoch(&mut world));
            assert_eq!(world.turns.share_one_device(), is_seen, "2 requests of {depth}");
        }
    }

    #[test]
    fn a_look_ends_when_whoever_has_the_turn_has_nothing_to_send() {
        let mut world = World::new();
        world.epoch(ALL);
        let first = world.turns.tenant().expect("a look");
        world.turns.started(if first == SMALL { LARGE } else { SMALL });
        assert_eq!(world.turns.tenant(), None);
        world.epoch(ALL);
        assert_eq!(world.turns.tenant(), None, "and there is a pause");
    }

    #[test]
    fn a_turn_in_which_little_comes_back_is_over_soon() {
        let mut world = World::new();
        world.epoch(ALL);
        let begun = world.now();
        world.look(|_, _| 40_000_000.0);
        assert!(world.now().since(begun) < TURN_MAX + TURN_MAX);
        (0..10).for_each(|_| world.epoch(ALL));
        assert_eq!(believed(&world), None);
    }

    #[test]
    fn looks_become_rare() {
        let mut world = World::new();
        let mut looks = 0;
        while world.busy_ns < 600e9 {
            world.epoch(ALL);
            looks += u32::from(world.turns.tenant().is_some());
            world.look(truly);
        }
        assert!((10..=16).contains(&looks), "{looks} in ten minutes");
    }
}
