//! Fills the described cluster in every way.

use evenkeel_core::place::certificate::Certificate;
use evenkeel_core::place::cluster::{GroupMap, GroupOptions, Member};
use evenkeel_core::place::odds::Odds;
use evenkeel_core::place::policy::space::Space;
use evenkeel_sim::fill::change::{Changed, change};
use evenkeel_sim::fill::{Chooser, Cluster, Filled, Filling, Writers, cluster};

use super::super::cluster::{Described, SERVERS_MAX, Server};
use super::super::parts;
use super::Args;
use crate::exit::Exit;

/// Replicas placed in one filling, at most, unless somebody asks for more: some seconds.
const REPLICAS_MAX: u64 = 10_000_000;

/// Objects on the average server, at most, unless somebody asks for more.
const OBJECTS_EACH: u64 = 20_000;

/// Most groups that there can be, as a power of two.
const GROUP_BITS_MAX: u32 = 22;

/// What came of it.
pub(super) struct Outcome {
    pub(super) servers: usize,
    pub(super) domains: usize,
    pub(super) capacity_bytes: u64,
    pub(super) replicas: u32,
    pub(super) groups: u32,
    /// Bytes of a simulated object on each of its servers.
    pub(super) object_bytes: u64,
    pub(super) full_part: f64,
    /// What was in use at the start, as a part of the whole capacity.
    pub(super) start_part: f64,
    pub(super) clients: u32,
    pub(super) ways: Vec<Way>,
    pub(super) certificate: Bounds,
    pub(super) change: Option<Change>,
}

/// What the map of groups lets expect, as parts of the whole capacity.
pub(super) struct Bounds {
    pub(super) hashing: f64,
    pub(super) odds: f64,
    pub(super) at_most: f64,
}

/// One way to place objects.
pub(super) struct Way {
    pub(super) name: String,
    /// Parts of the whole capacity, not of what is let to be filled.
    pub(super) filled: Filled,
    /// Servers asked for their load before an object is first written, without reports.
    pub(super) probes: u32,
    /// How full each server is at the end, the fullest first.
    pub(super) used_parts: Vec<f64>,
}

/// Servers come and go.
pub(super) struct Change {
    pub(super) at: f64,
    pub(super) join: u32,
    pub(super) leave: Vec<String>,
    pub(super) hashing: Changed,
    pub(super) choices: Changed,
}

/// Fills the cluster.
///
/// # Errors
/// [`Exit::Usage`] for arguments that do not fit the cluster.
pub(super) fn run(args: &Args, described: &Described) -> anyhow::Result<Outcome> {
    let stage = Stage::new(args, described)?;
    let used_bytes = if args.keep_used { described.used_bytes() } else { Vec::new() };
    let capacity_bytes = described.capacity_bytes();
    let within = stage.capacities(described);
    let certificate = Certificate::of(&stage.map, &within, args.candidates);
    // The certificate speaks of the servers that hashing can name.
    let all: u64 = stage.members.iter().map(|member| member.capacity_bytes).sum();
    let reach = within.iter().sum::<u64>() as f64 / all as f64;
    let scaled = |part: f64| part * reach * args.full;
    Ok(Outcome {
        servers: described.servers.len(),
        domains: described.domains(),
        capacity_bytes,
        replicas: args.replicas,
        groups: stage.map.len(),
        object_bytes: stage.object_bytes,
        full_part: args.full,
        start_part: used_bytes.iter().sum::<u64>() as f64 / capacity_bytes as f64,
        clients: args.clients,
        ways: ways(args, &stage, &within, &used_bytes),
        certificate: Bounds {
            hashing: scaled(certificate.hashing),
            odds: scaled(certificate.odds),
            at_most: scaled(certificate.at_most),
        },
        change: changed(args, described, &stage)?,
    })
}

/// A cluster ready to be filled.
struct Stage {
    members: Vec<Member>,
    map: GroupMap,
    object_bytes: u64,
}

impl Stage {
    fn new(args: &Args, described: &Described) -> anyhow::Result<Self> {
        let with_room = described.servers.iter().filter(|server| server.capacity_bytes > 0);
        let servers = with_room.count() as u64;
        let options = GroupOptions {
            group_bits: group_bits(args, servers)?,
            replicas: args.replicas as usize,
            seed: args.seed,
        };
        let map = described.groups(options)?;
        let each = match args.objects {
            Some(objects) => u64::from(objects),
            None => (REPLICAS_MAX / servers).clamp(100, OBJECTS_EACH),
        };
        let mean_bytes = described.capacity_bytes() / servers;
        let object_bytes = args.object.max(mean_bytes / each).max(1);
        Ok(Self { members: described.members(args.full), map, object_bytes })
    }

    fn cluster(&self) -> Cluster<'_> {
        let Self { members, map, object_bytes } = self;
        Cluster { members, map, object_bytes: *object_bytes }
    }

    /// What the servers can hold that hashing can name, by server.
    fn capacities(&self, described: &Described) -> Vec<u64> {
        let rows = self.members.iter().zip(&described.servers).take(self.map.server_rows());
        rows.map(|(member, server)| if server.weight > 0 { member.capacity_bytes } else { 0 })
            .collect()
    }
}

