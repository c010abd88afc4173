//! The status of a gate as tables for people.

mod exchange;
mod memory;
mod pools;
mod stores;

use std::fmt::Write as _;

use evenkeel_core::time::Span;
use evenkeel_engine::report::DEVICE_NAME;

use super::seconds;
use crate::status::{Allocation, Promise, Status};
use crate::{human, terminal, units};

/// The document.
pub(super) fn of(status: &Status) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people")]
    let uptime = Span::from_secs(status.uptime_seconds as u64);
    let mut text = format!(
        "evenkeel {}, mode {}, up {}, {} connections, {} of {} held\n",
        status.version,
        status.mode,
        human::duration(uptime),
        status.connections.open,
        human::size(status.memory.bytes as f64),
        human::size(status.memory.bound_bytes as f64),
    );
    if let Some(left) = status.trial_left_seconds {
        text += &format!(
            "the policy in force is on trial for another {left:.0} s: `evenkeel ctl confirm` keeps \
             it\n"
        );
    }
    for domain in &status.domains {
        text += &format!("\n{}, queued by {}\n", domain.name, disciplines(&domain.servers));
        text += &tenant_table(&domain.tenants);
        text += &promise_table(&domain.tenants);
        if let Some(volume) = &domain.volume {
            text += &format!("\n{}", volume_table(volume));
        }
        if let Some(volume) = &domain.spread {
            text += &format!("\n{}", spread_table(volume));
        }
        if let Some(allocation) = &domain.allocation {
            text += &format!("\n{}", allocation_table(allocation));
        }
        if !domain.interference.is_empty() {
            text.push('\n');
        }
        for pair in domain.interference.iter().take(5) {
            let waited = human::duration(seconds(pair.waited_seconds));
            let whom = match pair.culprit.as_str() {
                DEVICE_NAME => "for the device itself".to_owned(),
                culprit => format!("behind {culprit}"),
            };
            text += &format!("{} waited {waited} {whom}\n", pair.victim);
        }
        text += &waits_for_slots(&domain.tenants);
    }
    text += &memory::lines(&status.memory);
    text.push('\n');
    text += &backend_table(status);
    text += &hanging(status);
    text += &slow(status);
    text += &resized(&status.backends);
    text += &stores::table(&status.backends);
    text += &pools::tables(&status.backends);
    if let Some(exchange) = &status.exchange {
        text += &exchange::tables(exchange);
    }
    text
}

fn tenant_table(tenants: &[crate::status::Tenant]) -> String {
    let header = [
        "TENANT",
        "SHARE",
        "REQUESTS",
        "DELIVERED",
        "ENTITLED",
        "GOT",
        "ATTAINABLE",
        "QUEUE P50",
        "P99",
        "DEVICE P50",
        "P99",
        "THROTTLED",
        "ERRORS",
    ];
    let rows: Vec<_> = tenants
        .iter()
        .map(|tenant| {
            let window = tenant.window;
            let (queue, device) = (&tenant.queue_time, &tenant.device_time);
            vec![
                tenant.name.clone(),
                tenant.share.to_string(),
                human::count(tenant.delivered.requests as f64),
                human::size(tenant.delivered.bytes as f64),
                human::percent(window.entitled),
                human::percent(window.delivered),
                human::percent(window.attainable),
                time(queue.p50_seconds),
                time(queue.p99_seconds),
                time(device.p50_seconds),
                time(device.p99_seconds),
                time(Some(tenant.throttled_seconds)),
                tenant.failed_requests.to_string(),
            ]
        })
        .collect();
    terminal::table(&header, &rows)
}

fn volume_table(volume: &crate::status::Volume) -> String {
    let all: u64 = volume.tiers.iter().flat_map(|tier| tier.units.values()).sum();
    let rows = volume.tiers.iter().map(|tier| {
        let units: u64 = tier.units.values().sum();
        vec![
            tier.backend.clone(),
            tier.slots.to_string(),
            tier.used_slots.to_string(),
            human::percent(if all == 0 { 0.0 } else { units as f64 / all as f64 }),
        ]
    });
    let table =
        terminal::table(&["TIER", "EXTENTS", "USED", "REQUESTS"], &rows.collect::<Vec<_>>());
    let moves = &volume.moves;
    let copied = human::size(moves.copied_bytes as f64);
    let stopped = moves.stopped.as_ref().map(|why| format!("moving has stopped: {why}\n"));
    format!(
        "{table}{} moves, {copied} copied, {} given up, {} failed\n{}",
        moves.done,
        moves.given_up,
        moves.failed,
        stopped.unwrap_or_default()
    )
}

