//! What is known of the OSDs of a pool, for people: how full each is, and who is missing.
//!
//! ```text
//! monitors: osd dump ------> who is up and in          every 8 s, or when somebody waits for it
//! manager:  pg dump -------> who acts for which group
//! manager:  osd df --------> how full they are         every 2 s
//! ```
//!
//! An OSD that is down does not act for anything any more, if there are other copies; it is listed
//! until it is out.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::id::ServerId;
use evenkeel_core::place::rados::group_of;

use crate::rados::{GroupStatus, OsdStatus, OsdUse, PoolStatus};
use crate::report::{OsdReport, OsdStanding};

/// Most OSDs that are told one by one, those with the lowest numbers.
const TOLD_MAX: usize = 1024;

/// Most that are named in a sentence.
const NAMED_MAX: usize = 8;

/// What is known of the OSDs of a pool.
#[derive(Debug)]
pub(super) struct Osds {
    status: PoolStatus,
    uses: BTreeMap<ServerId, OsdUse>,
    /// Those that have acted for a group of the pool and are still in.
    members: BTreeSet<ServerId>,
}

impl Osds {
    pub(super) fn new(status: PoolStatus) -> Self {
        let mut osds = Self { status, uses: BTreeMap::new(), members: BTreeSet::new() };
        osds.count_members();
        osds
    }

    pub(super) fn take_status(&mut self, status: PoolStatus) {
        self.status = status;
        self.count_members();
    }

    pub(super) fn take_uses(&mut self, uses: &[OsdUse]) {
        self.uses = uses.iter().map(|one| (one.osd, *one)).collect();
    }

    pub(super) fn status(&self) -> &PoolStatus {
        &self.status
    }

    fn count_members(&mut self) {
        self.members.extend(self.status.groups.iter().flat_map(|group| &group.acting));
        let is_in: BTreeSet<ServerId> =
            self.status.osds.iter().filter(|one| one.is_in).map(|one| one.osd).collect();
        self.members.retain(|osd| is_in.contains(osd));
    }

    /// How many the pool has, and each of them, up to a bound.
    pub(super) fn report(&self) -> (usize, Vec<OsdReport>) {
        let told = self.members.iter().take(TOLD_MAX).map(|&osd| {
            let used = self.uses.get(&osd);
            OsdReport {
                osd: osd.0,
                capacity_bytes: used.map_or(0, |one| one.capacity_bytes),
                used_bytes: used.map_or(0, |one| one.used_bytes),
                standing: match self.state(osd) {
                    Some(OsdStatus { is_up: false, .. }) | None => OsdStanding::Down,
                    Some(OsdStatus { is_full: true, .. }) => OsdStanding::Full,
                    Some(_) => OsdStanding::Up,
                },
            }
        });
        (self.members.len(), told.collect())
    }

    /// Groups of the pool, and how many of them nobody serves.
    pub(super) fn groups(&self) -> (usize, usize) {
        let groups = &self.status.groups;
        (groups.len(), groups.iter().filter(|group| !group.is_served).count())
    }

    /// What to say of groups that nobody serves, if there are any.
    pub(super) fn unserved(&self) -> Option<String> {
        let (groups, unserved) = self.groups();
        let missing: BTreeSet<ServerId> = (self.status.groups.iter())
            .filter(|group| !group.is_served)
            .flat_map(|group| &group.acting)
            .filter(|osd| !self.is_up(**osd))
            .copied()
            .collect();
        (unserved > 0).then(|| {
            format!(
                "{unserved} of {groups} placement groups are not served{}: what lies there waits, \
                 and fails in the end",
                told_down(&missing)
            )
        })
    }

    /// Whether an object of this name is served.
    pub(super) fn is_served(&self, name: &str) -> bool {
        let groups = &self.status.groups;
        groups.get(group_of(name, groups.len())).is_some_and(|group| group.is_served)
    }

