//! Whose processor time it was: the experiment's own, or others'.
//!
//! The experiment's are this process and whatever descends from it, also after it was given to
//! another parent. Kernel threads are nobody's: they write back, copy and send for whoever asked,
//! and mostly that is the experiment.
//!
//! A process that has ended is in its parent's account of children, if the parent waited for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Flag of kernel threads in field 9 (`PF_KTHREAD` in the kernel's `sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process at an instant: fields of `/proc/PID/stat`, times in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    name: String,
    is_kernel: bool,
    user: u64,
    system: u64,
    /// Of children that it waited for, user and system time.
    children_user: u64,
    children_system: u64,
    /// With the id it names a process for good.
    started: u64,
}

impl Process {
    fn parse(stat: &str) -> Option<Self> {
        // The name in brackets may hold blanks and brackets; what follows is plain.
        let (head, fields) = stat.rsplit_once(')')?;
        let (id, name) = head.split_once('(')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            id: id.trim().parse().ok()?,
            parent: u32::try_from(number(4)?).ok()?,
            name: printable(name),
            is_kernel: number(9)? & KERNEL_THREAD != 0,
            user: number(14)?,
            system: number(15)?,
            children_user: number(16)?,
            children_system: number(17)?,
            started: number(22)?,
        })
    }

    fn key(&self) -> Key {
        (self.id, self.started)
    }

    fn own_ticks(&self) -> u64 {
        self.user.saturating_add(self.system)
    }
}

/// Others choose their names; a terminal must not obey them.
fn printable(name: &str) -> String {
    name.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}

/// Id and start of a process.
type Key = (u32, u64);

/// Processor time by whose it was, in ticks since each process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) own: u64,
    pub(super) others: u64,
    /// The part of both that was spent in programs, not in the kernel.
    pub(super) user: u64,
    /// Of each other process by itself, with its name.
    each: BTreeMap<Key, (u64, String)>,
}

impl Account {
    /// The other process that took most since `before`.
    pub(super) fn busiest_since(&self, before: &Self) -> Option<(u64, &str)> {
        let taken = self.each.iter().map(|(key, (ticks, name))| {
            let earlier = before.each.get(key).map_or(0, |(ticks, _)| *ticks);
            (ticks.saturating_sub(earlier), name.as_str())
        });
        taken.max_by_key(|(ticks, _)| *ticks).filter(|(ticks, _)| *ticks > 0)
    }
}

/// The experiment's processes, those that have ended included.
#[derive(Clone, Debug)]
pub(super) struct Family {
    members: BTreeSet<Key>,
    root: u32,
}

impl Family {
    /// This process and its descendants to come.
    pub(super) fn of_this_process() -> Self {
        Self { members: BTreeSet::new(), root: std::process::id() }
    }

    /// Looks at all processes, takes in new descendants, and adds up.
    pub(super) fn account(&mut self) -> Account {
        self.add_up(&all())
    }

    fn add_up(&mut self, processes: &[Process]) -> Account {
        self.adopt(processes);
        let mut account = Account::default();
        for process in processes.iter().filter(|process| !process.is_kernel) {
            let user = process.user.saturating_add(process.children_user);
            let system = process.system.saturating_add(process.children_system);
            account.user = account.user.saturating_add(user);
            let all = user.saturating_add(system);
            if self.members.contains(&process.key()) {
                account.own = account.own.saturating_add(all);
            } else {
                account.others = account.others.saturating_add(all);
                account.each.insert(process.key(), (process.own_ticks(), process.name.clone()));
            }
        }
        account
    }

    /// Takes in the root and all whose parent is a member, generation by generation.
    fn adopt(&mut self, processes: &[Process]) {
        let root = processes.iter().filter(|process| process.id == self.root);
        self.members.extend(root.map(Process::key));
        let living = processes.iter().filter(|process| self.members.contains(&process.key()));
        let mut parents: BTreeSet<u32> = living.map(|process| process.id).collect();
        loop {
            let children = processes.iter().filter(|process| {
                parents.contains(&process.parent) && !self.members.contains(&process.key())
            });
            let children: Vec<&Process> = children.collect();
            if children.is_empty() {
                return;
            }
            parents.extend(children.iter().map(|child| child.id));
            self.members.extend(children.into_iter().map(Process::key));
        }
    }
}

/// Every process that can be read; one that ends meanwhile is left out.
fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let texts = names
        .filter(|name| is_process(name))
        .filter_map(|name| fs::read(format!("/proc/{name}/stat")).ok());
    texts.filter_map(|text| Process::parse(&String::from_utf8_lossy(&text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, parent: u32, ticks: u64) -> Process {
        Process {
            id,
            parent,
            name: format!("program{id}"),
            is_kernel: false,
            user: ticks,
            system: 0,
            children_user: 0,
            children_system: 0,
            started: 1000 + u64::from(id),
        }
    }

    fn family(root: u32) -> Family {
        Family { members: BTreeSet::new(), root }
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name() {
        let stat = "8451 (a) b (c) S 17 8451 8451 0 -1 2097216 315 0 0 0 17 25 3 4 20 0 3 0 99 2";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.id, process.parent, process.started), (8451, 17, 99));
        assert_eq!((process.own_ticks(), process.is_kernel), (42, true));
        assert_eq!((process.children_user, process.children_system), (3, 4));
        assert_eq!(process.name, "a) b (c");
        for stat in ["", "1 (x) S", "x (y) S 1 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 1"] {
            assert_eq!(Process::parse(stat), None, "{stat:?}");
        }
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(printable("\x1b[2Jrustc\n"), "?[2Jrustc?");
    }

    #[test]
    fn descendants_of_the_experiment_are_its_own_and_kernel_threads_nobodys() {
        let kernel = Process { is_kernel: true, ..process(2, 0, 700) };
        let table = [
            process(1, 0, 5),
            kernel,
            process(10, 1, 20),
            process(12, 11, 40),
            process(11, 10, 30),
        ];
        let account = family(10).add_up(&table);
        assert_eq!((account.own, account.others), (90, 5));
    }

    #[test]
    fn a_process_stays_the_experiments_after_its_parent_has_gone() {
        let mut family = family(10);
        family.add_up(&[process(10, 1, 0), process(11, 10, 0), process(12, 11, 0)]);
        let orphan = process(12, 1, 60);
        let born_late = process(13, 12, 7);
        let account = family.add_up(&[process(10, 1, 0), orphan.clone(), born_late]);
        assert_eq!((account.own, account.others), (67, 0));
        // The same number later is another process.
        let stranger = Process { started: 5000, ..orphan };
        assert_eq!(family.add_up(&[process(10, 1, 0), stranger]).others, 60);
    }

    #[test]
    fn a_child_that_was_waited_for_stays_in_the_account() {
        let mut family = family(10);
        let before = family.add_up(&[process(10, 1, 0), process(5, 1, 1), process(6, 5, 30)]);
        let parent = Process { children_user: 45, ..process(5, 1, 1) };
        let after = family.add_up(&[process(10, 1, 0), parent]);
        assert_eq!(after.others - before.others, 15, "it took 15 more before it ended");
    }

    #[test]
    fn the_busiest_of_the_others_has_a_name() {
        let mut family = family(10);
        let before = family.add_up(&[process(10, 1, 0), process(5, 1, 900), process(6, 1, 30)]);
        let after = family.add_up(&[process(10, 1, 500), process(5, 1, 901), process(6, 1, 80)]);
        assert_eq!(after.busiest_since(&before), Some((50, "program6")));
        assert_eq!(after.busiest_since(&after), None);
    }
}