fn spread_table(volume: &crate::status::Spread) -> String {
    let part = |slots: u32, of: u32| human::percent(f64::from(slots) / f64::from(of.max(1)));
    let rows = volume.servers.iter().map(|server| {
        vec![
            server.backend.clone(),
            server.slots.to_string(),
            server.used_slots.to_string(),
            part(server.used_slots, server.slots),
            part(server.ceiling_slots, server.slots),
            server.standing.clone(),
        ]
    });
    let header = ["SERVER", "ROOM", "OBJECTS", "FULL", "CEILING", "STANDING"];
    let table = terminal::table(&header, &rows.collect::<Vec<_>>());
    let warnings: Vec<_> =
        volume.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    let warnings = volume.change.as_ref().map_or_else(String::new, change) + &warnings.concat();
    format!(
        "{table}{} of {} objects placed, {} not on their first candidate, {} freed, {} lost, {} \
         writes found no room\n{}{warnings}",
        volume.placed_objects,
        volume.objects,
        volume.diverted_objects,
        volume.freed_objects,
        volume.lost_objects,
        volume.full_writes,
        preferences(volume)
    )
}

/// What objects prefer, and the figures that decide, where it is not room alone.
fn preferences(volume: &crate::status::Spread) -> String {
    if volume.prefer.iter().all(|one| one == "space") {
        return String::new();
    }
    let part = |part: Option<f64>| part.map_or_else(|| "-".to_owned(), human::percent);
    let rows = volume.servers.iter().map(|server| {
        vec![
            server.backend.clone(),
            if server.is_near { "yes" } else { "no" }.to_owned(),
            human::duration(seconds(server.latency_seconds)),
            part(server.memory_free_part),
            part(server.cpu_busy_part),
        ]
    });
    let header = ["SERVER", "NEAR", "LATENCY", "MEMORY FREE", "CPU BUSY"];
    let table = terminal::table(&header, &rows.collect::<Vec<_>>());
    format!("objects prefer {}\n\n{table}", volume.prefer.join(", "))
}

/// How objects pass to other servers, and how much is left.
fn change(change: &crate::status::SpreadChange) -> String {
    if change.is_over {
        return format!("change of servers: done, {} objects moved\n", change.moved_objects);
    }
    let left = change.left_seconds.map(Span::from_secs);
    let left = left.map(|span| format!(", {} to go", human::duration(span)));
    let stuck = change.stuck.as_ref().map(|why| format!("nothing moves: {why}\n"));
    format!(
        "change of servers: {} objects left, {} of them have to move, {} moved{}\n{}",
        change.objects_left,
        change.to_move_objects,
        change.moved_objects,
        left.unwrap_or_default(),
        stuck.unwrap_or_default()
    )
}

/// Who gets how much of the tiers, and why.
fn allocation_table(allocation: &Allocation) -> String {
    let rate = |iops: f64| format!("{} /s", human::count(iops));
    let rows = allocation.tenants.iter().map(|given| {
        vec![
            given.tenant.clone(),
            given.bound_by.clone(),
            rate(given.fair_share_iops),
            rate(given.given_iops),
            rate(given.drf_iops),
            given.held_by.clone(),
        ]
    });
    let header = ["TENANT", "<BOUND BY", "FAIR SHARE", "GIVEN", "BY DRF", "<HELD BY"];
    let mut text = terminal::table(&header, &rows.collect::<Vec<_>>());
    for tier in &allocation.tiers {
        let [used, drf] = [tier.utilisation, tier.drf_utilisation].map(human::percent);
        text += &format!("{}: {used} used, {drf} by DRF\n", tier.backend);
    }
    let binding = allocation.binding.iter().map(|row| format!("{row}\n"));
    text += &binding.collect::<String>();
    if allocation.floors_kept < 1.0 {
        let kept = human::percent(allocation.floors_kept);
        text += &format!("the floors do not fit: each tenant keeps {kept} of its own\n");
    }
    if let Some(why) = &allocation.fallback {
        text += &format!("DRF has taken over: {why}\n");
    }
    text
}

/// The disciplines of a domain's servers, each once.
fn disciplines(servers: &[crate::status::Server]) -> String {
    let mut words: Vec<&str> = servers.iter().map(|server| server.discipline.as_str()).collect();
    // A server that the policy no longer has is queued by nothing.
    words.retain(|word| !word.is_empty());
    words.sort_unstable();
    words.dedup();
    words.join(" and ")
}