fn group_bits(args: &Args, servers: u64) -> anyhow::Result<u32> {
    let sets = servers * u64::from(args.groups_per_server) / u64::from(args.replicas);
    // The nearest power of two, by ratio.
    let bits = (sets.max(1) as f64).log2().round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 64")]
    let bits = bits as u32;
    if bits > GROUP_BITS_MAX {
        let what = format!("{sets} groups are more than 4194304; lower --groups-per-server");
        return Err(Exit::Usage.because(what));
    }
    Ok(bits)
}

fn writers(args: &Args) -> Writers {
    Writers {
        clients: args.clients,
        know_each_other: !args.unaware,
        report_every: args.report_every,
    }
}

fn ways(args: &Args, stage: &Stage, within: &[u64], used_bytes: &[u64]) -> Vec<Way> {
    let cluster = stage.cluster();
    let fill = |name: &str, chooser: &Chooser<'_>, probes: u32| {
        let start = match used_bytes {
            [] => vec![0; stage.members.len()],
            used => used.to_vec(),
        };
        let mut filling = Filling::new(&cluster, chooser, writers(args), args.seed, start);
        while filling.place() {}
        let mut used_parts = cluster::used_parts(cluster.members, filling.used_bytes());
        for part in &mut used_parts {
            *part *= args.full;
        }
        used_parts.sort_by(|one, other| other.total_cmp(one));
        let filled = filling.outcome();
        let filled = Filled { used_part: filled.used_part * args.full, ..filled };
        Way { name: name.to_owned(), filled, probes, used_parts }
    };
    let mut ways = vec![fill("hashing", &Chooser::Hashing, 0)];
    if args.candidates == 1 {
        return ways;
    }
    let candidates = args.candidates as usize;
    let mut choose = |name: String, margin: f64| {
        let policy = Space { margin, score: args.score.into() };
        let chooser = Chooser::Policy { policy: &policy, candidates };
        ways.push(fill(&name, &chooser, args.candidates));
    };
    choose(format!("{candidates} choices"), 0.0);
    if args.margin > 0.0 {
        let margin = parts::show(args.margin);
        choose(format!("{candidates} choices, margin {margin}"), args.margin);
    }
    let odds = Odds::fit(&stage.map, within).odds;
    ways.push(fill("odds, no look", &Chooser::Odds(&odds), 0));
    ways
}

/// The change that the arguments ask for, if any.
fn changed(args: &Args, described: &Described, stage: &Stage) -> anyhow::Result<Option<Change>> {
    if args.join == 0 && args.leave.is_empty() {
        return Ok(None);
    }
    let [before, after] = both(args, described)?;
    let bits = stage.map.len().trailing_zeros();
    let options =
        GroupOptions { group_bits: bits, replicas: args.replicas as usize, seed: args.seed };
    let [old, new] = [before.groups(options)?, after.groups(options)?];
    let [old_members, new_members] = [&before, &after].map(|one| one.members(args.full));
    let object_bytes = stage.object_bytes;
    let clusters = [
        &Cluster { members: &old_members, map: &old, object_bytes },
        &Cluster { members: &new_members, map: &new, object_bytes },
    ];
    let by = |chooser: &Chooser<'_>| {
        let at = args.at / args.full;
        let changed = change(clusters, [chooser, chooser], writers(args), at, args.seed);
        let full = Filled { used_part: changed.full.used_part * args.full, ..changed.full };
        Changed { fullest_part: changed.fullest_part * args.full, full, ..changed }
    };
    let policy = Space { margin: args.margin, score: args.score.into() };
    let candidates = args.candidates as usize;
    Ok(Some(Change {
        at: args.at,
        join: args.join,
        leave: args.leave.clone(),
        hashing: by(&Chooser::Hashing),
        choices: by(&Chooser::Policy { policy: &policy, candidates }),
    }))
}

/// The cluster before and after: the same servers, without room where they are not there.
fn both(args: &Args, described: &Described) -> anyhow::Result<[Described; 2]> {
    let mut before = described.clone();
    if before.servers.len() + args.join as usize > SERVERS_MAX {
        let what = format!("{} servers and {} more are too many", before.servers.len(), args.join);
        return Err(Exit::Usage.because(what));
    }
    let like = before.servers[0].clone();
    for number in 0..args.join {
        before.servers.push(Server {
            name: format!("joined-{number}"),
            capacity_bytes: 0,
            domain: format!("joined-{number}"),
            used_bytes: 0,
            ..like.clone()
        });
    }
    let mut after = before.clone();
    let size = args.join_size.unwrap_or(like.capacity_bytes);
    // A weight is per byte what it is with the first server.
    let weight = like.weight as f64 * (size as f64 / like.capacity_bytes.max(1) as f64);
    for server in &mut after.servers[described.servers.len()..] {
        server.capacity_bytes = size;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let weight = weight as u64;
        server.weight = weight;
    }
    for name in &args.leave {
        let found = after.servers.iter_mut().find(|server| server.name == *name);
        let Some(server) = found else {
            let first = &described.servers[0].name;
            let what = format!("no server is called {name}; the first one is {first}");
            return Err(Exit::Usage.because(what));
        };
        server.capacity_bytes = 0;
    }
    Ok([before, after])
}
