//! A report of the gate, family by family.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_engine::explain::Standing;
use evenkeel_engine::policy::{Mode, Policy, Tenant};
use evenkeel_engine::report::{DomainReport, KindReport, ServerReport, TenantReport};
use evenkeel_io::gate::{BackendReport, GateReport};

use super::process::Usage;
use super::table::{self as metric, Metric};
use super::text::{Document, Family};
use super::{exchange, pools, spread, stores};
use crate::config::mode_name;
use crate::status::{culprit_name, domain_name, finding, tenant_name};
use crate::version;

/// The whole document of `GET /metrics`. The policy tells the names of groups.
pub fn render(report: &GateReport, policy: &Policy, usage: Option<Usage>) -> String {
    let mut page = Page { report, policy, document: Document::default() };
    page.gate();
    page.tenant_operations();
    page.tenant_times();
    page.tenant_shares();
    page.promises();
    page.interference();
    page.servers();
    page.backends();
    spread::render(&mut page.document, &report.domains, policy);
    stores::render(&mut page.document, &report.backends);
    pools::render(&mut page.document, &report.backends);
    page.exports();
    exchange::render(&mut page.document, report.exchange.as_ref());
    if let Some(usage) = usage {
        page.document.family(&metric::CPU).sample(&[], usage.cpu_seconds);
        page.document.family(&metric::RESIDENT).count(&[], usage.resident_bytes);
    }
    page.document.finish()
}

/// A metric, and where its value is in an account.
type Reading<A, T> = (&'static Metric, fn(&A) -> T);

struct Page<'a> {
    report: &'a GateReport,
    policy: &'a Policy,
    document: Document,
}

