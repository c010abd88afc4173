//! Servers come and go: how much moves, how evenly what was there lies afterwards, and how full the
//! cluster gets when writing goes on.
//!
//! Objects keep their names; groups move to other servers, and whatever lies in them with them.

use evenkeel_core::id::ServerId;
use evenkeel_core::place::candidates::ObjectName;
use evenkeel_core::place::choose::choose;
use evenkeel_core::place::cluster::{GroupMap, GroupOptions, Member};
use evenkeel_core::place::loads::{Loads, Metrics};
use evenkeel_core::place::policy::View;
use evenkeel_core::place::policy::space::Space;
use evenkeel_sim::fill::{Chooser, Cluster, Writers, cluster, fill};

use super::super::claim::{Claim, Verdict};
use super::reference::ChangeRow;

/// How full the cluster is when it changes.
const FILLED: f64 = 0.6;

const OPTIONS: GroupOptions = GroupOptions { group_bits: 11, replicas: 1, seed: 0 };

/// The claims about one change.
pub(super) fn claims(row: &ChangeRow, moved_at_most: f64, each: u64, seed: u64) -> Vec<Claim> {
    let ChangeRow { servers, come, go, .. } = *row;
    let with = |present: &dyn Fn(u32) -> bool| {
        let mut members = cluster::even(servers + come, 1, each);
        for member in members.iter_mut().filter(|member| !present(member.server.0)) {
            member.capacity_bytes = 0;
        }
        let options = GroupOptions { seed, ..OPTIONS };
        let map = GroupMap::new(&members, options).expect("there are servers");
        (members, map)
    };
    let (before, old) = with(&|server| server < servers);
    let (after, new) = with(&|server| server >= go);
    let moved = old.sets().zip(new.sets()).filter(|(old, new)| old != new).count();
    let moved_part = moved as f64 / f64::from(old.len());
    // What has to move: the part of those who came, or that of those who went.
    let least = f64::from(come.max(go)) / f64::from(servers + come);

    let groups = placed(&before, &old, seed);
    let mut used = vec![0; after.len()];
    for group in groups {
        used[new.servers(group)[0].index()] += 1;
    }
    let parts = cluster::used_parts(&after, &used);
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    let most = parts.iter().copied().fold(0.0, f64::max) / mean;
    let cluster = Cluster { members: &after, map: &new, object_bytes: 1 };
    let policy = Space::with_margin(0.0);
    let chooser = Chooser::Policy { policy: &policy, candidates: 2 };
    let full = fill(&cluster, &chooser, Writers::default(), seed + 1, &mut used).used_part;

    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let luck = 3.0 * (least / f64::from(old.len())).sqrt();
    vec![
        Claim {
            tolerance: format!("at most {}", percent(least * moved_at_most + luck)),
            verdict: Verdict::of(moved_part <= least * moved_at_most + luck),
            attainable: Some(percent(least)),
            ..claim(row, "moved", moved_part, percent(moved_part))
        },
        claim(row, "fullest server over the mean", most, format!("{most:.3}")),
        Claim {
            tolerance: "at least 96.0 %".to_owned(),
            verdict: Verdict::of(full >= 0.96),
            ..claim(row, "full afterwards", full, percent(full))
        },
    ]
}

/// The groups of as many objects as fill the cluster to [`FILLED`], chosen by space.
fn placed(members: &[Member], map: &GroupMap, seed: u64) -> Vec<u32> {
    let mut loads = Loads::new(members.len());
    for member in members {
        let Member { server, capacity_bytes, .. } = *member;
        loads.report(server, Metrics { capacity_bytes, ..Metrics::default() });
    }
    let capacity: f64 = members.iter().map(|member| member.capacity_bytes as f64).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    let objects = (capacity * FILLED) as u64;
    let policy = Space::with_margin(0.0);
    let one = |index| {
        let candidates = ObjectName { volume: seed, index }.candidates(map, 2);
        let view = View { loads: &loads, size_bytes: 1 };
        let position = choose(&policy, &view, candidates.sets(map), 1.0).expect("there is room");
        let group = candidates.groups()[position];
        let server: ServerId = map.servers(group)[0];
        loads.wrote(server, 1);
        group
    };
    (0..objects).map(one).collect()
}

fn claim(row: &ChangeRow, what: &str, value: f64, measured: String) -> Claim {
    let id = format!("change {} {what}", row.name).replace(' ', "-");
    Claim { measured, value, ..Claim::shown(id, format!("{}: {what}", row.name)) }
}
