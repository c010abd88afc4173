//! A spread volume in the status document: how full its servers are, and what is not served.

use evenkeel_core::id::ServerId;
use evenkeel_engine::report::{
    ChangeReport, DomainReport, SpreadReport, SpreadServer, Standing, Stuck,
};
use serde::{Deserialize, Serialize};

/// How near the ceiling a server may come before it is said, in thousandths of its room.
const EARLY_MILLI: u64 = 50;

/// The open spread volume of a domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Its servers, in the order of the policy.
    pub servers: Vec<Server>,
    /// What objects prefer that get their places now, the most important first.
    #[serde(default)]
    pub prefer: Vec<String>,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Objects of the volume.
    pub objects: u32,
    /// Objects that were written and lie somewhere.
    pub placed_objects: u32,
    /// Objects placed since the gate opened the volume that are not on their first candidate.
    pub diverted_objects: u64,
    /// Objects that were written and are not where they should be; they are not served.
    pub lost_objects: u32,
    /// Objects that clients gave up since then, by trims or zeroes; their room is free again.
    #[serde(default)]
    pub freed_objects: u64,
    /// Writes that found no room below the ceiling.
    pub full_writes: u64,
    /// How objects pass to other servers, from when some join or are to leave until those that left
    /// are taken out of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// What people should know, if anything: a server near its ceiling, one that is passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How objects pass to other servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Objects that have not passed, written or not.
    pub objects_left: u64,
    /// Of those, how many have to move.
    pub to_move_objects: u32,
    /// Objects that were moved since the gate opened the volume.
    pub moved_objects: u64,
    /// Bytes that were copied for that.
    pub copied_bytes: u64,
    /// Moves that were put off, since clients wrote too much or waited too long.
    pub put_off: u64,
    /// Moves that ended with an error of a server.
    pub failed: u64,
    /// For how long objects have been moving.
    pub elapsed_seconds: f64,
    /// How long the rest takes at this rate, once something has moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_seconds: Option<u64>,
    /// Why nothing moves at present, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// Whether all is done: servers that are to leave hold nothing and can be taken out of the
    /// list.
    pub is_over: bool,
}

/// One server of a spread volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The backend's name.
    pub backend: String,
    /// Objects that there is room for.
    pub slots: u32,
    /// Objects that may be placed there: the room below the ceiling.
    pub ceiling_slots: u32,
    /// Room in use.
    pub used_slots: u32,
    /// Whether the policy says that it is near the gate.
    #[serde(default)]
    pub is_near: bool,
    /// Mean time of its answers to reads and writes, each counting a sixteenth.
    #[serde(default)]
    pub latency_seconds: f64,
    /// What part of its host's memory is free, where the host is asked and has told lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_free_part: Option<f64>,
    /// What part of its host's processors is busy, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_part: Option<f64>,
    /// `serving`; `leaving` if its objects are to move to others; `resting` while nothing is placed
    /// there since it could not be written to; `full` while nothing is placed there since it had no
    /// room, although its slots say otherwise; `stale` if it came back with older content and
    /// nothing of it is served; `absent` if it was not there when the volume was opened, likewise.
    pub standing: String,
}

/// The spread volume of a domain, if it has one and it is open.
pub(super) fn spread(domain: &DomainReport) -> Option<Spread> {
    let volume = domain.spread.as_ref()?;
    let name = |server: &SpreadServer| domain.servers[server.server.index()].name.clone();
    let servers = volume.servers.iter().map(|server| Server {
        backend: name(server),
        slots: server.slots,
        ceiling_slots: server.ceiling_slots,
        used_slots: server.used_slots,
        is_near: server.is_near,
        latency_seconds: server.latency.as_secs_f64(),
        memory_free_part: server
            .host
            .map(|host| host.memory_free_bytes as f64 / host.memory_bytes.max(1) as f64),
        cpu_busy_part: server.host.map(|host| f64::from(host.cpu_milli) / 1000.0),
        standing: word(server).to_owned(),
    });
    Some(Spread {
        servers: servers.collect(),
        prefer: volume.prefer.iter().map(|one| one.name().to_owned()).collect(),
        object_bytes: volume.object_bytes,
        objects: volume.objects,
        placed_objects: volume.placed,
        diverted_objects: volume.diverted,
        lost_objects: volume.lost,
        freed_objects: volume.freed,
        full_writes: volume.full,
        change: volume.change.as_ref().map(|change| self::change(change, domain)),
        warnings: warnings(volume, name),
    })
}

