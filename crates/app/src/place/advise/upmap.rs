//! What Ceph's own balancer would do: `osdmaptool --upmap`, asked for groups as even as it can make
//! them.
//!
//! It evens out the number of groups on each OSD by exceptions to CRUSH, one entry for each group
//! that it moves. Its proposal is put into a copy of the map, and that is asked where everything
//! lies then.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_core::id::ServerId;

use super::cluster::{Group, Pool, number};
use super::source::Source;
use crate::exit::Exit;
use crate::stage::Stage;

/// The largest difference to the mean number of groups on an OSD that is put up with: the finest
/// that there is. Ceph's default is 5.
const DEVIATION: &str = "1";

/// More entries than any cluster needs.
const ENTRIES_MAX: &str = "100000";

/// How often a program is looked at that should come to its end.
const LOOK: Duration = Duration::from_millis(50);

/// What came of asking.
pub(super) enum Upmap {
    /// The pool's groups as they would lie.
    Proposal(Vec<Group>),
    /// There is none, for this reason.
    None(String),
}

/// Asks for a proposal for one pool.
///
/// # Errors
/// If the map cannot be fetched, or what the tool prints cannot be understood.
pub(super) fn propose(source: &Source, pool: &Pool, seconds: u64) -> anyhow::Result<Upmap> {
    let stage = Stage::new()?;
    let Some(original) = source.osdmap(&stage.path(""))? else {
        return Ok(Upmap::None("no --osdmap was given".to_owned()));
    };
    let map = stage.path("proposal");
    std::fs::copy(&original, &map).map_err(|error| {
        Exit::Runtime.because(format!("cannot read {}: {error}", original.display()))
    })?;
    let entries = stage.path("entries");
    let mut command = tool(&map);
    command.arg("--upmap").arg(&entries).args(["--upmap-deviation", DEVIATION]);
    command.args(["--upmap-max", ENTRIES_MAX, "--upmap-pool", &pool.name, "--save"]);
    let mut child = match command.stdout(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => {
            let why = format!("osdmaptool cannot be run ({error}); it is in Debian's ceph-base");
            return Ok(Upmap::None(why));
        }
    };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(Upmap::None(format!("osdmaptool took longer than {seconds} s")));
        }
        thread::sleep(LOOK);
    };
    if !status.success() {
        return Ok(Upmap::None(format!("osdmaptool ended with {status}")));
    }
    let mut command = tool(&map);
    let output =
        command.args(["--test-map-pgs-dump", "--pool", &pool.number.to_string()]).output()?;
    sets(&String::from_utf8_lossy(&output.stdout), pool).map(Upmap::Proposal)
}

fn tool(map: &Path) -> Command {
    let mut command = Command::new("osdmaptool");
    command.arg(map).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// The groups of a pool by lines such as `1.2f [3,5,7] 3`, with what each holds as before.
fn sets(text: &str, pool: &Pool) -> anyhow::Result<Vec<Group>> {
    let lines = text.lines().filter_map(|line| parse(line, pool));
    let told: BTreeMap<u32, Vec<ServerId>> = lines.collect();
    let groups = (0..).zip(&pool.groups).map(|(number, group)| {
        let servers = told.get(&number).filter(|servers| !servers.is_empty()).cloned();
        let servers = servers.ok_or_else(|| {
            let what = "tells nothing of group";
            Exit::Runtime.because(format!("osdmaptool {what} {}.{number:x}", pool.number))
        })?;
        Ok(Group { servers, bytes: group.bytes })
    });
    groups.collect()
}

fn parse(line: &str, pool: &Pool) -> Option<(u32, Vec<ServerId>)> {
    let mut words = line.split_whitespace();
    let (of, number) = number(words.next()?)?;
    let set = words.next()?.strip_prefix('[')?.strip_suffix(']')?;
    let osds = set.split(',').filter_map(|osd| osd.parse().ok());
    let servers = osds.filter_map(|osd: i64| pool.positions.get(&osd).copied()).collect();
    (of == pool.number).then_some((number, servers))
}

#[cfg(test)]
mod tests {
    use super::super::cluster::{Cluster, testing};
    use super::*;

    #[test]
    fn proposals_keep_what_groups_hold() {
        let pool = Cluster::parse(&testing::texts()).unwrap().pool(None).unwrap();
        let text = "pool 3 pg_num 3\n3.0\t[10,13]\t10\n3.1\t[12,11]\t12\n3.2\t[13,12]\t13\n\
                    #osd\tcount\nosd.10\t1\n in 4\n";
        let groups = sets(text, &pool).unwrap();
        let first = Group { servers: vec![ServerId(0), ServerId(3)], bytes: 1000 };
        assert_eq!((groups.len(), &groups[0]), (3, &first));
        assert!(sets("3.0\t[10]\t10\n", &pool).is_err(), "two groups are missing");
    }
}
