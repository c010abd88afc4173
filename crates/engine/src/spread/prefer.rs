//! What an object prefers when it gets its place: the policies of [`evenkeel_core::place::policy`]
//! in the order of the policy file, fed with what this gate knows of its servers.
//!
//! ```text
//! prefer = ["space", "local"]      emptier by five hundredths of the room? else near? else emptier
//!            |        |            by one hundredth? else the first candidate
//!            rough    by the policy file
//! ```
//!
//! The last word has always the room, so that servers that are alike fill alike; where room is said
//! before something else it is only asked whether the difference is large.
//!
//! Nobody is probed. Room is in the volume's own tables. How quick a server is, its answers to
//! reads and writes tell, those of the lease among them, so that an idle server does not stay slow
//! for ever; what fails tells nothing. Memory and processors a server's host tells the driver now
//! and then; a host that does not counts as having nothing free.

use evenkeel_core::id::ServerId;
use evenkeel_core::place::cluster::{DomainId, Member};
use evenkeel_core::place::loads::Metrics;
use evenkeel_core::place::policy::Policy;
use evenkeel_core::place::policy::cpu::Cpu;
use evenkeel_core::place::policy::in_order::InOrder;
use evenkeel_core::place::policy::latency::Latency;
use evenkeel_core::place::policy::local::Local;
use evenkeel_core::place::policy::memory::Memory;
use evenkeel_core::place::policy::space::Space;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::serving::{Serving, as_id};
use crate::policy::{HostFigures, Preference, SpreadPlan};
use crate::units::UnitEntry;

/// How much less of a server must be in use for it to be preferred to an earlier candidate.
const MARGIN: f64 = 0.01;
/// The same where room is said before something else.
const ROUGH_MARGIN: f64 = 0.05;
/// How much more of its memory must be free.
const MEMORY_MARGIN: f64 = 0.1;
/// How much less of its processors must be busy.
const CPU_MARGIN: f64 = 0.2;
/// The part of the servers that count as having no queue, and how much quicker one must be.
const COLD_PART: f64 = 0.75;
const LATENCY_MARGIN: f64 = 0.1;
/// Each answer counts so much in the mean of a server's.
const WEIGHT: f64 = 1.0 / 16.0;

/// What is known of a server besides its room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauge {
    /// Mean time that the backend takes for a read or a write.
    latency_ns: f64,
    /// What its host said last, unless that is too old.
    pub(super) host: Option<HostFigures>,
}

impl Gauge {
    pub(super) fn latency(&self) -> Span {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a latency")]
        let ns = self.latency_ns as u64;
        Span(ns)
    }

    fn note(&mut self, latency: Span) {
        #[expect(clippy::cast_precision_loss, reason = "a latency")]
        let latency_ns = latency.0 as f64;
        self.latency_ns += (latency_ns - self.latency_ns) * WEIGHT;
    }

    /// What there is to report of a server besides its room.
    pub(super) fn metrics(&self) -> Metrics {
        let none = HostFigures { memory_bytes: 1, memory_free_bytes: 0, cpu_milli: 1000 };
        let HostFigures { memory_bytes, memory_free_bytes, cpu_milli } = self.host.unwrap_or(none);
        let latency = self.latency();
        Metrics { memory_bytes, memory_free_bytes, cpu_milli, latency, ..Metrics::default() }
    }
}

/// The policy of a volume.
pub(super) fn policy(plan: &SpreadPlan) -> Box<dyn Policy> {
    let one = |preference: &Preference| -> Box<dyn Policy> {
        match preference {
            Preference::Space => Box::new(Space::with_margin(ROUGH_MARGIN)),
            Preference::Local => Box::new(local(&plan.near)),
            Preference::Latency => Box::new(Latency::new(COLD_PART, LATENCY_MARGIN)),
            Preference::Memory => Box::new(Memory { margin: MEMORY_MARGIN }),
            Preference::Cpu => Box::new(Cpu { margin: CPU_MARGIN }),
        }
    };
    let mut all: Vec<_> = plan.prefer.iter().map(one).collect();
    all.push(Box::new(Space::with_margin(MARGIN)));
    Box::new(InOrder(all))
}

fn local(near: &[bool]) -> Local {
    let [here, elsewhere] = [DomainId(0), DomainId(1)];
    let member = |(index, is_near): (usize, &bool)| {
        let domain = if *is_near { here } else { elsewhere };
        Member { server: as_id(index), capacity_bytes: 1, domain }
    };
    Local::new(&near.iter().enumerate().map(member).collect::<Vec<_>>(), here)
}