fn change(change: &ChangeReport, domain: &DomainReport) -> Change {
    let name = |server: ServerId| domain.servers[server.index()].name.clone();
    let elapsed_seconds = change.elapsed.as_secs_f64();
    let each = change.elapsed.0.checked_div(change.moved).filter(|_| !change.is_over);
    Change {
        objects_left: change.objects_left,
        to_move_objects: change.to_move,
        moved_objects: change.moved,
        copied_bytes: change.copied_bytes,
        put_off: change.given_up,
        failed: change.failed,
        elapsed_seconds,
        left_seconds: each.map(|ns| ns * u64::from(change.to_move) / 1_000_000_000),
        stuck: change.stuck.map(|why| match why {
            Stuck::NoRoom(server) => {
                format!("no room below the ceiling, {} included", name(server))
            }
            Stuck::Away(server) => format!("{} answers with errors", name(server)),
            Stuck::Stale(server) => format!("{} came back with older content", name(server)),
            Stuck::InDoubt => {
                "notes of an object could not be written; restart the gate".to_owned()
            }
        }),
        is_over: change.is_over,
    }
}

fn warnings(volume: &SpreadReport, name: impl Fn(&SpreadServer) -> String) -> Vec<String> {
    let mut warnings = Vec::new();
    if volume.is_claimed {
        warnings.push("another gate has claimed the volume: nothing is served".to_owned());
    }
    if volume.change.is_some_and(|change| change.is_over) {
        for server in volume.servers.iter().filter(|server| server.is_leaving) {
            let name = name(server);
            warnings.push(format!("{name} holds nothing any more: take it out of the policy"));
        }
    }
    for server in &volume.servers {
        let early = u64::from(server.slots) * EARLY_MILLI / 1000;
        let name = name(server);
        match server.standing {
            Standing::Resting => {
                warnings.push(format!("{name} cannot be written to: nothing is placed there"));
            }
            Standing::Full => warnings.push(format!(
                "{name} has no room, although {} of its {} slots are free: new objects go to \
                 others, and writes that need room there fail; give it room, or discard",
                server.slots - server.used_slots,
                server.slots
            )),
            Standing::Stale => {
                warnings.push(format!("{name} came back with older content: it is not served"));
            }
            Standing::Absent => warnings.push(format!(
                "{name} was not there when the volume was opened: what lies there is not served; \
                 the log tells if it is back and cannot be taken up"
            )),
            Standing::Serving if server.is_leaving => {}
            Standing::Serving if server.used_slots >= server.ceiling_slots => {
                warnings.push(format!("{name} is at its ceiling"));
            }
            Standing::Serving
                if u64::from(server.used_slots) + early >= u64::from(server.ceiling_slots) =>
            {
                warnings.push(format!("{name} is close to its ceiling"));
            }
            Standing::Serving => {}
        }
    }
    let of_hosts = volume.prefer.iter().find(|one| one.is_of_hosts());
    for server in volume.servers.iter().filter(|server| server.host.is_none()) {
        if let Some(wanted) = of_hosts {
            let (name, wanted) = (name(server), wanted.name());
            warnings.push(format!("{name}'s host does not tell its {wanted}: it counts as busy"));
        }
    }
    warnings
}

fn word(server: &SpreadServer) -> &'static str {
    match server.standing {
        Standing::Serving if server.is_leaving => "leaving",
        Standing::Serving => "serving",
        Standing::Resting => "resting",
        Standing::Full => "full",
        Standing::Stale => "stale",
        Standing::Absent => "absent",
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;
    use evenkeel_engine::policy::Preference;
    use evenkeel_engine::report::ServerReport;

    use super::*;

    #[test]
    fn servers_have_their_names_and_warn_before_they_are_full() {
        let server = |server, used_slots, standing| SpreadServer {
            server: ServerId(server),
            slots: 1000,
            ceiling_slots: 930,
            used_slots,
            is_near: false,
            latency: Span::ZERO,
            host: None,
            is_leaving: false,
            standing,
        };
        let named = |name: &str| ServerReport { name: name.to_owned(), ..ServerReport::default() };
        let domain = DomainReport {
            servers: vec![named("a"), named("b"), named("c")],
            spread: Some(SpreadReport {
                servers: vec![
                    server(2, 879, Standing::Serving),
                    server(0, 880, Standing::Serving),
                    server(1, 10, Standing::Resting),
                ],
                ..SpreadReport::default()
            }),
            ..DomainReport::default()
        };
        let volume = spread(&domain).unwrap();
        let listed: Vec<_> = volume.servers.iter().map(|server| server.backend.as_str()).collect();
        assert_eq!(listed, ["c", "a", "b"]);
        assert_eq!(
            volume.warnings,
            ["a is close to its ceiling", "b cannot be written to: nothing is placed there"]
        );
        let mut asking = domain.clone();
        let hosts = asking.spread.as_mut().unwrap();
        hosts.prefer = vec![Preference::Memory];
        let warnings = spread(&asking).unwrap().warnings;
        assert_eq!(warnings[2], "c's host does not tell its memory: it counts as busy");
    }
}
