//! Draws objects as the volume would have placed them, and plans the change.

use std::collections::BTreeMap;

use evenkeel_core::id::ServerId;
use evenkeel_core::place::candidates::ObjectName;
use evenkeel_core::place::choose::choose;
use evenkeel_core::place::cluster::{DomainId, GroupMap, GroupOptions, Member};
use evenkeel_core::place::loads::{Loads, Metrics};
use evenkeel_core::place::moves::{Change, NoRoom, plan};
use evenkeel_core::place::policy::View;
use evenkeel_core::place::policy::space::Space;
use evenkeel_core::time::Span;

use super::Args;
use super::state::{Server, State};
use crate::exit::Exit;

/// Groups of a spread volume, as a power of two.
const GROUP_BITS: u32 = 12;

/// Objects that are drawn, at most; beyond, each of them stands for several.
const OBJECTS_MAX: u64 = 2_000_000;

/// Objects that are tried for each that is drawn: the last places are hard to meet by chance.
const TRIES: u64 = 20;

/// The volume's number, which decides who moves; any is as good as the one that it has.
const VOLUME: u64 = 1;

/// What would happen.
pub(super) struct Outcome {
    pub(super) volume: String,
    pub(super) object_bytes: u64,
    pub(super) servers: Vec<Row>,
    /// Objects that move, by where from and where to, most first.
    pub(super) flows: Vec<(usize, usize, u64)>,
    pub(super) forced: u64,
    pub(super) levelled: u64,
    /// Objects that stay, and need another choice.
    pub(super) renamed: u64,
    /// Objects that would have to move for every server to have exactly its part.
    pub(super) least: u64,
    /// How long moving takes at the rate that was given.
    pub(super) takes: Span,
    pub(super) rate: u64,
}

/// A server, in objects.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) slots_before: u64,
    pub(super) slots: u64,
    pub(super) before: u64,
    pub(super) after: u64,
}

/// Plans the change.
///
/// # Errors
/// [`Exit::Failed`] if objects find no room.
pub(super) fn run(args: &Args, state: &State, after: &[Server]) -> anyhow::Result<Outcome> {
    let total: u64 = state.servers.iter().map(|server| server.used).sum();
    // Each drawn object stands for so many.
    let scale = total.div_ceil(OBJECTS_MAX).max(1);
    let mut before = state.servers.clone();
    before.extend(after[state.servers.len()..].iter().map(|server| Server {
        slots: 0,
        ceiling: 0,
        ..server.clone()
    }));
    let candidates = args.candidates as usize;
    let [old, new] = [&before[..], after].map(groups);
    let quota: Vec<u64> = before.iter().map(|server| server.used / scale).collect();
    let objects = drawn(&old, candidates, &quota);
    let room: Vec<u64> = after.iter().map(|server| server.ceiling / scale).collect();
    let change = Change {
        volume: VOLUME,
        before: &old,
        after: &new,
        candidates,
        room: &room,
        level: args.level,
    };
    let plan = plan(&change, &objects).map_err(|NoRoom { objects, .. }| {
        let remedy = "add a server, or raise the ceiling";
        let what = "objects would find no candidate with room";
        Exit::Failed.because(format!("about {} {what}; {remedy}", objects * scale))
    })?;
    let mut flows: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for one in &plan.moves {
        *flows.entry((one.from.index(), one.to.index())).or_default() += scale;
    }
    let mut flows: Vec<_> =
        flows.into_iter().map(|((from, to), count)| (from, to, count)).collect();
    flows.sort_by_key(|&(from, to, count)| (std::cmp::Reverse(count), from, to));
    let moved = plan.moves.len() as u64 * scale;
    let forced = plan.forced as u64 * scale;
    let rows = before.iter().zip(after).zip(&plan.used);
    Ok(Outcome {
        volume: state.name.clone(),
        object_bytes: state.object_bytes,
        servers: rows.map(|((before, after), used)| row(before, after, used * scale)).collect(),
        flows,
        forced,
        levelled: moved - forced,
        renamed: plan.renamed.len() as u64 * scale,
        least: least(&before, after, total),
        takes: takes(moved, state.object_bytes, args.rate),
        rate: args.rate,
    })
}

fn row(before: &Server, after: &Server, used: u64) -> Row {
    Row {
        name: before.name.clone(),
        slots_before: before.slots,
        slots: after.slots,
        before: before.used,
        after: used,
    }
}

/// The table that a spread volume makes: servers by their slots, each for itself.
fn groups(servers: &[Server]) -> GroupMap {
    let member = |(number, server): (u32, &Server)| Member {
        server: ServerId(number),
        capacity_bytes: server.slots,
        domain: DomainId(number),
    };
    let members: Vec<Member> = (0..).zip(servers).map(member).collect();
    let options = GroupOptions { group_bits: GROUP_BITS, replicas: 1, seed: VOLUME };
    GroupMap::new(&members, options).expect("two servers have room at least")
}