    /// Where an object of this name is, in words.
    pub(super) fn told_place(&self, name: &str) -> String {
        let groups = &self.status.groups;
        let Some(GroupStatus { acting, is_served }) = groups.get(group_of(name, groups.len()))
        else {
            return format!("object {name:?}");
        };
        let down: BTreeSet<ServerId> =
            acting.iter().filter(|osd| !self.is_up(**osd)).copied().collect();
        let names: Vec<String> = acting.iter().map(|osd| format!("osd.{}", osd.0)).collect();
        let place = if names.is_empty() { "no OSD".to_owned() } else { names.join(", ") };
        let state = match (is_served, down.len()) {
            (true, _) => String::new(),
            (false, 0) => ", not served at present".to_owned(),
            (false, 1) if acting.len() == 1 => ", which is down".to_owned(),
            (false, _) => told_down(&down),
        };
        format!("object {name:?} on {place}{state}")
    }

    fn state(&self, osd: ServerId) -> Option<&OsdStatus> {
        let osds = &self.status.osds;
        osds.binary_search_by_key(&osd, |one| one.osd).ok().map(|at| &osds[at])
    }

    fn is_up(&self, osd: ServerId) -> bool {
        self.state(osd).is_some_and(|one| one.is_up)
    }
}

/// `, osd.2 is down`; nothing if none is.
fn told_down(osds: &BTreeSet<ServerId>) -> String {
    let names: Vec<String> = osds.iter().map(|osd| format!("osd.{}", osd.0)).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(", {one} is down"),
        some if some.len() <= NAMED_MAX => format!(", {} are down", some.join(", ")),
        many => format!(
            ", {} and {} more are down",
            many[..NAMED_MAX].join(", "),
            many.len() - NAMED_MAX
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(up: &[bool], groups: &[(&[u32], bool)]) -> PoolStatus {
        let osd = |(osd, is_up): (u32, &bool)| OsdStatus {
            osd: ServerId(osd),
            is_up: *is_up,
            is_in: true,
            is_full: false,
        };
        let group = |(acting, is_served): &(&[u32], bool)| GroupStatus {
            acting: acting.iter().copied().map(ServerId).collect(),
            is_served: *is_served,
        };
        PoolStatus {
            epoch: 1,
            is_replicated: true,
            copies: 1,
            groups: groups.iter().map(group).collect(),
            full_part: 0.95,
            osds: (0..).zip(up).map(osd).collect(),
            shut_out: BTreeMap::new(),
        }
    }

    #[test]
    fn an_osd_that_is_down_is_told_until_it_is_out() {
        let mut osds = Osds::new(status(&[true, true, true], &[(&[0, 1], true), (&[1, 0], true)]));
        osds.take_uses(&[OsdUse {
            osd: ServerId(1),
            capacity_bytes: 100,
            used_bytes: 40,
            data_bytes: 30,
        }]);
        let standings = |osds: &Osds| -> Vec<_> {
            osds.report().1.iter().map(|one| (one.osd, one.used_bytes, one.standing)).collect()
        };
        let (up, down) = (OsdStanding::Up, OsdStanding::Down);
        assert_eq!(standings(&osds), [(0, 0, up), (1, 40, up)], "osd.2 is none of this pool");
        let mut dead = status(&[true, false, true], &[(&[0], true), (&[0], true)]);
        osds.take_status(dead.clone());
        assert_eq!(standings(&osds), [(0, 0, up), (1, 40, down)]);
        assert_eq!(osds.unserved(), None, "the other copy serves");
        dead.osds[1].is_in = false;
        osds.take_status(dead);
        assert_eq!(standings(&osds), [(0, 0, up)]);
    }

    #[test]
    fn what_nobody_serves_is_told_with_who_is_missing() {
        let osds = Osds::new(status(&[true, false], &[(&[0], true), (&[1], false)]));
        let said = osds.unserved().expect("one is not served");
        assert!(
            said.starts_with("1 of 2 placement groups are not served, osd.1 is down"),
            "{said}"
        );
        let names = ["db.00000000.0", "db.00000001.0", "db.00000002.0", "db.00000003.0"];
        let places: Vec<String> = names.iter().map(|name| osds.told_place(name)).collect();
        assert!(
            places.iter().any(|place| place.ends_with("on osd.1, which is down")),
            "{places:?}"
        );
        assert!(places.iter().any(|place| place.ends_with("on osd.0")), "{places:?}");
    }
}
