//! A gate's accounts for tests: two tenants on one backend, one of them suffering.

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_engine::report::{
    Culprit, DomainReport, HangingReport, Interference, KindReport, ServerReport, ShareWindow,
    SlowReport, TenantReport,
};
use evenkeel_io::gate::{BackendReport, ExportReport, GateReport, MemoryReport, TenantMemory};
use evenkeel_io::record::RecordingReport;

/// The policy that [`sample_report`] belongs to.
pub(crate) fn sample_policy() -> Policy {
    let text = include_str!("../testdata/policy.toml");
    crate::config::parse(text, "policy.toml").expect("it is valid")
}

fn sample_slow() -> SlowReport {
    SlowReport {
        tenant: TenantId(2),
        disk: 2,
        disk_name: "attic".to_owned(),
        latency: Span::from_millis(500),
        quickest: Span::from_millis(2),
    }
}

fn sample_hanging() -> HangingReport {
    HangingReport {
        tenant: TenantId(2),
        disk: 7,
        disk_name: "scratch".to_owned(),
        requests: 16,
        oldest: Span::from_secs(12),
    }
}

/// Accounts after a minute: `alice` with 4 KiB reads behind `bob` with 256 KiB writes.
pub(crate) fn sample_report() -> GateReport {
    later_report(1)
}

/// The same `steps` minutes into the run.
pub(crate) fn later_report(steps: u64) -> GateReport {
    let alice = tenant("alice", 3000, Kind::Read, 60_000 * steps, 4 << 10, 1_200);
    let bob = tenant("bob", 1000, Kind::Write, 6_000 * steps, 256 << 10, 9_000);
    let window = |delivered, entitled, attainable, backlogged| ShareWindow {
        delivered,
        entitled,
        attainable,
        backlogged,
    };
    let tenants = vec![
        TenantReport { name: "default".to_owned(), weight_milli: 1000, ..TenantReport::default() },
        TenantReport {
            waited: Span::from_millis(43_000 * steps),
            window: window(0.72, 0.75, 0.74, 0.98),
            ..alice
        },
        TenantReport {
            waited: Span::from_millis(31_000 * steps),
            throttled: Span::from_millis(1_500 * steps),
            waited_for_slots: Span::from_millis(700 * steps),
            window: window(0.28, 0.25, 0.25, 1.0),
            ..bob
        },
    ];
    let pair = |victim, culprit, ms| Interference {
        victim: TenantId(victim),
        culprit: Culprit::Tenant(TenantId(culprit)),
        waited: Span::from_millis(ms * steps),
    };
    let domain = DomainReport {
        at: Nanos(60_000_000_000 * steps),
        tenants,
        servers: vec![ServerReport {
            name: "disk".to_owned(),
            in_service: 32,
            queued: 48,
            depth: 32,
            delivered_cost: Span::from_secs(52 * steps),
            served_units: 4000 * steps,
            service_time: Span::from_secs(56 * steps),
            busy: Span::from_secs(58 * steps),
            hanging: vec![sample_hanging()],
            slow: vec![sample_slow()],
            ..ServerReport::default()
        }],
        interference: vec![pair(1, 2, 42_000), pair(2, 1, 31_000)],
        interference_other: Span::from_millis(10 * steps),
        ..DomainReport::default()
    };
    GateReport {
        uptime: Span::from_secs(60 * steps),
        mode: Mode::Enforce,
        domains: vec![domain],
        backends: vec![BackendReport {
            name: "disk".to_owned(),
            source: "directory ./evenkeel-data/disks".to_owned(),
            up: true,
            ..BackendReport::default()
        }],
        exports: vec![export("alice", 4), export("bob", 2)],
        connections: 6,
        memory: sample_memory(steps),
        recording: Some(sample_recording()),
        ..GateReport::default()
    }
}

fn sample_recording() -> RecordingReport {
    RecordingReport {
        name: "gate.ektrace.zst".to_owned(),
        requests: 1200,
        dropped: 3,
        late: 1,
        bytes: 9600,
        trouble: None,
    }
}

fn sample_memory(steps: u64) -> MemoryReport {
    let alice = TenantMemory {
        tenant: "alice".to_owned(),
        held_bytes: 4 << 20,
        own_bytes: 37 << 20,
        waiting: 2,
        waited: Span::from_millis(1500 * steps),
        behind: vec![("bob".to_owned(), Span::from_millis(1200 * steps))],
    };
    let bob = TenantMemory {
        tenant: "bob".to_owned(),
        held_bytes: 8 << 20,
        own_bytes: 37 << 20,
        ..TenantMemory::default()
    };
    MemoryReport {
        held_bytes: 12 << 20,
        bound_bytes: 256 << 20,
        cut_connections: 1,
        tenants: vec![alice, bob],
    }
}

fn tenant(
    name: &str,
    weight_milli: u32,
    kind: Kind,
    requests: u64,
    bytes: u64,
    device_us: u64,
) -> TenantReport {
    let mut report = TenantReport {
        name: name.to_owned(),
        weight_milli,
        in_flight: 24,
        ..TenantReport::default()
    };
    report.by_kind[kind.index()] = KindReport {
        offered_requests: requests + 24,
        offered_bytes: (requests + 24) * bytes,
        delivered_requests: requests,
        delivered_bytes: requests * bytes,
        failed_requests: 0,
        abandoned_requests: 0,
    };
    for step in 0..requests {
        // A spread of times from half to one and a half of the middle.
        let part = 500 + step % 1000;
        let device = Span(device_us * part);
        let queue = Span(device_us * part * 3);
        report.device_time.record(device);
        report.queue_time.record(queue);
        report.total_time.record(Span(device.0 + queue.0));
    }
    report.backlogged = Span::from_millis(requests / 2);
    report.delivered_cost = Span::from_micros(requests * device_us / 8);
    report.service_time = Span::from_micros(requests * device_us / 8);
    report
}

fn export(name: &str, connections: u64) -> ExportReport {
    ExportReport {
        name: name.to_owned(),
        backend: "disk".to_owned(),
        size_bytes: 1 << 30,
        read_only: false,
        connections: vec![(name.to_owned(), connections)],
    }
}