/// Objects with their choices, as many on each server as the quota says, as far as chance has it.
fn drawn(map: &GroupMap, candidates: usize, quota: &[u64]) -> Vec<(u64, usize)> {
    let total: u64 = quota.iter().sum();
    let mut loads = Loads::new(quota.len());
    for (server, &capacity_bytes) in (0..).map(ServerId).zip(quota) {
        loads.report(server, Metrics { capacity_bytes, ..Metrics::default() });
    }
    let policy = Space::with_margin(0.0);
    let mut objects = Vec::new();
    for object in 0..total * TRIES {
        if objects.len() as u64 == total {
            break;
        }
        let found = ObjectName { volume: VOLUME, index: object }.candidates(map, candidates);
        let view = View { loads: &loads, size_bytes: 1 };
        if let Ok(choice) = choose(&policy, &view, found.sets(map), 1.0) {
            loads.wrote(map.servers(found.groups()[choice])[0], 1);
            objects.push((object, choice));
        }
    }
    objects
}

/// What those must gain whose part of the whole room grows.
fn least(before: &[Server], after: &[Server], total: u64) -> u64 {
    let whole = |servers: &[Server]| servers.iter().map(|server| server.slots).sum::<u64>() as f64;
    let (old, new) = (whole(before), whole(after));
    let gain =
        |(was, is): (&Server, &Server)| (is.slots as f64 / new - was.slots as f64 / old).max(0.0);
    let part: f64 = before.iter().zip(after).map(gain).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of it")]
    let objects = (part * total as f64) as u64;
    objects
}

fn takes(objects: u64, object_bytes: u64, rate: u64) -> Span {
    let ns = u128::from(objects) * u128::from(object_bytes) * 1_000_000_000 / u128::from(rate);
    Span(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::state::{joining, testing};
    use super::*;
    use crate::place::plan::Args;

    fn outcome(used: [u64; 4], more: &[&str], level: Option<f64>) -> anyhow::Result<Outcome> {
        use clap::Parser;
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        let line = [&["plan", "pool"], more].concat();
        let args = Args { level, ..Command::parse_from(line).args };
        let state = testing::state(used);
        let after = state.change(&args.join, &args.leave)?;
        run(&args, &state, &after)
    }

    #[test]
    fn a_server_that_joins_gets_about_its_part() {
        assert!(joining("s5=4000 MiB").is_ok());
        let plan = outcome([700; 4], &["--join", "s5=4000 MiB"], None).unwrap();
        let [least, moved] = [plan.least, plan.forced];
        assert!(least == 560 && moved.abs_diff(560) < 80, "{least} {moved}");
        assert!(plan.flows.iter().all(|(from, to, _)| *to == 4 && *from < 4), "{:?}", plan.flows);
        assert_eq!(plan.servers.iter().map(|row| row.after).sum::<u64>(), 2800);
        assert_eq!(plan.levelled, 0);
        assert_eq!(plan.takes, takes(moved, 4 << 20, 100 << 20));
    }

    #[test]
    fn levelling_evens_servers_out() {
        let plan = outcome([700; 4], &["--join", "s5=4000 MiB"], Some(0.01)).unwrap();
        let [least, most] = [u64::min, u64::max]
            .map(|of| plan.servers.iter().map(|row| row.after).reduce(of).expect("servers"));
        assert!(most - least <= 30, "{least} to {most} of 560 each");
    }

    #[test]
    fn a_server_that_leaves_is_emptied_and_too_little_room_is_said() {
        let plan = outcome([500; 4], &["--leave", "s2"], None).unwrap();
        assert_eq!((plan.servers[1].after, plan.servers[1].slots), (0, 0));
        assert!(plan.forced >= 490, "{}", plan.forced);
        let error = outcome([900; 4], &["--leave", "s2"], None).err().expect("no room");
        assert_eq!(Exit::of(&error), Exit::Failed);
    }

    #[test]
    fn drawn_objects_lie_where_the_volume_has_them() {
        let state = testing::state([100, 300, 200, 250]);
        let map = groups(&state.servers);
        let objects = drawn(&map, 2, &[100, 300, 200, 250]);
        let mut used = [0u64; 4];
        for (index, choice) in objects {
            let found = ObjectName { volume: VOLUME, index }.candidates(&map, 2);
            used[map.servers(found.groups()[choice])[0].index()] += 1;
        }
        assert_eq!(used, [100, 300, 200, 250]);
    }
}
