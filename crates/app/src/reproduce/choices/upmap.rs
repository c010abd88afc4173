//! Choices beside Ceph's own balancer, on the same cluster map: how even, and how much moves when
//! servers join or leave.
//!
//! `osdmaptool` lays the groups of a pool out by CRUSH and makes them as even as it can by upmap
//! entries, before and after each change. Choices leave CRUSH alone. Both are filled to a part, see
//! the change, and go on until the first server is full:
//!
//! ```text
//! CRUSH ---------> sets --choices--> 60 % --change--> sets --choices--> full
//!       \--upmap-> sets --hashing--> 60 % --change, upmap--> sets --hashing--> full
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use evenkeel_core::id::ServerId;
use evenkeel_core::place::cluster::{GroupMap, Member};
use evenkeel_core::place::policy::space::Space;
use evenkeel_sim::fill::change::{Changed, change};
use evenkeel_sim::fill::{Chooser, Cluster, Writers, cluster};

use super::super::claim::{Claim, Verdict};
use super::reference::UpmapRow;
use crate::stage::Stage;

/// How full the cluster is when it changes.
const FILLED: f64 = 0.6;

/// Replicas of the pool that `osdmaptool` makes.
const REPLICAS: usize = 3;

/// A cluster map of Ceph, in a file.
struct Map<'a> {
    stage: &'a Stage,
    file: PathBuf,
}

/// Says why there can be no comparison, if there can be none.
pub(super) fn missing() -> Option<String> {
    let is_there = |tool: &str| Command::new(tool).arg("--help").output().is_ok();
    let tools = ["osdmaptool", "crushtool"].into_iter().filter(|tool| !is_there(tool));
    let missing: Vec<&str> = tools.collect();
    let words = missing.join(" and ");
    (!missing.is_empty()).then(|| format!("SKIPPED: upmap needs {words} (package ceph-base)"))
}

