//! Our part: a table of groups, looked up for object after object by this very thread.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use evenkeel_core::id::ServerId;
use evenkeel_core::place::candidates::ObjectName;
use evenkeel_core::place::choose::{CEILING, choose};
use evenkeel_core::place::cluster::{DomainId, GroupMap, GroupOptions, Member};
use evenkeel_core::place::loads::{Loads, Metrics};
use evenkeel_core::place::policy::View;
use evenkeel_core::place::policy::space::Space;

use super::{REPLICAS, Shape};
use crate::cpu;

/// Bytes of a server, and of an object.
const SERVER_BYTES: u64 = 4 << 40;
const OBJECT_BYTES: u64 = 4 << 20;

/// A cluster whose servers are filled unevenly.
pub(super) struct Table {
    map: GroupMap,
    loads: Loads,
    /// What it took to make the table.
    pub(super) made_ms: f64,
}

impl Table {
    pub(super) fn build(shape: Shape) -> Result<Self> {
        let member = |number: u32| Member {
            server: ServerId(number),
            capacity_bytes: SERVER_BYTES,
            domain: DomainId(number / shape.per_host),
        };
        let members: Vec<Member> = (0..shape.servers).map(member).collect();
        let options = GroupOptions { group_bits: shape.group_bits, replicas: REPLICAS, seed: 1 };
        let before = own_time()?;
        let map = GroupMap::new(&members, options)?;
        let made_ms = own_time()?.saturating_sub(before).as_secs_f64() * 1e3;
        let mut loads = Loads::new(members.len());
        for member in &members {
            let used_bytes = SERVER_BYTES / 100 * (40 + u64::from(member.server.0 * 7 % 20));
            let capacity_bytes = SERVER_BYTES;
            let metrics = Metrics { capacity_bytes, used_bytes, ..Metrics::default() };
            loads.report(member.server, metrics);
        }
        Ok(Self { map, loads, made_ms })
    }

    /// Nanoseconds for the servers of one candidate.
    pub(super) fn look_up(&self, count: u64) -> Result<f64> {
        each_ns(count, |index| {
            let candidates = ObjectName { volume: 7, index }.candidates(&self.map, 1);
            let servers = self.map.servers(candidates.groups()[0]);
            servers.iter().fold(0, |sum, server| sum ^ server.0)
        })
    }

    /// Nanoseconds for looking up and comparing two candidates over all their servers.
    pub(super) fn choose(&self, count: u64) -> Result<f64> {
        let policy = Space::with_margin(0.01);
        let view = View { loads: &self.loads, size_bytes: OBJECT_BYTES };
        each_ns(count, |index| {
            let candidates = ObjectName { volume: 7, index }.candidates(&self.map, 2);
            let position = choose(&policy, &view, candidates.sets(&self.map), CEILING);
            position.map_or(u32::MAX, |position| candidates.groups()[position])
        })
    }
}

/// Processor time of each call, in nanoseconds.
fn each_ns(count: u64, work: impl Fn(u64) -> u32) -> Result<f64> {
    let before = own_time()?;
    let sum = (0..count).fold(0u32, |sum, index| sum.wrapping_add(work(index)));
    black_box(sum);
    Ok(own_time()?.saturating_sub(before).as_secs_f64() * 1e9 / count as f64)
}

fn own_time() -> Result<Duration> {
    cpu::time_of(std::process::id())
}
