//! How full the servers of a spread volume are, from the status document of a gate.

use crate::control::client::Client;
use crate::ctl::block_on;
use crate::exit::Exit;
use crate::status::{Spread, Status};
use crate::units;

use super::Args;

/// Most servers of a volume.
const SERVERS_MAX: usize = 64;

/// A volume as it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) object_bytes: u64,
    pub(super) servers: Vec<Server>,
}

/// A server, counted in objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
    /// Room for objects.
    pub(super) slots: u64,
    /// The room below the ceiling.
    pub(super) ceiling: u64,
    pub(super) used: u64,
}

/// A server that joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Joining {
    name: String,
    size_bytes: u64,
}

/// Parses `NAME=SIZE`.
pub(super) fn joining(text: &str) -> Result<Joining, String> {
    let (name, size) = text.split_once('=').ok_or("write NAME=SIZE, such as 's5=4 TiB'")?;
    let size_bytes = units::parse_size(size.trim()).map_err(|error| error.to_string())?;
    Ok(Joining { name: name.trim().to_owned(), size_bytes })
}

impl State {
    /// Asks the gate, or reads what it said.
    ///
    /// # Errors
    /// If it does not answer, or the volume is not there or not open.
    pub(super) fn read(args: &Args) -> anyhow::Result<Self> {
        let status = match &args.status {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    Exit::Runtime.because(format!("cannot read {}: {error}", path.display()))
                })?;
                serde_json::from_str(&text).map_err(|error| {
                    let what = "is not what `evenkeel ctl status --json` prints";
                    Exit::Invalid.because(format!("{} {what}: {error}", path.display()))
                })?
            }
            None => ask(&args.control.client())?,
        };
        Self::of(&status, &args.volume)
    }

    fn of(status: &Status, name: &str) -> anyhow::Result<Self> {
        let domain = status.domains.iter().find(|domain| domain.name == name);
        let Some(spread) = domain.and_then(|domain| domain.spread.as_ref()) else {
            let volumes = status.domains.iter().filter(|domain| domain.spread.is_some());
            let names: Vec<&str> = volumes.map(|domain| &*domain.name).collect();
            let known = match &names[..] {
                [] => "no spread volume is open".to_owned(),
                names => format!("open spread volumes are {}", names.join(", ")),
            };
            return Err(Exit::Usage.because(format!("no spread volume `{name}`: {known}")));
        };
        if spread.change.as_ref().is_some_and(|change| !change.is_over) {
            let what =
                format!("a change of {name} is under way: `evenkeel ctl status` tells of it");
            return Err(Exit::Failed.because(what));
        }
        Ok(Self::of_spread(name, spread))
    }

    fn of_spread(name: &str, spread: &Spread) -> Self {
        // Once a change is over, who has left plays no part any more.
        let staying = spread.servers.iter().filter(|server| server.standing != "leaving");
        let servers = staying.map(|server| Server {
            name: server.backend.clone(),
            slots: u64::from(server.slots),
            ceiling: u64::from(server.ceiling_slots),
            used: u64::from(server.used_slots),
        });
        Self {
            name: name.to_owned(),
            object_bytes: spread.object_bytes.max(1),
            servers: servers.collect(),
        }
    }

    /// The servers afterwards: those that are there keep their places, with no room if they leave;
    /// those that join come last.
    ///
    /// # Errors
    /// [`Exit::Usage`] for names that are not there, or are there already.
    pub(super) fn change(&self, join: &[Joining], leave: &[String]) -> anyhow::Result<Vec<Server>> {
        let mut servers = self.servers.clone();
        for name in leave {
            let known: Vec<&str> = self.servers.iter().map(|server| &*server.name).collect();
            let server = servers.iter_mut().find(|server| server.name == *name);
            let Some(server) = server else {
                let what =
                    format!("{} has no server {name}: it has {}", self.name, known.join(", "));
                return Err(Exit::Usage.because(what));
            };
            (server.slots, server.ceiling) = (0, 0);
        }
        let (slots, ceiling) = self.servers.iter().fold((0, 0), |(slots, ceiling), server| {
            (slots + server.slots, ceiling + server.ceiling)
        });
        for Joining { name, size_bytes } in join {
            if servers.iter().any(|server| server.name == *name) {
                return Err(Exit::Usage.because(format!("{name} is in {} already", self.name)));
            }
            let room = size_bytes / self.object_bytes;
            if !(1..1 << 26).contains(&room) {
                let what = format!("{name} would hold {room} objects; 1 to 67108863 can be");
                return Err(Exit::Usage.because(what));
            }
            // The ceiling of the volume, as the others have it.
            let ceiling = room * ceiling / slots.max(1);
            servers.push(Server { name: name.clone(), slots: room, ceiling, used: 0 });
        }
        if servers.iter().filter(|server| server.slots > 0).count() < 2 {
            return Err(Exit::Usage.because("a volume is spread over two servers at least"));
        }
        if servers.len() > SERVERS_MAX {
            return Err(Exit::Usage.because("a volume is spread over 64 servers at most"));
        }
        Ok(servers)
    }
}

fn ask(client: &Client) -> anyhow::Result<Status> {
    block_on(client.get("/v1/status"))
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Four servers of 1,000 objects of 4 MiB, of which so many lie on each.
    pub(in super::super) fn state(used: [u64; 4]) -> State {
        let server =
            |(number, used)| Server { name: format!("s{number}"), slots: 1000, ceiling: 930, used };
        let servers = (1..).zip(used).map(server).collect();
        State { name: "pool".to_owned(), object_bytes: 4 << 20, servers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_leave_keep_their_place_and_those_that_join_come_last() {
        let state = testing::state([500; 4]);
        let join = [joining("s5 = 8 GiB").unwrap()];
        let servers = state.change(&join, &["s2".to_owned()]).unwrap();
        let shown: Vec<_> =
            servers.iter().map(|one| (one.name.as_str(), one.slots, one.ceiling)).collect();
        assert_eq!(shown[1], ("s2", 0, 0));
        assert_eq!(shown[4], ("s5", 2048, 1904));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let state = testing::state([500; 4]);
        let fails = |join: &[&str], leave: &[&str]| {
            let join: Vec<Joining> = join.iter().map(|text| joining(text).unwrap()).collect();
            let leave: Vec<String> = leave.iter().map(|&name| name.to_owned()).collect();
            state.change(&join, &leave).unwrap_err().to_string()
        };
        assert!(fails(&[], &["s9"]).contains("it has s1, s2, s3, s4"));
        assert!(fails(&["s1=4 GiB"], &[]).contains("already"));
        assert!(fails(&["s5=4 KiB"], &[]).contains("0 objects"));
        assert!(fails(&[], &["s1", "s2", "s3"]).contains("two servers"));
        assert!(joining("s5").is_err() && joining("s5=many").is_err());
        let other = State::of(&Status::default(), "pool").unwrap_err().to_string();
        assert!(other.contains("no spread volume is open"), "{other}");
    }
}
