//! From what became of tenants lately to the one cause that counts. See the [module](super).

use evenkeel_core::control::target::Bounds;
use evenkeel_core::id::TenantId;
use evenkeel_core::time::Span;

use super::{Cause, Recent, Scene, Standing};
use crate::cost::measured::Measured;
use crate::policy::{Depth, Discipline, MOVER_TENANT, Mode, Scheduling, UPKEEP_TENANT};
use crate::report::{Culprit, ServerReport, ShareWindow};

/// Below this part of what it is due a tenant is below it.
const DUE_MIN: f64 = 0.95;
/// From this part of its windows on a tenant that has something queued has a backlog.
const BACKLOGGED_MIN: f64 = 0.5;
/// A tenant that has at least this part of all has all of it.
const ALL_MIN: f64 = 0.97;
/// What takes at least this part of the time of a tenant's requests may be what keeps it back.
const PART_MIN: f64 = 0.25;
/// A device that stands still for this part of their time is the cause, whoever else is there:
/// others are to be expected, and that is not.
pub(super) const STALLED_MIN: f64 = 0.1;
/// Its requests wait if they do for at least this part of their time.
const WAITS_MIN: f64 = 0.5;
/// A written depth is too great if the device serves fewer at once by this factor.
const DEPTH_FACTOR: u64 = 2;
/// So long a tenant must have asked for more than it got before a floor counts as missed.
const ASKS_MIN: Span = Span::from_secs(3);
/// Another is named if it is this part of what is waited for others, ..
const NAMED_MIN: f64 = 0.5;
/// .. or goes so far beyond its share, as a part of the device, because of a promise.
const EXCESS_MIN: f64 = 0.02;
/// With fewer requests under way on average a tenant has one at a time.
const FEW: f64 = 1.5;
/// Fewer answers say little of a goal.
const ANSWERS_MIN: u64 = 10;

/// The cause, and what was missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) standing: Standing,
    pub(super) missed: Option<Due>,
    pub(super) cause: Option<Cause>,
    pub(super) behind: Option<TenantId>,
}

/// What a tenant may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Floor,
    Goal,
    Share,
}

/// What a tenant's requests spend their time with, in nanoseconds of unit-time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    pub(super) limit: f64,
    pub(super) slots: f64,
    /// The device stood still.
    pub(super) stalls: f64,
    pub(super) itself: f64,
    pub(super) internal: f64,
    pub(super) others: f64,
    /// What is left: what they take of a device that does nothing else.
    pub(super) service: f64,
    /// Who is most of `internal`, and at least half of `others`.
    internal_most: Option<TenantId>,
    others_most: Option<TenantId>,
}

impl Parts {
    pub(super) fn of(scene: &Scene<'_>, tenant: TenantId) -> Self {
        let recent = &scene.recent[tenant.index()];
        let mut parts = Self {
            limit: float(recent.gained.throttled),
            slots: float(recent.gained.for_slots),
            stalls: float(recent.gained.stalled),
            ..Self::default()
        };
        let mut unknown = float(recent.gained.waited);
        let mut most = 0.0;
        for &(culprit, waited) in &recent.behind {
            unknown -= float(waited);
            let waited = float(waited);
            // The greatest comes first.
            match culprit {
                // Stalls, and what a lone request took longer than expected, which is service.
                Culprit::Device => {}
                Culprit::Tenant(one) if one == tenant => parts.itself += waited,
                Culprit::Tenant(one) if scene.is_internal(one) => {
                    parts.internal += waited;
                    parts.internal_most.get_or_insert(one);
                }
                Culprit::Tenant(one) => {
                    parts.others += waited;
                    if parts.others_most.is_none() {
                        (parts.others_most, most) = (Some(one), waited);
                    }
                }
            }
        }
        parts.others += unknown.max(0.0);
        parts.others_most.take_if(|_| most < NAMED_MIN * parts.others);
        let known = parts.limit + parts.slots + parts.waits();
        let all = float(recent.gained.queued) + float(recent.gained.in_service);
        parts.service = (all - known).max(0.0);
        parts
    }

    pub(super) fn waits(&self) -> f64 {
        self.stalls + self.itself + self.internal + self.others
    }

