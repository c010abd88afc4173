//! The exchange with other gates as tables for people.

use evenkeel_core::control::service::HELD_FOR;

use super::time;
use crate::status::{
    AgreedCost, Exchange, LineFound, MeetingServer, Peer, ServedElsewhere, SharedDevice,
    SharedGroup, SharingTenant, SummedSite, WordRoom,
};
use crate::terminal;

/// Who is there, and what was decided.
pub(super) fn tables(exchange: &Exchange) -> String {
    let mut text = format!("\nexchange {}, this gate is {}\n", exchange.name, exchange.own);
    if let Some(MeetingServer { kind, address, connected, connects }) = &exchange.server {
        let state = if *connected { "connected" } else { "not connected" };
        text += &format!("over {kind} at {address}: {state}, {connects} connections so far\n");
    }
    let rows: Vec<_> = exchange.peers.iter().map(peer).collect();
    text += &terminal::table(
        &["PEER", "SILENT", "CLOCK AHEAD", "SENT", "NOT SENT", "RECEIVED", "REFUSED", "LOST"],
        &rows,
    );
    text += &lost(exchange);
    if let Some(seconds) = exchange.clock_off_seconds {
        let (by, how) = (seconds.abs(), if seconds < 0.0 { "behind" } else { "ahead of" });
        text += &format!(
            "this gate's clock is {by:.1} s {how} the time by which the gates count: set all \
             clocks by one time server\n"
        );
    }
    if exchange.has_duplicate_name {
        let own = &exchange.own;
        text += &format!("another gate is called {own} too: give each its own `own`\n");
    }
    for Peer { name, refused_because, .. } in &exchange.peers {
        if let Some(why) = refused_because {
            text += &format!("{name} is not heard: {why}\n");
        }
    }
    let refused = exchange.refused.by_reason().into_iter().filter(|(_, count)| *count > 0);
    let refused: Vec<String> = refused.map(|(why, count)| format!("{count} {why}")).collect();
    if !refused.is_empty() {
        text += &format!("refused: {}\n", refused.join(", "));
    }
    exchange.devices.iter().for_each(|device| text += &self::device(device));
    exchange.groups.iter().for_each(|group| text += &self::group(group));
    text
}

fn group(group: &SharedGroup) -> String {
    let mut text = format!("\n{}: shares count over all gates\n", group.name);
    let row = |one: &ServedElsewhere| vec![one.tenant.clone(), time(Some(one.service_seconds))];
    let rows: Vec<_> = group.elsewhere.iter().map(row).collect();
    if rows.is_empty() {
        text += "nothing was served by other gates yet\n";
    } else {
        text += &terminal::table(&["TENANT", "SERVED BY OTHERS"], &rows);
    }
    if let Some(seconds) = group.presumed_seconds {
        text += &format!(
            "others are not heard for {seconds:.0} s: they are taken to serve what they did, after \
             {HELD_FOR} less and less\n"
        );
    }
    text + &lines(&group.disagreements)
}

/// What other gates say otherwise, a line each.
fn lines(disagreements: &[String]) -> String {
    disagreements.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

fn peer(peer: &Peer) -> Vec<String> {
    vec![
        peer.name.clone(),
        peer.silent_seconds.map_or_else(|| "never heard".to_owned(), |at| time(Some(at))),
        format!("{} periods", peer.skew_periods),
        peer.sent.to_string(),
        peer.not_sent.to_string(),
        peer.received.to_string(),
        peer.refused.to_string(),
        format!("{} of {}", peer.lost_last_minute, peer.expected_last_minute),
    ]
}

/// What all gates take requests to cost.
fn cost(cost: &AgreedCost) -> String {
    let line = |line: &LineFound| {
        let mib = line.mib_seconds.max(f64::MIN_POSITIVE);
        format!("{} and {} for each MiB", time(Some(line.fixed_seconds)), time(Some(mib)))
    };
    let origin = match cost.load_seconds {
        Some(load) => format!("learned from {load:.0} s of load"),
        None => "as a policy says".to_owned(),
    };
    format!("reads cost {}, writes {}: {origin}\n", line(&cost.read), line(&cost.write))
}

/// How many words never came, and the remedy if it is for want of room.
fn lost(exchange: &Exchange) -> String {
    let Exchange { lost_last_minute, expected_last_minute, .. } = exchange;
    if *lost_last_minute == 0 {
        return String::new();
    }
    let mut text =
        format!("lost {lost_last_minute} of {expected_last_minute} words in the last minute");
    if let Some(WordRoom { wanted_bytes, given_bytes }) = exchange.room
        && given_bytes < wanted_bytes
    {
        text += &format!(
            "; their socket has room for {given_bytes} bytes, and words of all gates at once may \
             take {wanted_bytes}: raise net.core.rmem_max and restart the gate"
        );
    }
    text + "\n"
}

fn device(device: &SharedDevice) -> String {
    let SharedDevice { backend, array, control, slots, slots_all, reason, .. } = device;
    let called = if array == backend { String::new() } else { format!(" (array {array})") };
    if !device.is_divided {
        return format!("\n{backend}{called}: {reason}\n{}", lines(&device.disagreements));
    }
    let mut text =
        format!("\n{backend}{called} by {control}: {slots} of {slots_all} slots; {reason}\n");
    text += &device.sums.map(sums).unwrap_or_default();
    text += &gates(device);
    if !device.tenants.is_empty() {
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        let row = |one: &SharingTenant| {
            vec![one.name.clone(), percent(one.part_here), percent(one.part_of_all)]
        };
        let rows: Vec<_> = device.tenants.iter().map(row).collect();
        text += &terminal::table(&["TENANT", "THROUGH THIS GATE", "THROUGH ALL GATES"], &rows);
    }
    text += &device.cost.as_ref().map(cost).unwrap_or_default();
    text += &lines(&device.disagreements);
    if !device.unmet.is_empty() {
        text += &format!("targets that are not met: {}\n", device.unmet.join(", "));
    }
    if !device.below_floor.is_empty() {
        text += &format!("below their floor: {}\n", device.below_floor.join(", "));
    }
    text
}

/// How many gates there are where each is not shown by itself.
fn sums(SummedSite { gates, collects }: SummedSite) -> String {
    let own = if collects { "; this gate adds up the words of its shard" } else { "" };
    format!("{gates} gates, by the sums of their words{own}\n")
}

/// What was decided from, by gate or shard.
fn gates(device: &SharedDevice) -> String {
    let rows: Vec<_> = device
        .gates
        .iter()
        .map(|gate| {
            vec![
                gate.name.clone(),
                time(gate.device_seconds),
                time(gate.response_seconds),
                format!("{:.1}", gate.used_slots),
                gate.need_slots.to_string(),
                gate.expected_per_second.to_string(),
                format!("{} of {}", gate.late, gate.completions),
                gate.missed_periods.to_string(),
            ]
        })
        .collect();
    let header =
        ["GATE", "DEVICE", "RESPONSE", "USED", "NEEDED", "EXPECTED/S", "LATE", "PERIODS AGO"];
    terminal::table(&header, &rows)
}
