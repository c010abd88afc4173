//! Servers come and go: how much moves, how evenly what was there lies afterwards, and how full the
//! cluster gets when writing goes on.
//!
//! Objects keep their names; groups move to other servers, and whatever lies in them with them.

use evenkeel_core::place::cluster::{GroupMap, GroupOptions};
use evenkeel_core::place::policy::space::Space;
use evenkeel_sim::fill::change::{Changed, change};
use evenkeel_sim::fill::{Chooser, Cluster, Writers, cluster};

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
    let of = |members, map| Cluster { members, map, object_bytes: 1 };
    let policy = Space::with_margin(0.0);
    let chooser = Chooser::Policy { policy: &policy, candidates: 2 };
    let clusters = [&of(&before, &old), &of(&after, &new)];
    let changed = change(clusters, [&chooser, &chooser], Writers::default(), FILLED, seed);
    let Changed { regrouped_part, least_part: least, max_to_mean, .. } = changed;
    let full = changed.full.used_part;

    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let luck = 3.0 * (least / f64::from(old.len())).sqrt();
    vec![
        Claim {
            tolerance: format!("at most {}", percent(least * moved_at_most + luck)),
            verdict: Verdict::of(regrouped_part <= least * moved_at_most + luck),
            attainable: Some(percent(least)),
            ..claim(row, "moved", regrouped_part, percent(regrouped_part))
        },
        claim(row, "fullest server over the mean", max_to_mean, format!("{max_to_mean:.3}")),
        Claim {
            tolerance: "at least 96.0 %".to_owned(),
            verdict: Verdict::of(full >= 0.96),
            ..claim(row, "full afterwards", full, percent(full))
        },
    ]
}

fn claim(row: &ChangeRow, what: &str, value: f64, measured: String) -> Claim {
    let id = format!("change {} {what}", row.name).replace(' ', "-");
    Claim { measured, value, ..Claim::shown(id, format!("{}: {what}", row.name)) }
}