/// The claims about one cluster.
///
/// # Errors
/// If the tools fail.
pub(super) fn claims(row: &UpmapRow, each: u64, seed: u64) -> anyhow::Result<Vec<Claim>> {
    let stage = Stage::new()?;
    let before = Map::new(&stage, "before", row)?;
    let joined = before.weighted("joined", row.servers - row.join..row.servers, 1)?;
    let left = joined.weighted("left", 0..row.leave, 0)?;
    let even = before.balanced("even")?;
    let even_joined =
        even.weighted("even-joined", row.servers - row.join..row.servers, 1)?.balanced("e-j")?;
    let even_left = even_joined.weighted("even-left", 0..row.leave, 0)?.balanced("e-l")?;

    let policy = Space::with_margin(0.0);
    let choices = Chooser::Policy { policy: &policy, candidates: 2 };
    let present = |from: u32, to: u32| move |server: u32| (from..to).contains(&server);
    let few = members(row.servers, each, present(0, row.servers - row.join));
    let all = members(row.servers, each, present(0, row.servers));
    let rest = members(row.servers, each, present(row.leave, row.servers));
    let run = |sides: [(&[Member], &Map<'_>); 2], chooser: &Chooser<'_>| {
        let [old, new] = [sides[0].1.groups()?, sides[1].1.groups()?];
        let of = |members, map| Cluster { members, map, object_bytes: 1 };
        let clusters = [&of(sides[0].0, &old), &of(sides[1].0, &new)];
        let changed = change(clusters, [chooser; 2], Writers::default(), FILLED, seed);
        anyhow::Ok(changed)
    };
    let hashing = Chooser::Hashing;
    let join = [
        run([(&few, &before), (&all, &joined)], &choices)?,
        run([(&few, &even), (&all, &even_joined)], &hashing)?,
    ];
    let leave = [
        run([(&all, &joined), (&rest, &left)], &choices)?,
        run([(&all, &even_joined), (&rest, &even_left)], &hashing)?,
    ];
    let first = run([(&few, &before), (&few, &even)], &hashing)?.regrouped_part;
    let mut claims = vec![shown(row, "moved to be even at first, upmap", first)];
    claims.extend(compared(row, &format!("{} join", row.join), &join));
    claims.extend(compared(row, &format!("{} leave", row.leave), &leave));
    let both = [0, 1].map(|side| join[side].regrouped_part + leave[side].regrouped_part);
    claims.extend(moved(row, both));
    Ok(claims)
}

/// Choices must fill no less.
fn compared(row: &UpmapRow, what: &str, [choices, upmap]: &[Changed; 2]) -> Vec<Claim> {
    let full = |of: &Changed| of.full.used_part;
    let moved = |name: &str, of: &Changed| Claim {
        attainable: Some(percent(of.least_part)),
        ..shown(row, &format!("{what}, moved, {name}"), of.regrouped_part)
    };
    vec![
        moved("choices", choices),
        moved("upmap", upmap),
        Claim {
            tolerance: format!("at least {}", percent(full(upmap))),
            verdict: Verdict::of(full(choices) >= full(upmap)),
            ..shown(row, &format!("{what}, full afterwards, choices"), full(choices))
        },
        shown(row, &format!("{what}, full afterwards, upmap"), full(upmap)),
    ]
}

/// Choices must move less. One change alone may be luck: proposals of upmap differ from run to run.
fn moved(row: &UpmapRow, [choices, upmap]: [f64; 2]) -> Vec<Claim> {
    vec![
        Claim {
            tolerance: format!("less than {}", percent(upmap)),
            verdict: Verdict::of(choices < upmap),
            ..shown(row, "both changes, moved, choices", choices)
        },
        shown(row, "both changes, moved, upmap", upmap),
    ]
}

fn shown(row: &UpmapRow, what: &str, value: f64) -> Claim {
    let words: Vec<&str> =
        what.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let id = format!("upmap-{}-servers-{}", row.servers, words.join("-"));
    let claim = Claim::shown(id, format!("{} servers: {what}", row.servers));
    Claim { measured: percent(value), value, ..claim }
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

/// Servers of a size, and those without any that are not there.
fn members(servers: u32, each: u64, is_present: impl Fn(u32) -> bool) -> Vec<Member> {
    let mut members = cluster::even(servers, 1, each);
    for member in members.iter_mut().filter(|member| !is_present(member.server.0)) {
        member.capacity_bytes = 0;
    }
    members
}

impl<'a> Map<'a> {
    /// OSDs in hosts of their own, of which the last ones have no weight yet.
    fn new(stage: &'a Stage, name: &str, row: &UpmapRow) -> anyhow::Result<Self> {
        let map = Self { stage, file: stage.path(name) };
        let count = row.servers.to_string();
        map.tool(&["--createsimple", &count, "--with-default-pool", "--pg-bits", "5"])?;
        let crush = stage.path("crush");
        let mut build = Command::new("crushtool");
        build.args(["--build", "--num_osds", &count, "-o"]).arg(&crush);
        run(build.args(["host", "straw2", "1", "root", "straw2", "0"]))?;
        map.tool(&["--import-crush", &crush.to_string_lossy()])?;
        let joining = row.servers - row.join..row.servers;
        map.tool(&["--mark-up-in", "--adjust-crush-weight", &weights(joining, 0), "--save"])?;
        Ok(map)
    }

    /// A copy in which some OSDs have another weight.
    fn weighted(
        &self,
        name: &str,
        osds: std::ops::Range<u32>,
        weight: u32,
    ) -> anyhow::Result<Self> {
        let map = self.copy(name)?;
        map.tool(&["--adjust-crush-weight", &weights(osds, weight), "--save"])?;
        Ok(map)
    }

    /// A copy with as even a number of groups on each OSD as upmap can make it.
    fn balanced(&self, name: &str) -> anyhow::Result<Self> {
        let map = self.copy(name)?;
        let entries = self.stage.path("entries");
        let entries = entries.to_string_lossy();
        let options = ["--upmap-deviation", "1", "--upmap-max", "100000", "--save"];
        map.tool(&[&["--upmap", &entries][..], &options].concat())?;
        Ok(map)
    }

    fn copy(&self, name: &str) -> anyhow::Result<Self> {
        let file = self.stage.path(name);
        std::fs::copy(&self.file, &file).context("cannot copy a cluster map")?;
        Ok(Self { stage: self.stage, file })
    }

    /// Where the groups of the pool lie; there are a power of two of them.
    fn groups(&self) -> anyhow::Result<GroupMap> {
        let text = self.tool(&["--test-map-pgs-dump", "--pool", "1"])?;
        let sets: Vec<Vec<ServerId>> = text.lines().filter_map(set).collect();
        let is_whole = sets.iter().all(|set| set.len() == REPLICAS);
        ensure!(is_whole, "osdmaptool found no {REPLICAS} OSDs for some groups");
        GroupMap::of_sets(&sets).context("osdmaptool lays out another pool than was asked for")
    }

    fn tool(&self, arguments: &[&str]) -> anyhow::Result<String> {
        run(Command::new("osdmaptool").arg(&self.file).args(arguments))
    }
}

/// The set of a line such as `1.2f [3,5,7] 3`.
fn set(line: &str) -> Option<Vec<ServerId>> {
    let set = line.split_whitespace().nth(1)?.strip_prefix('[')?.strip_suffix(']')?;
    set.split(',').map(|osd| osd.parse().ok().map(ServerId)).collect()
}

fn weights(osds: std::ops::Range<u32>, weight: u32) -> String {
    osds.map(|osd| format!("{osd}:{weight}")).collect::<Vec<_>>().join(",")
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} ended with {}: {}", output.status, words.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_from_what_osdmaptool_prints() {
        let read = ["1.2f\t[3,15,7]\t3", "osd.3\t96\t30\t30\t1\t1", " in 16", "pool 1 pg_num 512"];
        let read = read.map(set);
        let expected = vec![ServerId(3), ServerId(15), ServerId(7)];
        assert_eq!(read, [Some(expected), None, None, None]);
        assert_eq!(weights(14..16, 0), "14:0,15:0");
    }
}
