//! Balance against the theory's bounds: how far the fullest server lies above the mean, in objects.
//!
//! With one choice the gap grows without end, as the square root of 2 m ln n / n for m objects on n
//! servers; with d choices it is ln ln n / ln d and a constant, however many objects there are
//! (Berenbrink et al. 2006 for the heavily loaded case). The theory draws servers independently and
//! evenly, so every server has as many groups here, of one server each.

use evenkeel_core::id::ServerId;
use evenkeel_core::place::cluster::GroupMap;
use evenkeel_core::place::policy::space::Space;
use evenkeel_sim::fill::{Chooser, Cluster, Filling, Writers, cluster};

use super::super::claim::{Claim, Verdict};
use super::reference::TheoryRow;

/// Groups of each server.
const GROUPS_EACH: u32 = 16;

/// The claims about one number of servers: a gap for each load and number of choices.
pub(super) fn claims(row: &TheoryRow, quick: bool, seed: u64) -> Vec<Claim> {
    let sets: Vec<Vec<ServerId>> =
        (0..row.servers * GROUPS_EACH).map(|group| vec![ServerId(group % row.servers)]).collect();
    let map = GroupMap::of_sets(&sets).expect("the data file has powers of two");
    // The last load is the longest by far.
    let loads = &row.objects_each[..row.objects_each.len() - usize::from(quick)];
    let mut claims = Vec::new();
    for &each in loads {
        for choices in 1..=3 {
            let gap = gap(&map, row.servers, each, choices, seed);
            claims.push(claim(row, each, choices, gap));
        }
    }
    claims
}

/// What the fullest server holds above the mean.
fn gap(map: &GroupMap, servers: u32, each: u64, choices: usize, seed: u64) -> f64 {
    let members = cluster::even(servers, 1, each * 4);
    let cluster = Cluster { members: &members, map, object_bytes: 1 };
    let policy = Space::with_margin(0.0);
    let chooser = match choices {
        1 => Chooser::Hashing,
        candidates => Chooser::Policy { policy: &policy, candidates },
    };
    let used = vec![0; members.len()];
    let mut filling = Filling::new(&cluster, &chooser, Writers::default(), seed, used);
    for _ in 0..each * u64::from(servers) {
        assert!(filling.place(), "there is room for four times as much");
    }
    let most = filling.used_bytes().iter().copied().max().unwrap_or(0);
    most as f64 - each as f64
}

fn claim(row: &TheoryRow, each: u64, choices: usize, gap: f64) -> Claim {
    let servers = f64::from(row.servers);
    let id = format!("theory-{}-servers-{each}-each-{choices}", row.servers);
    let words = match choices {
        1 => "one choice".to_owned(),
        choices => format!("{choices} choices"),
    };
    let what = format!("{} servers, {each} objects each: fullest over mean, {words}", row.servers);
    let (bound, most) = match choices {
        // A mean deviation, so half of it more is a rare event.
        1 => ((2.0 * each as f64 * servers.ln()).sqrt(), 1.5),
        choices => (servers.ln().ln() / (choices as f64).ln() + row.constant, 1.0),
    };
    Claim {
        paper: format!("{bound:.1}"),
        measured: format!("{gap:.0}"),
        value: gap,
        tolerance: format!("at most {:.1}", bound * most),
        verdict: Verdict::of(gap <= bound * most),
        ..Claim::shown(id, what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::Reference;
    use super::*;

    #[test]
    fn gaps_of_choices_do_not_grow_with_the_objects() {
        let rows = Reference::load().theory;
        let claims = claims(&rows[0], true, 1);
        let value = |id: &str| claims.iter().find(|claim| claim.id.contains(id)).unwrap().value;
        assert!(value("1000-each-1") > 2.0 * value("100-each-1"), "one choice drifts apart");
        assert!(value("1000-each-2") <= value("100-each-2") + 1.0);
        assert!(claims.iter().all(|claim| claim.verdict != Verdict::Fails), "{claims:?}");
    }
}
