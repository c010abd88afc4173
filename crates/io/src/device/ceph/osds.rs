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

use evenkeel_core::bytes::Bytes;
use evenkeel_core::id::ServerId;
use evenkeel_core::place::rados::group_of;

use crate::rados::{GroupStatus, OsdStatus, OsdUse, PoolFull, PoolStatus};
use crate::report::{OsdReport, OsdStanding};

/// The groups of a pool that nobody serves, as far as is known.
fn unserved_of(status: &PoolStatus) -> BTreeSet<usize> {
    let groups = status.groups.iter().enumerate();
    groups.filter(|(_, group)| group.is_known && !group.is_served).map(|(at, _)| at).collect()
}

/// Most OSDs that are told one by one, those with the lowest numbers.
const TOLD_MAX: usize = 1024;

/// Most that are named in a sentence.
const NAMED_MAX: usize = 8;

/// What is known of the OSDs of a pool.
#[derive(Debug)]
pub(super) struct Osds {
    status: PoolStatus,
    uses: BTreeMap<ServerId, OsdUse>,
    /// Groups that nobody has served for two looks in a row. One that peers for a moment holds
    /// nothing up; where a request waits, the next look comes at once.
    unserved: BTreeSet<usize>,
    /// Those that have acted for a group of the pool and are still in.
    members: BTreeSet<ServerId>,
}

impl Osds {
    pub(super) fn new(status: PoolStatus) -> Self {
        let unserved = unserved_of(&status);
        let (uses, members) = (BTreeMap::new(), BTreeSet::new());
        let mut osds = Self { status, uses, unserved, members };
        osds.count_members();
        osds
    }

    pub(super) fn take_status(&mut self, mut status: PoolStatus) {
        status.keep_known(&self.status);
        let before = unserved_of(&self.status);
        self.status = status;
        self.unserved = &unserved_of(&self.status) & &before;
        self.count_members();
    }

    /// Takes figures in. A manager that was just started knows none of the OSDs that have not told
    /// it yet; what was known of those that run stays.
    pub(super) fn take_uses(&mut self, uses: &[OsdUse]) -> impl Iterator<Item = &OsdUse> {
        let known = |one: &OsdUse| {
            let is_silent = one.capacity_bytes == 0;
            let is_at_work = self.members.contains(&one.osd) && self.is_up(one.osd);
            let before = self.uses.get(&one.osd).filter(|_| is_silent && is_at_work);
            (one.osd, *before.unwrap_or(one))
        };
        self.uses = uses.iter().map(known).collect();
        self.uses.values()
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

    /// Groups of the pool, and how many of them nobody serves, as far as is known.
    pub(super) fn groups(&self) -> (usize, usize) {
        (self.status.groups.len(), self.unserved.len())
    }

    fn groups_unserved(&self) -> impl Iterator<Item = &GroupStatus> {
        self.unserved.iter().filter_map(|group| self.status.groups.get(*group))
    }

    /// Why nothing may take room in the pool, and what to do about it.
    pub(super) fn full(&self, pool: &str) -> Option<String> {
        let (why, remedy) = match self.status.full? {
            PoolFull::Quota { bytes_max, objects_max } => {
                let bytes = (bytes_max > 0).then(|| Bytes(bytes_max).to_string());
                let objects = (objects_max > 0).then(|| format!("{objects_max} objects"));
                let bounds = [bytes, objects].into_iter().flatten().collect::<Vec<_>>();
                let remedy = format!("raise it with `ceph osd pool set-quota {pool} ..`");
                (format!("has reached its quota ({})", bounds.join(", ")), remedy)
            }
            PoolFull::Osd => {
                let full = self.status.full();
                let which = if full.is_empty() { "an OSD".to_owned() } else { listed(&full) };
                (format!("is full, since {which} is"), "add OSDs".to_owned())
            }
        };
        Some(format!(
            "pool {pool:?} {why}: writes that need room fail with ENOSPC, and all else goes on; \
             {remedy}, or free some room by discards"
        ))
    }

    /// What to say of groups that nobody serves, if there are any.
    pub(super) fn unserved(&self) -> Option<String> {
        let (groups, unserved) = self.groups();
        let missing: BTreeSet<ServerId> = self
            .groups_unserved()
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
        let Some(GroupStatus { acting, is_served, .. }) = groups.get(group_of(name, groups.len()))
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
    match osds.len() {
        0 => String::new(),
        1 => format!(", {} is down", listed(osds)),
        _ => format!(", {} are down", listed(osds)),
    }
}

/// `osd.2, osd.5`; of many the first few.
fn listed<'a>(osds: impl IntoIterator<Item = &'a ServerId>) -> String {
    let names: Vec<String> = osds.into_iter().map(|osd| format!("osd.{}", osd.0)).collect();
    if names.len() <= NAMED_MAX {
        return names.join(", ");
    }
    format!("{} and {} more", names[..NAMED_MAX].join(", "), names.len() - NAMED_MAX)
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
            is_known: true,
        };
        PoolStatus {
            epoch: 1,
            is_replicated: true,
            copies: 1,
            groups: groups.iter().map(group).collect(),
            full_part: 0.95,
            osds: (0..).zip(up).map(osd).collect(),
            full: None,
            shut_out: BTreeMap::new(),
        }
    }

    #[test]
    fn an_osd_that_is_down_is_told_until_it_is_out() {
        let mut osds = Osds::new(status(&[true, true, true], &[(&[0, 1], true), (&[1, 0], true)]));
        let told = |kib: u64| OsdUse {
            osd: ServerId(1),
            capacity_bytes: 2 * kib,
            used_bytes: kib,
            data_bytes: kib,
        };
        assert_eq!(osds.take_uses(&[told(40)]).count(), 1);
        let kept: Vec<_> = osds.take_uses(&[told(0)]).collect();
        assert_eq!(kept, [&told(40)], "a manager that was just started knows of none");
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
    fn a_group_that_peers_for_a_moment_is_no_reason_for_an_alarm() {
        let groups =
            |served: [bool; 2]| status(&[true, true], &[(&[0], served[0]), (&[1], served[1])]);
        let mut osds = Osds::new(groups([true, true]));
        for (served, told) in [([false, true], 0), ([true, false], 0), ([false, false], 1)] {
            osds.take_status(groups(served));
            assert_eq!((osds.groups(), osds.unserved().is_some()), ((2, told), told > 0));
        }
        osds.take_status(groups([true, true]));
        assert_eq!(osds.unserved(), None);
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