    pub(super) fn all(&self) -> f64 {
        self.limit + self.slots + self.waits() + self.service
    }

    /// This much as a part of all.
    pub(super) fn part(&self, time: f64) -> f64 {
        if self.all() > 0.0 { time / self.all() } else { 0.0 }
    }

    fn is_much(&self, time: f64, beside: f64) -> bool {
        self.part(time) >= PART_MIN && time >= beside
    }

    /// What is certain whoever is served when: its own limit, its own exports, a device that stands
    /// still.
    fn certain(&self) -> Option<Cause> {
        let waits = self.waits();
        if self.is_much(self.limit, self.slots.max(waits)) {
            return Some(Cause::OwnLimit);
        }
        if self.is_much(self.slots, waits) {
            return Some(Cause::SlowExport);
        }
        self.is_much(self.stalls, waits / 2.0).then_some(Cause::Device)
    }

    /// Behind whom most is waited.
    fn most(&self) -> (Cause, Option<TenantId>) {
        if self.itself >= self.internal.max(self.others) {
            (Cause::OwnQueue, None)
        } else if self.internal >= self.others {
            (Cause::InternalWork, self.internal_most)
        } else {
            (Cause::OthersShares, self.others_most)
        }
    }
}

impl Scene<'_> {
    pub(super) fn is_internal(&self, tenant: TenantId) -> bool {
        [MOVER_TENANT, UPKEEP_TENANT].contains(&self.tenants[tenant.index()].0.as_str())
    }

    pub(super) fn window(&self, tenant: TenantId) -> ShareWindow {
        self.recent[tenant.index()].window.unwrap_or_default()
    }

    fn has_floor(&self, tenant: TenantId) -> bool {
        let floor = self.tenants[tenant.index()].1.floor;
        floor.rate_iops > 0 || floor.rate_bytes > 0
    }

    fn has_goal(&self, tenant: TenantId) -> bool {
        self.tenants[tenant.index()].1.latency_goal > Span::ZERO
    }

    fn others_of(&self, tenant: TenantId) -> impl Iterator<Item = TenantId> {
        let all = (0..self.recent.len()).map(|index| TenantId(u32::try_from(index).expect("u32")));
        all.filter(move |one| *one != tenant)
    }

    fn has_discipline(&self, discipline: Discipline) -> bool {
        self.scheduling.iter().any(|(_, one)| one.discipline == discipline)
    }

    /// The tenant that most goes beyond its share, of those other than this one that are promised
    /// this.
    fn first_of(&self, tenant: TenantId, promised: impl Fn(TenantId) -> bool) -> Option<TenantId> {
        let excess = |one: &TenantId| self.window(*one).delivered - self.window(*one).entitled;
        let others =
            self.others_of(tenant).filter(|one| promised(*one) && excess(one) > EXCESS_MIN);
        others.max_by(|one, other| excess(one).total_cmp(&excess(other)))
    }
}

/// What counts for this tenant.
pub(super) fn judge(scene: &Scene<'_>, tenant: TenantId) -> Verdict {
    let recent = &scene.recent[tenant.index()];
    if recent.gained.in_flight == Span::ZERO && recent.present == 0 {
        return Verdict::default();
    }
    if recent.window.is_none() {
        return Verdict { standing: Standing::HasItsDue, ..Verdict::default() };
    }
    let parts = Parts::of(scene, tenant);
    let missed = missed(scene, tenant, &parts);
    let (cause, behind) = cause(scene, tenant, missed, &parts);
    // What it could have and does not ask for, or what its policy keeps from it, is not its due.
    let is_its_own =
        matches!(cause, Some(Cause::AsksTooLittle | Cause::OwnLimit | Cause::OwnQueue));
    let is_stalled = cause == Some(Cause::Device) && parts.part(parts.stalls) >= WAITS_MIN;
    let is_below = cause == Some(Cause::SlowExport)
        || is_stalled
        || matches!(missed, Some(Due::Floor | Due::Goal))
        || missed == Some(Due::Share) && !is_its_own;
    let standing = if is_below { Standing::BelowItsDue } else { Standing::HasItsDue };
    Verdict { standing, missed, cause, behind }
}