/// What tenants are promised beside their shares; nothing if none is promised anything.
fn promise_table(tenants: &[crate::status::Tenant]) -> String {
    let promised = tenants.iter().filter(|tenant| tenant.promise != Promise::default());
    let rows: Vec<_> = promised
        .map(|tenant| {
            let Promise { floor_iops, floor_bytes_per_second, latency_goal_seconds, .. } =
                tenant.promise;
            let floors = units::amounts(floor_bytes_per_second, floor_iops);
            let floors: Vec<String> = floors.into_iter().map(units::print_rate).collect();
            let mut floor = if floors.is_empty() { "-".to_owned() } else { floors.join(", ") };
            if tenant.promise.is_floor_provisional {
                floor += " (provisional)";
            }
            let p99 = time(tenant.total_time.p99_seconds);
            vec![tenant.name.clone(), floor, time(latency_goal_seconds), p99]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", terminal::table(&["TENANT", "FLOOR", "GOAL", "TOTAL P99"], &rows))
}

fn backend_table(status: &Status) -> String {
    let header = ["BACKEND", "STATE", "RECONNECTS", "REPLAYED", "LOST", "<WHERE"];
    let rows: Vec<_> = status
        .backends
        .iter()
        .map(|backend| {
            let trouble = backend.trouble.as_ref().map(|why| format!(" ({why})"));
            vec![
                backend.name.clone(),
                if backend.up { "up" } else { "down" }.to_owned(),
                backend.reconnects.to_string(),
                backend.replayed_requests.to_string(),
                backend.not_replayed_requests.to_string(),
                format!("{}{}", backend.source, trouble.unwrap_or_default()),
            ]
        })
        .collect();
    terminal::table(&header, &rows)
}

/// A line for each export that does not answer.
fn hanging(status: &Status) -> String {
    let mut text = String::new();
    for server in status.domains.iter().flat_map(|domain| &domain.servers) {
        for one in &server.hanging {
            let export = if one.export.is_empty() { "an export" } else { &one.export };
            let oldest = human::duration(seconds(one.oldest_seconds));
            let _ = writeln!(
                text,
                "{}: {export} has not answered {} for {oldest} ({} requests with it)",
                server.name, one.tenant, one.requests
            );
        }
    }
    text
}

/// A line for each export that answers like one of another device.
fn slow(status: &Status) -> String {
    let mut text = String::new();
    for server in status.domains.iter().flat_map(|domain| &domain.servers) {
        for one in &server.slow {
            let export = if one.export.is_empty() { "an export" } else { &one.export };
            let [latency, quickest] =
                [one.latency_seconds, one.quickest_seconds].map(|it| human::duration(seconds(it)));
            let _ = writeln!(
                text,
                "{}: {export} takes {latency} for a request of {}, the quickest export {quickest}: \
                 it seems to be another device, and should be a backend of its own",
                server.name, one.tenant
            );
        }
    }
    text
}

/// A line for each tenant that waited for exports of its own.
fn waits_for_slots(tenants: &[crate::status::Tenant]) -> String {
    let waited = tenants.iter().filter(|tenant| tenant.waited_for_slots_seconds > 0.0);
    let lines = waited.map(|tenant| {
        let waited = human::duration(seconds(tenant.waited_for_slots_seconds));
        format!("{} waited {waited} for exports of its own that are slow or hang\n", tenant.name)
    });
    lines.collect()
}

fn resized(backends: &[crate::status::Backend]) -> String {
    let mut text = String::new();
    for backend in backends {
        for one in &backend.resized {
            let [before, now] =
                [one.before_bytes, one.now_bytes].map(|bytes| human::size(bytes as f64));
            let consequence = if one.now_bytes < one.before_bytes {
                "requests beyond its end fail"
            } else {
                "clients have to connect anew to see it"
            };
            let (name, export) = (&backend.name, &one.export);
            let _ = writeln!(text, "{name}: {export} went from {before} to {now}: {consequence}");
        }
    }
    text
}

fn time(in_seconds: Option<f64>) -> String {
    human::duration(seconds(in_seconds.unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Detail, Given, TierUse};
    use crate::testing::{sample_policy, sample_report};

    #[test]
    fn the_tables_are_stable() {
        let status = Status::new(&sample_report(), &sample_policy(), Detail::Quantiles);
        terminal::assert_document("crates/app/testdata/status.txt", &of(&status));
    }

    #[test]
    fn an_allocation_tells_who_is_bound_by_what() {
        let given = |tenant: &str, bound_by: &str, [fair, given, drf]: [f64; 3]| Given {
            tenant: tenant.to_owned(),
            bound_by: bound_by.to_owned(),
            fair_share_iops: fair,
            given_iops: given,
            drf_iops: drf,
            held_by: "level".to_owned(),
        };
        let tier = |backend: &str, utilisation, drf_utilisation| TierUse {
            backend: backend.to_owned(),
            utilisation,
            drf_utilisation,
            level: Some(1.0),
        };
        let allocation = Allocation {
            tiers: vec![tier("hdd", 1.0, 1.0), tier("ssd", 1.0, 0.68)],
            tenants: vec![
                given("files", "hdd", [100.0, 100.0, 133.0]),
                given("db", "ssd", [2525.0, 5000.0, 3366.0]),
            ],
            binding: vec!["hdd is full".to_owned(), "ssd is full".to_owned()],
            floors_kept: 0.9,
            ..Allocation::default()
        };
        assert_eq!(
            allocation_table(&allocation),
            "TENANT  BOUND BY  FAIR SHARE   GIVEN   BY DRF  HELD BY\n\
             files   hdd           100 /s  100 /s   133 /s  level\n\
             db      ssd          2.5k /s   5k /s  3.4k /s  level\n\
             hdd: 100% used, 100% by DRF\n\
             ssd: 100% used, 68% by DRF\n\
             hdd is full\n\
             ssd is full\n\
             the floors do not fit: each tenant keeps 90% of its own\n"
        );
    }
}
