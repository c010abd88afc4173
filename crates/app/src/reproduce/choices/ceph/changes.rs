//! A real Ceph changes under objects that were placed by choices: an OSD goes out and comes back,
//! the pool is split, an OSD joins. Nobody does anything for the objects, and each must be found
//! under the name that was chosen for it.
//!
//! What was even is less so afterwards, since the choices were right for the map before; as many
//! objects again, chosen by the new map, must mend most of that.

use std::time::Instant;

use anyhow::Context;
use evenkeel_io::rados::{OsdUse, Whom};
use evenkeel_io::store::block_on;
use serde_json::json;

use super::super::super::claim::{Claim, Verdict};
use super::{FULL_PART, Filler, POOL, Placing, SETTLE, name};
use crate::stage::{CephCluster, CephOptions, Stage};
use crate::terminal;

const OSDS: u32 = 6;
const GROUPS: u32 = 64;
const COPIES: u32 = 2;
const OBJECTS: u64 = 1500;
const OBJECT_BYTES: u64 = 64 << 10;

/// The OSD that goes out and comes back.
const RESTLESS: &str = "3";

/// How much further the fullest OSD may be from the mean at last than it was at first.
const MENDED: f64 = 0.03;

/// What happens to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Out,
    In,
    Split,
    Join,
}

/// Carries the changes out, one after the other, on a cluster of its own.
pub(super) fn claims() -> anyhow::Result<Vec<Claim>> {
    let stage = Stage::new()?;
    let mut cluster = CephCluster::start(
        &stage,
        "ceph",
        &CephOptions {
            osds: OSDS,
            osd_bytes: 512 << 20,
            full_part: FULL_PART,
            cephx: false,
            grace_seconds: 20,
        },
    )?;
    // Or the groups of a split pool would move a few at a time.
    let all_at_once = json!({
        "prefix": "config set", "who": "mgr", "name": "target_max_misplaced_ratio", "value": "1",
    });
    cluster.ask(Whom::Monitor, &all_at_once)?;
    let pool = cluster.make_pool(POOL, GROUPS, COPIES)?;
    block_on(async {
        let mut filler = Filler::new(pool, Placing::Choices, OBJECT_BYTES)?;
        filler.write(OBJECTS).await?;
        tokio::time::sleep(SETTLE).await;
        let at_first = filler.fullest_over_mean()?;
        let mut claims = vec![shown("fullest OSD over mean at first", at_first)];
        let mut groups = GROUPS;
        for change in [Change::Out, Change::In, Change::Split, Change::Join] {
            let begin = Instant::now();
            change.carry_out(&mut cluster, &mut groups)?;
            // Until the manager has heard of it, all is as it was.
            tokio::time::sleep(SETTLE).await;
            cluster.wait_until_served(&filler.pool, groups)?;
            let seconds = begin.elapsed().as_secs_f64();
            terminal::say(&format!("{}: settled after {seconds:.0} s", change.name()));
            tokio::time::sleep(SETTLE).await;
            claims.push(found(change, filler.found().await, filler.objects));
            let what = format!("fullest OSD over mean, {}", change.name());
            claims.push(shown(&what, filler.fullest_over_mean()?));
        }
        filler.remap()?;
        filler.write(OBJECTS).await?;
        tokio::time::sleep(SETTLE).await;
        let at_last = filler.fullest_over_mean()?;
        claims.push(Claim {
            tolerance: format!("at most {:.3}", at_first + MENDED),
            verdict: Verdict::of(at_last <= at_first + MENDED),
            ..shown("fullest OSD over mean, as many objects later", at_last)
        });
        Ok(claims)
    })?
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Self::Out => "an OSD out",
            Self::In => "in again",
            Self::Split => "the pool split",
            Self::Join => "an OSD joined",
        }
    }

    fn carry_out(self, cluster: &mut CephCluster, groups: &mut u32) -> anyhow::Result<()> {
        match self {
            Self::Out | Self::In => {
                let prefix = if self == Self::Out { "osd out" } else { "osd in" };
                cluster.ask(Whom::Monitor, &json!({"prefix": prefix, "ids": [RESTLESS]}))?;
            }
            Self::Split => {
                *groups *= 2;
                for var in ["pg_num", "pgp_num"] {
                    let set = json!({
                        "prefix": "osd pool set", "pool": POOL, "var": var,
                        "val": groups.to_string(),
                    });
                    cluster.ask(Whom::Monitor, &set)?;
                }
            }
            Self::Join => {
                cluster.join()?;
            }
        }
        Ok(())
    }
}

impl Filler {
    /// Writes so many objects more.
    async fn write(&mut self, objects: u64) -> anyhow::Result<()> {
        let end = self.objects + objects;
        while self.objects < end {
            self.place().context("there is room for all")?;
            self.write_one().await?;
            self.look_now_and_then()?;
        }
        self.drain().await
    }

    /// How many objects are there, whole, under the names that were chosen.
    async fn found(&self) -> u64 {
        let mut found = 0;
        for (object, position) in (0..).zip(&self.positions) {
            let buffer = vec![0; self.payload.len()];
            let read = self.pool.read(&name(object, usize::from(*position)), 0, buffer).await;
            found += u64::from(read.is_ok_and(|(bytes, _)| bytes == *self.payload));
        }
        found
    }

    /// What the fullest OSD holds of what was written, over the mean of those that are in.
    fn fullest_over_mean(&self) -> anyhow::Result<f64> {
        let uses = self.pool.cluster().osd_uses()?;
        let before = |osd| self.before.iter().find(|one| one.osd == osd);
        // An OSD that has joined began as the others did.
        let empty = self.before.iter().map(|one| one.used_bytes).min().unwrap_or(0);
        let written = |one: &OsdUse| {
            one.used_bytes.saturating_sub(before(one.osd).map_or(empty, |then| then.used_bytes))
        };
        let is_in = uses.iter().filter(|one| one.capacity_bytes > 0);
        let data: Vec<f64> = is_in.map(|one| written(one) as f64).collect();
        let most = data.iter().copied().fold(0.0, f64::max);
        Ok(most * data.len() as f64 / data.iter().sum::<f64>())
    }
}

fn found(change: Change, found: u64, objects: u64) -> Claim {
    Claim {
        measured: format!("{found} of {objects}"),
        value: found as f64,
        tolerance: "all".to_owned(),
        verdict: Verdict::of(found == objects),
        ..claim(&format!("found under their names, {}", change.name()))
    }
}

fn shown(what: &str, value: f64) -> Claim {
    Claim { measured: format!("{value:.3}"), value, ..claim(what) }
}

fn claim(what: &str) -> Claim {
    let id = format!("ceph changes {what}").to_lowercase().replace(',', "").replace(' ', "-");
    Claim::shown(id, format!("Ceph changes: {what}"))
}
