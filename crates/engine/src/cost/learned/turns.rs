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
//! about as long as they do by turns**. Where that is not true costs move only until it shows.
//!
//! That also shows that there is one device: two that work side by side do in one second what takes
//! two by turns.
//!
//! A turn takes [`TURN_MIN`] where requests are quick, and [`TURN_MAX`] at most. Before it the
//! requests of the others come back: a device that lets some wait for others would keep them for as
//! long as the turn. Tags go on meanwhile, and whoever waited catches up. Turns come in looks: one
//! for each tenant that keeps the device busy, the lesser first, but last whose turn failed before:
//! a device that lets the others' requests wait for long may not give them back in time, and does
//! where their tenant has just had its own turn. Looks become rare.
//!
//! Related: Linux's CFQ served one process at a time, and charged it the time of its slice; BFQ
//! (Valente and Checconi, 2010) also serves one at a time, and charges sectors.
//!
//! [`Parallelism`]: super::parallelism::Parallelism

use evenkeel_core::float::natural_log;
use evenkeel_core::id::TenantId;
use evenkeel_core::sched;
use evenkeel_core::ticket::Ticket;
use evenkeel_core::time::{Nanos, Span};

use super::fit::Slope;
use super::tenant::Sums;
use super::{direction, float};

/// A turn has so many intervals, and takes so long.
const INTERVALS_MIN: f64 = 8.0;
const TURN_MIN: Span = Span::from_millis(20);
/// It fails if it takes longer than this, or the others' requests do to come back, or if the depth
/// was not full for so great a part of it.
const TURN_MAX: Span = Span::from_millis(150);
const UNFILLED_MAX: f64 = 0.1;
/// Tenants that take part, and the part of the device that one has at least.
const TENANTS_MAX: usize = 4;
const PART_MIN: f64 = 0.02;
/// The pause after the first look; it doubles with each.
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

/// Clocks of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    /// Time in which anything was under way.
    pub(super) busy_ns: f64,
    /// What of it the depth was not full.
    pub(super) unfilled_ns: f64,
}

/// A turn under way.
#[derive(Clone, Copy, Debug)]
struct Turn {
    tenant: TenantId,
    /// When it was given, or when the others' requests were back.
    begun: Nanos,
    /// When the first and the last of its requests came back since the tenant has the device to
    /// itself.
    span: Option<[Busy; 2]>,
    seen: Seen,
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

    /// A request is back, when the clocks show this.
    pub(super) fn finished(&mut self, now: Nanos, ticket: &Ticket, busy: Busy) {
        let tenant = ticket.tenant;
        let Some(count) = self.under_way.get_mut(tenant.index()) else { return };
        let is_alone = *count == self.all_under_way;
        *count = count.saturating_sub(1);
        self.all_under_way = self.all_under_way.saturating_sub(1);
        let Some(turn) = &mut self.turn else { return };
        if now.since(turn.begun) > TURN_MAX {
            return self.end_look();
        }
        if turn.tenant != tenant || !is_alone {
            return;
        }
        let [first, last] = turn.span.unwrap_or([busy; 2]);
        if turn.span.replace([first, busy]).is_some() {
            turn.add(ticket, busy.busy_ns - last.busy_ns);
        } else {
            // What came before was the others' requests coming back.
            turn.begun = now;
        }
        let length_ns = busy.busy_ns - first.busy_ns;
        if length_ns < float(TURN_MIN.0) || turn.seen.intervals < INTERVALS_MIN {
            return;
        }
        if busy.unfilled_ns - first.unfilled_ns > UNFILLED_MAX * length_ns {
            return self.end_look();
        }
        self.look.push((tenant, turn.seen));
        self.give_next(now);
    }

    /// From now on this is the depth.
    pub(super) fn set_depth(&mut self, depth: u64) {
        let Some(turn) = self.turn else { return };
        if turn.span.is_some() || !self.look.is_empty() {
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
            span: None,
            seen: Seen::default(),
        });
        if self.turn.is_none() {
            self.take_look();
        }
    }

    /// All have had their turns: that counts.
    fn take_look(&mut self) {
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

    /// Whether all together took about as long as by turns; before anything was seen they did not.
    pub(super) fn are_alike(&self) -> bool {
        self.are_alike
    }

    /// Whether all share one device: together they take as long as by turns.
    pub(super) fn share_one_device(&self) -> bool {
        self.are_alike && self.are_seen
    }

    fn times(&self, tenant: TenantId, lines: &[Slope; 2]) -> Option<f64> {
        self.seen.get(tenant.index())?.times(lines)
    }

    /// How many times as long as by these lines each tenant's requests take, if turns are to be
    /// believed rather than what was inferred, which is in `parts`. In their order.
    pub(super) fn believed(&self, parts: &[Part], lines: &[Slope; 2]) -> Option<Vec<f64>> {
        if !self.are_alike {
            return None;
        }
        let known =
            || parts.iter().filter_map(|part| Some((part, self.times(part.tenant, lines)?)));
        let by_turns_ns: f64 = known().map(|(part, times)| part.expected_ns * times).sum();
        let inferred_ns: f64 = known().map(|(part, _)| part.time_ns).sum();
        let scale = by_turns_ns / inferred_ns;
        let is_other = |(part, times): (&Part, f64)| {
            let inferred = part.time_ns * scale / part.expected_ns;
            let difference = natural_log(times / inferred).abs();
            difference > DIFFERENCE.max(ERRORS * self.seen[part.tenant.index()].error())
        };
        let error = |(part, _): (&Part, f64)| self.seen[part.tenant.index()].error();
        let is_exact = known().map(error).all(|error| error < ERROR_MAX);
        if known().count() < 2 || !is_exact || !known().any(is_other) {
            return None;
        }
        let times = |part: &Part| {
            let inferred = || part.time_ns * scale / part.expected_ns;
            self.times(part.tenant, lines).unwrap_or_else(inferred)
        };
        Some(parts.iter().map(times).collect())
    }
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
            let busy = Busy { busy_ns: self.busy_ns, unfilled_ns: 0.0 };
            self.turns.finished(self.now(), &ticket(back), busy);
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
    fn tenants_in_each_others_way_take_longer_together_and_turns_are_not_believed() {
        let mut world = World::new();
        world.epoch(1.0);
        world.look(truly);
        (0..50).for_each(|_| world.epoch(1.2 * ALL));
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