impl Page<'_> {
    fn gate(&mut self) {
        let report = self.report;
        let labels = [version::VERSION, version::COMMIT];
        self.document.family(&metric::BUILD_INFO).count(&labels, 1);
        self.document.family(&metric::UPTIME).sample(&[], report.uptime.as_secs_f64());
        let mut modes = self.document.family(&metric::MODE);
        for mode in [Mode::Observe, Mode::Shadow, Mode::Enforce] {
            modes.count(&[mode_name(mode)], u64::from(mode == report.mode));
        }
        let numbers = [
            (&metric::CONNECTIONS, report.connections),
            (&metric::CONNECTIONS_REFUSED, report.connections_refused),
            (&metric::REFUSED_OPENS, report.refused_opens),
            (&metric::PROTOCOL_ERRORS, report.protocol_errors),
            (&metric::MEMORY, report.memory.held_bytes),
            (&metric::MEMORY_BOUND, report.memory.bound_bytes),
            (&metric::MEMORY_CUT, report.memory.cut_connections),
        ];
        for (metric, value) in numbers {
            self.document.family(metric).count(&[], value);
        }
        let tenants = &report.memory.tenants;
        let mut held = self.document.family(&metric::MEMORY_HELD);
        for one in tenants {
            held.count(&[&one.tenant], one.held_bytes);
        }
        let mut waited = self.document.family(&metric::MEMORY_WAITED);
        for one in tenants {
            waited.sample(&[&one.tenant], one.waited.as_secs_f64());
        }
        if let Some(recording) = &report.recording {
            let mut recorded = self.document.family(&metric::RECORDED);
            recorded.count(&["written"], recording.requests);
            recorded.count(&["dropped"], recording.dropped);
            self.document.family(&metric::RECORDED_BYTES).count(&[], recording.bytes);
        }
    }

    fn tenant_operations(&mut self) {
        self.by_operation(&metric::OFFERED_REQUESTS, |family, labels, counts| {
            family.count(labels, counts.offered_requests);
        });
        self.by_operation(&metric::OFFERED_BYTES, |family, labels, counts| {
            family.count(labels, counts.offered_bytes);
        });
        self.by_operation(&metric::REQUESTS, |family, labels, counts| {
            let [domain, tenant, op] = *labels;
            family.count(&[domain, tenant, op, "ok"], counts.delivered_requests);
            family.count(&[domain, tenant, op, "error"], counts.failed_requests);
            family.count(&[domain, tenant, op, "abandoned"], counts.abandoned_requests);
        });
        self.by_operation(&metric::BYTES, |family, labels, counts| {
            family.count(labels, counts.delivered_bytes);
        });
    }

    fn by_operation(
        &mut self,
        metric: &'static Metric,
        write: impl Fn(&mut Family<'_>, &[&str; 3], &KindReport),
    ) {
        self.by_tenant(metric, |family, &[domain, tenant], report| {
            for kind in Kind::ALL {
                let counts = &report.by_kind[kind.index()];
                write(family, &[domain, tenant, kind.name()], counts);
            }
        });
    }

    fn by_tenant(
        &mut self,
        metric: &'static Metric,
        write: impl Fn(&mut Family<'_>, &[&str; 2], &TenantReport),
    ) {
        let mut family = self.document.family(metric);
        for domain in &self.report.domains {
            let name = domain_name(domain, self.policy);
            for tenant in &domain.tenants {
                write(&mut family, &[name, &tenant.name], tenant);
            }
        }
    }

    fn tenant_times(&mut self) {
        self.by_tenant(&metric::IN_FLIGHT, |family, labels, tenant| {
            family.count(labels, tenant.in_flight);
        });
        self.by_tenant(&metric::QUEUE, |family, labels, tenant| {
            family.histogram(labels, &tenant.queue_time);
        });
        self.by_tenant(&metric::DEVICE, |family, labels, tenant| {
            family.histogram(labels, &tenant.device_time);
        });
        self.by_tenant(&metric::REQUEST, |family, labels, tenant| {
            family.histogram(labels, &tenant.total_time);
        });
        let spans: [Reading<TenantReport, Span>; 6] = [
            (&metric::WAITED, |tenant| tenant.waited),
            (&metric::WAITED_FOR_SLOTS, |tenant| tenant.waited_for_slots),
            (&metric::THROTTLED, |tenant| tenant.throttled),
            (&metric::SHADOW_HELD, |tenant| tenant.shadow_held),
            (&metric::BACKLOGGED, |tenant| tenant.backlogged),
            (&metric::SERVICE, |tenant| tenant.service_time),
        ];
        for (metric, span) in spans {
            self.by_tenant(metric, |family, labels, tenant| {
                family.sample(labels, span(tenant).as_secs_f64());
            });
        }
        self.by_tenant(&metric::SHADOW_HELD_UNITS, |family, labels, tenant| {
            family.count(labels, tenant.shadow_held_units);
        });
    }

    fn tenant_shares(&mut self) {
        self.by_tenant(&metric::WEIGHT, |family, labels, tenant| {
            family.sample(labels, f64::from(tenant.weight_milli) / 1000.0);
        });
        self.by_tenant(&metric::SHARE, |family, &[domain, name], tenant| {
            let window = tenant.window;
            family.sample(&[domain, name, "delivered"], window.delivered);
            family.sample(&[domain, name, "entitled"], window.entitled);
            family.sample(&[domain, name, "attainable"], window.attainable);
        });
        self.below_due();
    }

    fn below_due(&mut self) {
        let mut family = self.document.family(&metric::BELOW_DUE);
        for domain in &self.report.domains {
            for tenant in &domain.tenants {
                let finding = finding::of(self.report, domain, tenant);
                if let (Standing::BelowItsDue, Some(cause)) = (finding.standing, finding.cause) {
                    let name = domain_name(domain, self.policy);
                    family.sample(&[name, &tenant.name, cause.key()], 1.0);
                }
            }
        }
    }

    /// What the policy says, as it says it: of tenants and backends, whatever the domain.
    fn promises(&mut self) {
        let numbers: [Reading<Tenant, f64>; 3] = [
            (&metric::FLOOR_REQUESTS, |tenant| tenant.share.floor.rate_iops as f64),
            (&metric::FLOOR_BYTES, |tenant| tenant.share.floor.rate_bytes as f64),
            (&metric::LATENCY_GOAL, |tenant| tenant.share.latency_goal.as_secs_f64()),
        ];
        for (metric, number) in numbers {
            let mut family = self.document.family(metric);
            for tenant in self.policy.tenants.iter().filter(|tenant| number(tenant) > 0.0) {
                family.sample(&[&tenant.name], number(tenant));
            }
        }
        let mut disciplines = self.document.family(&metric::DISCIPLINE);
        for backend in &self.policy.backends {
            disciplines.count(&[&backend.name, backend.scheduling.discipline.name()], 1);
        }
    }

    fn interference(&mut self) {
        let mut pairs = self.document.family(&metric::INTERFERENCE);
        for domain in &self.report.domains {
            let name = domain_name(domain, self.policy);
            for pair in &domain.interference {
                let victim = tenant_name(domain, pair.victim.index());
                let culprit = culprit_name(domain, pair.culprit);
                pairs.sample(&[name, victim, culprit], pair.waited.as_secs_f64());
            }
        }
        let mut others = self.document.family(&metric::INTERFERENCE_OTHER);
        for domain in &self.report.domains {
            let name = domain_name(domain, self.policy);
            others.sample(&[name], domain.interference_other.as_secs_f64());
        }
    }

    fn servers(&mut self) {
        let numbers: [Reading<ServerReport, f64>; 5] = [
            (&metric::SERVER_IN_SERVICE, |server| server.in_service as f64),
            (&metric::SERVER_QUEUED, |server| server.queued as f64),
            (&metric::SERVER_DEPTH, |server| server.depth as f64),
            (&metric::SERVER_SERVICE, |server| server.service_time.as_secs_f64()),
            (&metric::SERVER_BUSY, |server| server.busy.as_secs_f64()),
        ];
        for (metric, number) in numbers {
            let mut family = self.document.family(metric);
            for domain in &self.report.domains {
                let name = domain_name(domain, self.policy);
                for server in &domain.servers {
                    family.sample(&[name, &server.name], number(server));
                }
            }
        }
        self.hanging_and_slow_exports();
    }

    fn hanging_and_slow_exports(&mut self) {
        let mut hanging = self.document.family(&metric::HANGING);
        for (domain, server) in servers(self.report) {
            for one in &server.hanging {
                let tenant = &domain.tenants[one.tenant.index()].name;
                let name = domain_name(domain, self.policy);
                hanging.count(&[name, &server.name, tenant, &one.disk_name], one.requests);
            }
        }
        let mut slow = self.document.family(&metric::SLOW);
        for (domain, server) in servers(self.report) {
            for one in &server.slow {
                let tenant = &domain.tenants[one.tenant.index()].name;
                let labels =
                    [domain_name(domain, self.policy), &server.name, tenant, &one.disk_name];
                slow.sample(&labels, one.latency.as_secs_f64());
            }
        }
    }

    fn backends(&mut self) {
        let numbers: [Reading<BackendReport, u64>; 6] = [
            (&metric::BACKEND_UP, |backend| u64::from(backend.up)),
            (&metric::RECONNECTS, |backend| backend.reconnects),
            (&metric::REPLAYED, |backend| backend.replayed),
            (&metric::NOT_REPLAYED, |backend| backend.not_replayed),
            (&metric::TIMED_OUT, |backend| backend.timed_out),
            (&metric::RESIZES, |backend| backend.resizes),
        ];
        for (metric, number) in numbers {
            let mut family = self.document.family(metric);
            for backend in &self.report.backends {
                family.count(&[&backend.name], number(backend));
            }
        }
    }

    fn exports(&mut self) {
        let mut sizes = self.document.family(&metric::EXPORT_SIZE);
        for export in &self.report.exports {
            sizes.count(&[&export.name], export.size_bytes);
        }
        let mut connections = self.document.family(&metric::EXPORT_CONNECTIONS);
        for export in &self.report.exports {
            for (tenant, count) in &export.connections {
                connections.count(&[&export.name, tenant], *count);
            }
        }
    }
}

/// Each server of a report with its domain.
fn servers(report: &GateReport) -> impl Iterator<Item = (&DomainReport, &ServerReport)> {
    let domains = report.domains.iter();
    domains.flat_map(|domain| domain.servers.iter().map(move |server| (domain, server)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use evenkeel_io::exchange::{DeviceReport, ExchangeReport, PeerReport};
    use evenkeel_io::gate::{OsdReport, OsdStanding, PoolReport};

    use super::*;
    use crate::testing::{sample_policy, sample_report};

    fn sample_pool() -> PoolReport {
        let osd = OsdReport {
            osd: 3,
            capacity_bytes: 1024,
            used_bytes: 768,
            standing: OsdStanding::Down,
        };
        PoolReport { fullest: Some(0.75), osds: vec![osd], ..PoolReport::default() }
    }

    fn sample() -> String {
        let usage = Usage { cpu_seconds: 1.25, resident_bytes: 12 << 20 };
        let mut report = sample_report();
        report.backends[0].pool = Some(sample_pool());
        report.exchange = Some(ExchangeReport {
            peers: vec![PeerReport { name: "east".to_owned(), ..PeerReport::default() }],
            devices: vec![DeviceReport { slots: 5, ..DeviceReport::default() }],
            ..ExchangeReport::default()
        });
        render(&report, &sample_policy(), Some(usage))
    }

    #[test]
    fn every_metric_of_the_table_is_written_once_and_in_its_order() {
        let text = sample();
        let written: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|line| line.split(' ').next())
            .collect();
        let mut expected: Vec<_> = metric::TABLE.iter().map(|metric| metric.name).collect();
        let mut sorted = written.clone();
        sorted.sort_unstable();
        expected.sort_unstable();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn promises_are_shown_of_whom_they_are_made_to() {
        let mut policy = sample_policy();
        policy.tenants[0].share.floor.rate_iops = 500;
        policy.tenants[1].share.latency_goal = Span::from_millis(10);
        let text = render(&sample_report(), &policy, None);
        let promises = [
            "evenkeel_floor_requests_per_second{tenant=\"alice\"} 500",
            "evenkeel_latency_goal_seconds{tenant=\"bob\"} 0.01",
            "evenkeel_backend_discipline{backend=\"disk\",discipline=\"sfq\"} 1",
        ];
        for line in promises {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("evenkeel_latency_goal_seconds{tenant=\"alice\"}"), "{text}");
    }

    #[test]
    fn no_series_is_written_twice_and_every_line_is_well_formed() {
        let text = sample();
        let mut series = BTreeSet::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.insert(name), "{line}");
            let labels = name.split_once('{').map(|(_, labels)| labels);
            assert!(labels.is_none_or(|labels| labels.ends_with("\"}")), "{line}");
        }
        assert!(text.ends_with('\n') && series.len() > 100);
    }

    #[test]
    fn the_sample_s_accounts_are_found_under_their_labels() {
        let text = sample();
        let alice = "domain=\"disk\",tenant=\"alice\"";
        let requests =
            format!("evenkeel_requests_total{{{alice},op=\"read\",result=\"ok\"}} 60000");
        let pair = "domain=\"disk\",victim=\"alice\",culprit=\"bob\"";
        let waits = format!("evenkeel_interference_seconds_total{{{pair}}} 42");
        for line in [
            &requests,
            &waits,
            "evenkeel_mode{mode=\"enforce\"} 1",
            "evenkeel_share_ratio{domain=\"disk\",tenant=\"bob\",kind=\"entitled\"} 0.25",
            "evenkeel_queue_seconds_count{domain=\"disk\",tenant=\"bob\"} 6000",
            "evenkeel_backend_up{backend=\"disk\"} 1",
            "evenkeel_ceph_fullest_ratio{backend=\"disk\"} 0.75",
            "evenkeel_ceph_osd_used_bytes{backend=\"disk\",osd=\"3\"} 768",
            "evenkeel_ceph_osd_up{backend=\"disk\",osd=\"3\"} 0",
            "process_cpu_seconds_total 1.25",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