impl Serving {
    /// A server's host has told of itself, or has not for long.
    pub(crate) fn host_told(&mut self, server: ServerId, host: Option<HostFigures>) {
        let index = self.index_of(server);
        self.gauges[index].host = host;
    }

    /// A look at a server has taken so long.
    pub(crate) fn looked(&mut self, server: ServerId, latency: Span) {
        let index = self.index_of(server);
        self.gauges[index].note(latency);
    }

    /// A unit has gone to its backend.
    pub(crate) fn dispatched(&mut self, unit: &UnitEntry) {
        if let Some(index) = self.measured(unit) {
            self.loads.started(as_id(index));
        }
    }

    /// The backend has answered.
    pub(crate) fn answered(&mut self, now: Nanos, unit: &UnitEntry, ok: bool) {
        if ok && matches!(unit.ticket.kind, Kind::Trim | Kind::WriteZeroes) {
            let index = self.index_of(unit.server);
            self.has_freed(now, index);
        }
        let Some(index) = self.measured(unit) else { return };
        self.loads.ended(as_id(index));
        if ok {
            self.gauges[index].note(now.since(unit.dispatched_at));
        }
    }

    /// The server of a unit that tells how quick it is.
    fn measured(&self, unit: &UnitEntry) -> Option<usize> {
        let is_told = matches!(unit.ticket.kind, Kind::Read | Kind::Write);
        is_told.then(|| self.index_of(unit.server))
    }

    /// Brings what choices go by up to now, for these servers.
    pub(super) fn refresh_loads(&mut self, now: Nanos, servers: &[usize]) {
        for &index in servers {
            self.report_load(index, now);
        }
        self.policy.refresh(&self.loads);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::id::TenantId;
    use evenkeel_core::place::loads::Loads;
    use evenkeel_core::place::policy::{Better, View};

    use super::*;

    /// Compares the first of two servers, of which so much is used, with the second.
    fn better(
        prefer: &[Preference],
        near: [bool; 2],
        used: [u64; 2],
        gauges: [Gauge; 2],
    ) -> Better {
        let plan = SpreadPlan {
            servers: vec![ServerId(0), ServerId(1)],
            near: near.into(),
            prefer: prefer.into(),
            ceiling_milli: 930,
            clerk: TenantId(0),
            patience: Span::from_secs(30),
        };
        let mut loads = Loads::new(2);
        for (index, (used_bytes, gauge)) in used.into_iter().zip(gauges).enumerate() {
            let room = Metrics { capacity_bytes: 1000, used_bytes, ..gauge.metrics() };
            loads.report(as_id(index), room);
        }
        let mut policy = policy(&plan);
        policy.refresh(&loads);
        let view = View { loads: &loads, size_bytes: 0 };
        policy.compare(&view, &[ServerId(0)], &[ServerId(1)])
    }

    #[test]
    fn what_is_said_first_decides_and_room_has_the_last_word() {
        use Preference::{Local, Space};
        let far_then_near = [false, true];
        let of = |prefer: &[Preference], near, used| better(prefer, near, used, Default::default());
        assert_eq!(of(&[Local], far_then_near, [0, 900]), Better::Other);
        assert_eq!(of(&[Space, Local], far_then_near, [0, 900]), Better::Kept, "far too full");
        assert_eq!(of(&[Space, Local], far_then_near, [0, 40]), Better::Other);
        assert_eq!(of(&[Local], [true; 2], [40, 0]), Better::Other, "both near: the emptier");
        assert_eq!(of(&[Space], far_then_near, [15, 0]), Better::Other, "near is not asked for");
        assert_eq!(of(&[Space], far_then_near, [5, 0]), Better::Even);
    }

    #[test]
    fn a_host_that_tells_nothing_counts_as_busy() {
        let host = HostFigures { memory_bytes: 100, memory_free_bytes: 30, cpu_milli: 500 };
        let told = Gauge { host: Some(host), ..Gauge::default() };
        for preference in [Preference::Memory, Preference::Cpu] {
            let outcome = better(&[preference], [false; 2], [0, 10], [Gauge::default(), told]);
            assert_eq!(outcome, Better::Other, "{preference:?}");
        }
    }

    #[test]
    fn slow_answers_speak_against_a_server() {
        let slow = Gauge { latency_ns: 2e6, host: None };
        let quick = Gauge { latency_ns: 1e6, host: None };
        let outcome = |gauges| better(&[Preference::Latency], [false; 2], [0, 10], gauges);
        assert_eq!(outcome([slow, quick]), Better::Other);
        assert_eq!(outcome([quick, slow]), Better::Kept);
    }
}
