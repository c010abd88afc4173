//! The end of a run: the last checks, and the summary.

use evenkeel_core::id::TenantId;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::report::DomainReport;

use super::World;
use crate::checkers::{Rule, Verdict, Violation, broken};
use crate::result::{
    BackendSummary, FairnessLag, GroupSummary, Latency, Summary, TenantSummary, Traffic,
};

impl World<'_> {
    /// Closes a run whose requests have their answers.
    pub(super) fn close(mut self) -> Result<Summary, Box<Violation>> {
        // A run whose last event came early still has all of its intervals.
        let end = self.now.max(self.measured.end);
        self.turn(end)?;
        if !self.flights.is_empty() {
            let what = "nothing is left to happen, and requests have no answer".to_owned();
            return Err(broken(self.now, Rule::NothingIsLostOrDoubled, what));
        }
        let ended = self.stall.last_answer();
        let domains = self.reports()?;
        let fairness = self.fairness();
        let backends = self.backends(&domains);
        let steady = self.steady();
        let (log_hash, events) = (self.hash.value(), self.hash.events());
        let measured = self.measured.end.since(self.measured.start);
        let interval = self.book.interval();
        let (groups, tenants) = self.book.close(end);
        let names = self.groups.iter().map(|group| group.name.clone());
        let names: Vec<String> =
            names.chain(self.replays.iter().map(|replay| replay.name.clone())).collect();
        let rows = names.into_iter().zip(groups).zip(steady);
        let groups = rows.map(|((name, traffic), steady_bytes_per_second)| GroupSummary {
            name,
            traffic,
            steady_bytes_per_second,
        });
        let groups: Vec<GroupSummary> = groups.collect();
        Ok(Summary {
            drain: groups.iter().map(|group| group.traffic.drain).max().unwrap_or_default(),
            groups,
            tenants: tenant_summaries(tenants, self.tenants, &self.gate.domains[0].policy.tenants),
            backends,
            domains,
            measured,
            interval,
            ended: ended.since(Nanos::ZERO),
            log_hash,
            events,
            requests_in_all: self.requests_in_all,
            fairness,
        })
    }

    /// The engines' accounts, held against what the world knows to be with them.
    fn reports(&mut self) -> Result<Vec<DomainReport>, Box<Violation>> {
        let mut at_gate = vec![0u64; self.gate.domains.len()];
        for request in self.requests.entries().iter().filter(|one| one.custody.is_at_gate()) {
            at_gate[request.domain as usize] += 1;
        }
        let now = self.now;
        let is_up = self.gate.is_up();
        let reports = self.gate.domains.iter_mut().zip(at_gate).map(|(domain, known)| {
            let report = domain.engine.report(now);
            let counted: u64 = report.tenants.iter().map(|tenant| tenant.in_flight).sum();
            check_in_flight(now, counted, known, is_up)?;
            Ok(report)
        });
        reports.collect()
    }

    /// The pair of tenants that came closest to what its server allows.
    fn fairness(&self) -> Option<FairnessLag> {
        let lags = self.servers.iter().filter_map(|server| Some((server, server.worst_lag()?)));
        let (server, worst) = lags.max_by(|one, other| one.1.part().total_cmp(&other.1.part()))?;
        let names = &self.gate.domains[server.domain as usize].policy.tenants;
        let name = |tenant: TenantId| names[tenant.index()].0.clone();
        Some(FairnessLag {
            backend: server.name.clone(),
            tenants: worst.tenants.map(name),
            lag: worst.apart,
            bound: worst.bound,
        })
    }

    fn backends(&mut self, domains: &[DomainReport]) -> Vec<BackendSummary> {
        let (now, measured) = (self.now, self.measured.clone());
        let length_ns = measured.end.since(measured.start).0 as f64;
        let summary = |server: &mut super::Server| {
            server.tally.advance(now, &measured);
            let (lies, lied_bytes) = server.lies();
            let report = &domains[server.domain as usize].servers[server.id.index()];
            BackendSummary {
                name: server.name.clone(),
                units: server.tally.units,
                bytes: server.tally.bytes,
                failed_units: server.tally.failed_units,
                lies,
                lied_bytes,
                busy: server.tally.busy_ns as f64 / length_ns,
                in_service_mean: server.tally.unit_ns as f64 / length_ns,
                in_service_max: server.tally.in_service_max,
                depth_at_end: report.depth,
                series: std::mem::take(&mut server.tally.series),
            }
        };
        self.servers.iter_mut().map(summary).collect()
    }

    /// Bytes per second of each group, by its clients' own first and last answers.
    fn steady(&self) -> Vec<f64> {
        let mut rates = vec![0.0; self.groups.len() + self.replays.len()];
        for client in &self.clients {
            rates[client.group as usize] += client.steady.bytes_per_second();
        }
        for (replay, rate) in self.replays.iter().zip(&mut rates[self.groups.len()..]) {
            *rate = replay.steady.bytes_per_second();
        }
        rates
    }
}

/// A gate that is down keeps no accounts of what it lost.
fn check_in_flight(now: Nanos, counted: u64, known: u64, is_up: bool) -> Verdict {
    if is_up && counted != known {
        let what = format!("the engine counts {counted} requests in flight, and holds {known}");
        return Err(broken(now, Rule::RequestsAreConserved, what));
    }
    Ok(())
}

/// The tenants that sent anything.
fn tenant_summaries(
    traffic: Vec<Traffic>,
    times: Vec<super::TenantTimes>,
    names: &[(String, evenkeel_core::sched::Share)],
) -> Vec<TenantSummary> {
    let bytes: u64 = traffic.iter().map(|one| one.delivered_bytes).sum();
    let cost: u64 = times.iter().map(|one| one.delivered_cost).sum();
    let part = |one: u64, all: u64| if all == 0 { 0.0 } else { one as f64 / all as f64 };
    let rows = names.iter().zip(traffic).zip(times);
    let all = rows.map(|(((name, share), traffic), times)| TenantSummary {
        name: name.clone(),
        weight_milli: share.weight_milli,
        share_bytes: part(traffic.delivered_bytes, bytes),
        share_cost: part(times.delivered_cost, cost),
        delivered_cost: Span(times.delivered_cost),
        queue_time: Latency::of(times.queue_time),
        device_time: Latency::of(times.device_time),
        traffic,
    });
    all.filter(TenantSummary::sent_anything).collect()
}