fn cause(
    scene: &Scene<'_>,
    tenant: TenantId,
    missed: Option<Due>,
    parts: &Parts,
) -> (Option<Cause>, Option<TenantId>) {
    if hangs(scene, tenant) {
        return (Some(Cause::SlowExport), None);
    }
    if let Some(cause) = parts.certain() {
        return (Some(cause), None);
    }
    let (cause, behind) = match missed {
        Some(Due::Floor) => of_floor(scene, tenant, parts),
        Some(Due::Goal) => of_goal(scene, tenant, parts),
        Some(Due::Share) => of_share(scene, tenant, parts),
        None => return would_take_more(scene, tenant, parts),
    };
    (Some(cause), behind)
}

/// Whether most of what it has under way is with exports that do not answer.
fn hangs(scene: &Scene<'_>, tenant: TenantId) -> bool {
    let hanging = scene.servers.iter().flat_map(|server| &server.hanging);
    let requests: u64 = hanging.filter(|one| one.tenant == tenant).map(|one| one.requests).sum();
    let recent = &scene.recent[tenant.index()];
    requests > 0 && 2.0 * requests as f64 >= mean_in_flight(recent)
}

/// What it was due and did not get.
fn missed(scene: &Scene<'_>, tenant: TenantId, parts: &Parts) -> Option<Due> {
    let recent = &scene.recent[tenant.index()];
    let share = &scene.tenants[tenant.index()].1;
    let window = recent.window?;
    // A floor is due for as long as it asks for more than it gets.
    let asks = match scene.mode {
        Mode::Enforce => recent.gained.backlogged,
        Mode::Observe | Mode::Shadow if parts.part(parts.waits()) >= WAITS_MIN => {
            recent.gained.active
        }
        Mode::Observe | Mode::Shadow => Span::ZERO,
    };
    let is_behind = |got: u64, floor: u64| {
        let due = floor as f64 * asks.as_secs_f64() * DUE_MIN;
        asks >= ASKS_MIN && floor > 0 && (got as f64) < due
    };
    if is_behind(recent.gained.requests, share.floor.rate_iops)
        || is_behind(recent.gained.bytes, share.floor.rate_bytes)
    {
        return Some(Due::Floor);
    }
    if is_late(recent, share.latency_goal, share.goal_bounds) {
        return Some(Due::Goal);
    }
    let is_below_share = window.delivered < DUE_MIN * window.entitled;
    (scene.is_by_weight && is_below_share).then_some(Due::Share)
}

fn is_late(recent: &Recent, goal: Span, bounds: Bounds) -> bool {
    if goal == Span::ZERO || recent.gained.answered < ANSWERS_MIN {
        return false;
    }
    match bounds {
        Bounds::Mean => recent.gained.answer_time.0 / recent.gained.answered > goal.0,
        Bounds::AllBut { late_milli } => {
            recent.gained.late_requests * 1000 > recent.gained.answered * u64::from(late_milli)
        }
    }
}

fn of_floor(scene: &Scene<'_>, tenant: TenantId, parts: &Parts) -> (Cause, Option<TenantId>) {
    if scene.mode != Mode::Enforce {
        let (cause, behind) = parts.most();
        return if cause == Cause::OwnQueue { (Cause::Device, None) } else { (cause, behind) };
    }
    // Floors go first, so that only other floors or the device itself can be in the way.
    let delivered = |one: &TenantId| scene.window(*one).delivered;
    let others = scene.others_of(tenant).filter(|one| scene.has_floor(*one));
    let most = others.max_by(|one, other| delivered(one).total_cmp(&delivered(other)));
    match most {
        Some(other) if delivered(&other) > 1.0 - ALL_MIN => (Cause::OthersFloors, Some(other)),
        _ => (Cause::Device, None),
    }
}

fn of_goal(scene: &Scene<'_>, tenant: TenantId, parts: &Parts) -> (Cause, Option<TenantId>) {
    if parts.service > parts.itself.max(parts.internal).max(parts.others) {
        return (Cause::Device, None);
    }
    if waits_in_too_great_a_depth(scene, tenant, parts) {
        return (Cause::Depth, None);
    }
    let (cause, behind) = parts.most();
    let is_by_deadline = scene.mode == Mode::Enforce && scene.has_discipline(Discipline::Edf);
    let has_goal = behind.is_some_and(|one| scene.has_goal(one));
    if cause == Cause::OthersShares && is_by_deadline && has_goal {
        return (Cause::OthersDeadlines, behind);
    }
    (cause, behind)
}

fn of_share(scene: &Scene<'_>, tenant: TenantId, parts: &Parts) -> (Cause, Option<TenantId>) {
    if scene.mode != Mode::Enforce {
        let is_waiting = parts.part(parts.waits()) >= WAITS_MIN;
        return if is_waiting { parts.most() } else { (Cause::AsksTooLittle, None) };
    }
    let window = scene.window(tenant);
    let is_held = window.backlogged >= BACKLOGGED_MIN;
    if is_held && window.delivered < DUE_MIN * window.attainable {
        return goes_first(scene, tenant, parts);
    }
    if waits_in_too_great_a_depth(scene, tenant, parts) {
        return (Cause::Depth, None);
    }
    (Cause::AsksTooLittle, None)
}

/// Who is served before a tenant that always has something queued, and by which promise.
fn goes_first(scene: &Scene<'_>, tenant: TenantId, parts: &Parts) -> (Cause, Option<TenantId>) {
    if scene.has_discipline(Discipline::Mclock)
        && let Some(other) = scene.first_of(tenant, |one| scene.has_floor(one))
    {
        return (Cause::OthersFloors, Some(other));
    }
    if scene.has_discipline(Discipline::Edf)
        && let Some(other) = scene.first_of(tenant, |one| scene.has_goal(one))
    {
        return (Cause::OthersDeadlines, Some(other));
    }
    // By weight whoever is below its share is next: only what is with the device is before it.
    if mean_in_flight(&scene.recent[tenant.index()]) < FEW {
        return (Cause::AsksTooLittle, None);
    }
    match parts.most() {
        (Cause::OwnQueue, _) => (Cause::OthersShares, parts.others_most),
        most => most,
    }
}

/// It has what it is due: what it would have to get to have more.
fn would_take_more(
    scene: &Scene<'_>,
    tenant: TenantId,
    parts: &Parts,
) -> (Option<Cause>, Option<TenantId>) {
    if parts.part(parts.stalls) >= STALLED_MIN {
        return (Some(Cause::Device), None);
    }
    if parts.part(parts.waits()) < WAITS_MIN {
        return (None, None);
    }
    let window = scene.window(tenant);
    if window.delivered >= ALL_MIN {
        return (Some(Cause::OwnQueue), None);
    }
    if waits_in_too_great_a_depth(scene, tenant, parts) {
        return (Some(Cause::Depth), None);
    }
    let (cause, behind) = parts.most();
    let is_backlogged = scene.mode == Mode::Enforce && window.backlogged >= BACKLOGGED_MIN;
    if cause == Cause::OwnQueue && is_backlogged && parts.others > 0.0 {
        return (Some(Cause::OthersShares), parts.others_most);
    }
    (Some(cause), behind)
}

/// Whether its requests mostly wait with the device, of which the policy lets more be there at once
/// than it serves.
fn waits_in_too_great_a_depth(scene: &Scene<'_>, tenant: TenantId, parts: &Parts) -> bool {
    let is_too_great = |(server, (_, scheduling)): (&ServerReport, &(String, Scheduling))| {
        let Depth::Requests(depth) = scheduling.depth else { return false };
        let is_too_great = |measured: &Measured| {
            u64::from(depth) >= DEPTH_FACTOR * u64::from(measured.at_once.max(1))
        };
        server.measured.as_ref().is_some_and(is_too_great)
    };
    let with_device = float(scene.recent[tenant.index()].gained.in_service) - parts.service;
    scene.mode == Mode::Enforce
        && parts.part(with_device) >= WAITS_MIN
        && scene.servers.iter().zip(scene.scheduling).any(is_too_great)
}

/// How many requests a tenant had in flight on average, while it had any.
pub(super) fn mean_in_flight(recent: &Recent) -> f64 {
    if recent.gained.active == Span::ZERO {
        0.0
    } else {
        float(recent.gained.in_flight) / float(recent.gained.active)
    }
}

fn float(span: Span) -> f64 {
    span.0 as f64
}
