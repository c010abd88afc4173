//! On a real Ceph: how full it is when its first OSD is, by CRUSH alone and by choosing names.
//!
//! ```text
//! object 17 --> "17.0" --> group --> OSDs 4, 9, 2     CRUSH alone: always this one
//!          \--> "17.1" --> group --> OSDs 1, 9, 7     choices: the emptier set
//! ```
//!
//! Every filling has a fresh cluster, whose groups lie as those of the one before: what differs is
//! the placing. The filler goes by the manager's figures, which are a second or two old, and by
//! what it has written since. Near the end it goes slowly, so that Ceph can say that an OSD is full
//! before it is fuller than that.

mod changes;

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use evenkeel_core::place::choose::{CEILING, choose};
use evenkeel_core::place::cluster::GroupMap;
use evenkeel_core::place::lag::Lag;
use evenkeel_core::place::loads::{Loads, Metrics};
use evenkeel_core::place::policy::View;
use evenkeel_core::place::policy::space::Space;
use evenkeel_core::place::rados::{hash_of, pool_map};
use evenkeel_core::time::{Nanos, Span};
use evenkeel_io::rados::{Cluster, OsdUse, Pool, PoolStatus, RadosError};
use evenkeel_io::store::block_on;
use tokio::task::JoinSet;

use super::super::claim::{Claim, Verdict};
use super::reference::CephRow;
use crate::reproduce::Options;
use crate::stage::{CephCluster, CephOptions, Stage};
use crate::terminal;

const OSDS: u32 = 15;
const POOL: &str = "objects";

/// Part of its capacity at which an OSD counts as full: near 1, so that figures are parts of the
/// capacity rather than of what Ceph keeps back.
const FULL_PART: f64 = 0.98;

/// Writes under way at a time.
const WINDOW: usize = 16;

/// How old the manager's figures may be.
const LAG: Span = Span::from_secs(8);

/// How often they are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// So far below full the filler begins to go slowly, and by so much of the capacity in a second.
const BRINK: f64 = 0.02;
const SLOW: f64 = 0.002;

/// After the last write, all figures are of the time after it.
const SETTLE: Duration = Duration::from_secs(4);

/// Objects of which the cluster is asked where they are.
const PLACES: u64 = 50;

/// A way to place objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placing {
    Crush,
    Choices,
}

/// What came of one filling.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    mean: f64,
    fullest: f64,
    /// Of what was written alone: average over maximum.
    evenness: f64,
    objects: u64,
    diverted: u64,
    full_osds: usize,
}

/// What came of meeting the ceiling.
#[derive(Clone, Copy, Debug)]
struct AtCeiling {
    mean: f64,
    fullest: f64,
    full_osds: usize,
    /// How long a write to an object that is there takes then.
    rewrite: Duration,
}

/// Fills clusters, one for each number of copies and way to place.
pub(super) fn claims(rows: &[CephRow], options: &Options) -> anyhow::Result<Vec<Claim>> {
    let mut claims = Vec::new();
    for row in rows {
        let (crush, _) = fill(row, Placing::Crush, options, &mut claims)?;
        let (choices, at_ceiling) = fill(row, Placing::Choices, options, &mut claims)?;
        claims.extend(of_row(row, &crush, &choices));
        claims.extend(of_ceiling(row, &at_ceiling.context("choices met the ceiling")?));
    }
    claims.extend(changes::claims()?);
    Ok(claims)
}

/// Fills a fresh cluster; with choices, to the ceiling first.
fn fill(
    row: &CephRow,
    placing: Placing,
    options: &Options,
    claims: &mut Vec<Claim>,
) -> anyhow::Result<(Outcome, Option<AtCeiling>)> {
    let begin = Instant::now();
    let say = |what: &str| {
        let seconds = begin.elapsed().as_secs_f64();
        terminal::say(&format!("{}, {}: {what} after {seconds:.0} s", row.name, placing.name()));
    };
    let stage = Stage::new()?;
    let (cluster_options, object_bytes) = size(options);
    let cluster = CephCluster::start(&stage, "ceph", &cluster_options)?;
    let pool = cluster.make_pool(POOL, row.groups, row.copies)?;
    say("up");
    if placing == Placing::Crush {
        claims.push(of_places(row, &cluster, &pool)?);
    }
    let outcome = block_on(async {
        let mut filler = Filler::new(pool, placing, object_bytes)?;
        let at_ceiling = match placing {
            Placing::Crush => None,
            Placing::Choices => Some(filler.fill_to_ceiling().await?),
        };
        filler.ceiling = f64::INFINITY;
        filler.fill_until_full().await?;
        Ok::<_, anyhow::Error>((filler.outcome().await?, at_ceiling))
    })??;
    say("full");
    Ok(outcome)
}

impl Placing {
    fn name(self) -> &'static str {
        match self {
            Self::Crush => "CRUSH alone",
            Self::Choices => "choices",
        }
    }
}

/// Small clusters, in memory, and the size of objects.
fn size(options: &Options) -> (CephOptions, u64) {
    let (osd_bytes, object_bytes) =
        if options.quick { (192 << 20, 64 << 10) } else { (512 << 20, 128 << 10) };
    let options = CephOptions {
        osds: OSDS,
        osd_bytes,
        full_part: FULL_PART,
        cephx: false,
        grace_seconds: 20,
    };
    (options, object_bytes)
}

/// Writes objects until something is full.
struct Filler {
    pool: Rc<Pool>,
    placing: Placing,
    object_bytes: u64,
    map: GroupMap,
    loads: Loads,
    lag: Lag,
    policy: Space,
    ceiling: f64,
    start: Instant,
    looked_at: Instant,
    /// What OSDs held before anything was written.
    before: Vec<OsdUse>,
    payload: Rc<Vec<u8>>,
    writes: JoinSet<Result<(), RadosError>>,
    /// Whether Ceph has refused a write for want of room.
    is_refused: bool,
    objects: u64,
    /// By object: the candidate that was taken.
    positions: Vec<u8>,
    /// Bytes that may be written before the next look, when going slowly.
    allowance: u64,
}

impl Filler {
    fn new(pool: Pool, placing: Placing, object_bytes: u64) -> anyhow::Result<Self> {
        let status = pool.cluster().pool_status(pool.id())?;
        let map = pool_map(&status.serving(), status.nobody())?;
        let before = pool.cluster().osd_uses()?;
        let size = usize::try_from(object_bytes).context("objects are small")?;
        let mut filler = Self {
            pool: Rc::new(pool),
            placing,
            object_bytes,
            map,
            loads: Loads::new(status.nobody().index() + 1),
            lag: Lag::new(LAG),
            policy: Space::with_margin(0.0),
            ceiling: CEILING,
            start: Instant::now(),
            looked_at: Instant::now(),
            before,
            payload: Rc::new(vec![0x5a; size]),
            writes: JoinSet::new(),
            is_refused: false,
            objects: 0,
            positions: Vec::new(),
            allowance: 0,
        };
        filler.look()?;
        Ok(filler)
    }

    /// Writes until no candidate of an object has room, as a volume would; then looks what that
    /// means for the cluster.
    async fn fill_to_ceiling(&mut self) -> anyhow::Result<AtCeiling> {
        while self.place().is_some() {
            self.write_one().await?;
            self.look_now_and_then()?;
        }
        self.drain().await?;
        tokio::time::sleep(SETTLE).await;
        let begin = Instant::now();
        let first = self.positions.first().context("something was written")?;
        self.pool.write(&name(0, usize::from(*first)), 0, &[1; 4096]).await?;
        let rewrite = begin.elapsed();
        self.look()?;
        let uses = self.pool.cluster().osd_uses()?;
        let (mean, fullest) = parts(&uses);
        Ok(AtCeiling { mean, fullest, full_osds: self.status()?.full().len(), rewrite })
    }

    /// Writes until Ceph says that an OSD is full.
    async fn fill_until_full(&mut self) -> anyhow::Result<()> {
        while !self.is_refused {
            if self.looked_at.elapsed() >= LOOK_EVERY {
                self.look()?;
                if self.fullest_reported() > FULL_PART - BRINK && !self.status()?.full().is_empty()
                {
                    break;
                }
            }
            if self.fullest_known() > FULL_PART - BRINK {
                if self.allowance < self.object_bytes {
                    self.drain().await?;
                    tokio::time::sleep(LOOK_EVERY.saturating_sub(self.looked_at.elapsed())).await;
                    continue;
                }
                self.allowance -= self.object_bytes;
            }
            self.write_one().await?;
        }
        self.drain().await
    }

    async fn outcome(&self) -> anyhow::Result<Outcome> {
        tokio::time::sleep(SETTLE).await;
        let uses = self.pool.cluster().osd_uses()?;
        let (mean, fullest) = parts(&uses);
        let written = uses.iter().zip(&self.before);
        let data: Vec<f64> = written
            .map(|(now, then)| now.used_bytes.saturating_sub(then.used_bytes) as f64)
            .collect();
        let most = data.iter().copied().fold(0.0, f64::max);
        Ok(Outcome {
            mean,
            fullest,
            evenness: data.iter().sum::<f64>() / data.len() as f64 / most,
            objects: self.objects,
            diverted: self.positions.iter().filter(|position| **position > 0).count() as u64,
            full_osds: self.status()?.full().len(),
        })
    }

    async fn write_one(&mut self) -> anyhow::Result<()> {
        if self.writes.len() >= WINDOW {
            let written = self.writes.join_next().await.expect("the window is full")?;
            self.settle(written)?;
        }
        let Some(position) = self.place() else { return Ok(()) };
        let name = name(self.objects, position);
        let now = Nanos(u64::try_from(self.start.elapsed().as_nanos()).expect("centuries"));
        for server in self.map.servers(self.map.group_of(u64::from(hash_of(&name)))) {
            self.lag.wrote(now, &mut self.loads, *server, self.object_bytes);
        }
        self.objects += 1;
        self.positions.push(u8::try_from(position).expect("two candidates"));
        let (pool, payload) = (Rc::clone(&self.pool), Rc::clone(&self.payload));
        self.writes.spawn_local(async move { pool.write_full(&name, &payload).await });
        Ok(())
    }

    /// The candidate of the next object.
    fn place(&self) -> Option<usize> {
        if self.placing == Placing::Crush {
            return Some(0);
        }
        let view = View { loads: &self.loads, size_bytes: self.object_bytes };
        let set = |position| {
            let hash = hash_of(&name(self.objects, position));
            self.map.servers(self.map.group_of(u64::from(hash)))
        };
        choose(&self.policy, &view, (0..2).map(set), self.ceiling).ok()
    }

    async fn drain(&mut self) -> anyhow::Result<()> {
        while let Some(written) = self.writes.join_next().await {
            self.settle(written?)?;
        }
        Ok(())
    }

    fn settle(&mut self, written: Result<(), RadosError>) -> anyhow::Result<()> {
        match written {
            Err(error) if error.is_full() => self.is_refused = true,
            written => written?,
        }
        Ok(())
    }

    fn look_now_and_then(&mut self) -> anyhow::Result<()> {
        if self.looked_at.elapsed() >= LOOK_EVERY { self.look() } else { Ok(()) }
    }

    /// Takes in where groups are now.
    fn remap(&mut self) -> anyhow::Result<()> {
        let status = self.status()?;
        self.map = pool_map(&status.serving(), status.nobody())?;
        self.look()
    }

    fn look(&mut self) -> anyhow::Result<()> {
        let since = self.looked_at.elapsed();
        self.looked_at = Instant::now();
        let now = Nanos(u64::try_from(self.start.elapsed().as_nanos()).expect("centuries"));
        let uses = self.pool.cluster().osd_uses()?;
        for one in &uses {
            let OsdUse { osd, capacity_bytes, used_bytes, .. } = *one;
            let metrics = Metrics { capacity_bytes, used_bytes, ..Metrics::default() };
            self.lag.report(now, &mut self.loads, osd, metrics);
        }
        let capacity: u64 = uses.iter().map(|one| one.capacity_bytes).sum();
        let copies = self.map.servers(0).len() as f64;
        let bytes = capacity as f64 * SLOW * since.as_secs_f64() / copies;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let bytes = bytes as u64;
        self.allowance = self.allowance.min(bytes) + bytes;
        Ok(())
    }

    fn status(&self) -> anyhow::Result<PoolStatus> {
        Ok(self.pool.cluster().pool_status(self.pool.id())?)
    }

    fn fullest_known(&self) -> f64 {
        let known = self.before.iter().map(|one| self.loads.used_part(one.osd, 0));
        known.fold(0.0, f64::max)
    }

    fn fullest_reported(&self) -> f64 {
        let part = |one: &OsdUse| {
            let reported = self.loads.reported(one.osd);
            reported.used_bytes as f64 / reported.capacity_bytes.max(1) as f64
        };
        self.before.iter().map(part).fold(0.0, f64::max)
    }
}

/// The name of a candidate.
fn name(object: u64, position: usize) -> String {
    format!("filled.{object:08x}.{position}")
}

/// Mean and greatest part in use.
fn parts(uses: &[OsdUse]) -> (f64, f64) {
    let parts = uses.iter().map(|one| one.used_bytes as f64 / one.capacity_bytes as f64);
    let fullest = parts.clone().fold(0.0, f64::max);
    (parts.sum::<f64>() / uses.len() as f64, fullest)
}

fn of_row(row: &CephRow, crush: &Outcome, choices: &Outcome) -> Vec<Claim> {
    let told = |outcome: &Outcome| {
        Some(format!(
            "the fullest at {}, {} of {OSDS} OSDs full; {} objects, {:.0} % of them at their \
             second name",
            percent(outcome.fullest),
            outcome.full_osds,
            outcome.objects,
            outcome.diverted as f64 / outcome.objects as f64 * 100.0
        ))
    };
    let paper = |part: Option<f64>| part.map_or_else(String::new, percent);
    let mean = |what: &str, value, paper| Claim {
        paper,
        measured: percent(value),
        value,
        ..claim(row, what)
    };
    let even = |what: &str, value: f64| Claim {
        measured: format!("{value:.3}"),
        value,
        ..claim(row, what)
    };
    vec![
        Claim {
            why: told(crush),
            ..mean("CRUSH alone, in use", crush.mean, paper(row.paper_crush))
        },
        even("CRUSH alone, data average over maximum", crush.evenness),
        Claim {
            tolerance: format!("at least {}", percent(row.at_least)),
            verdict: Verdict::of(choices.mean >= row.at_least),
            why: told(choices),
            ..mean("choices, in use", choices.mean, paper(row.paper_choices))
        },
        Claim {
            tolerance: format!("at least {:.2}", row.evenness_at_least),
            verdict: Verdict::of(choices.evenness >= row.evenness_at_least),
            ..even("choices, data average over maximum", choices.evenness)
        },
    ]
}

fn of_ceiling(row: &CephRow, at_ceiling: &AtCeiling) -> Vec<Claim> {
    let AtCeiling { mean, fullest, full_osds, rewrite } = *at_ceiling;
    // The filler's figures are above the real ones, if they err.
    let most = CEILING + 0.005;
    vec![
        Claim {
            measured: format!("{}, mean {}", percent(fullest), percent(mean)),
            value: fullest,
            tolerance: format!("at most {}", percent(most)),
            verdict: Verdict::of(fullest <= most && full_osds == 0),
            why: Some(format!(
                "no candidate of the next object has room below the ceiling of {}: its write ends \
                 with ENOSPC at once, a write to an object that is there took {:.1} ms",
                percent(CEILING),
                rewrite.as_secs_f64() * 1e3
            )),
            ..claim(row, "at the ceiling, the fullest OSD")
        },
        Claim {
            measured: full_osds.to_string(),
            value: full_osds as f64,
            tolerance: "0".to_owned(),
            verdict: Verdict::of(full_osds == 0),
            ..claim(row, "at the ceiling, full OSDs")
        },
    ]
}

/// Whether names lie where our own hashing says.
fn of_places(row: &CephRow, staged: &CephCluster, pool: &Pool) -> anyhow::Result<Claim> {
    let cluster: &Cluster = staged.cluster();
    let status = cluster.pool_status(pool.id())?;
    let map = pool_map(&status.serving(), status.nobody())?;
    let mut found = 0;
    for object in 0..PLACES {
        let name = name(object, (object % 2) as usize);
        let place = staged.place_of(pool.name(), &name)?;
        let acting = place["acting"].as_array().context("the monitor tells the acting set")?;
        let acting = acting.iter().filter_map(serde_json::Value::as_u64);
        let ours = map.servers(map.group_of(u64::from(hash_of(&name))));
        found += u64::from(acting.eq(ours.iter().map(|one| u64::from(one.0))));
    }
    Ok(Claim {
        measured: format!("{found} of {PLACES}"),
        value: found as f64,
        tolerance: "all".to_owned(),
        verdict: Verdict::of(found == PLACES),
        ..claim(row, "names found where Ceph says")
    })
}

fn claim(row: &CephRow, what: &str) -> Claim {
    let id = format!("ceph {} {what}", row.name).to_lowercase().replace(',', "").replace(' ', "-");
    Claim::shown(id, format!("Ceph, {}: {what}", row.name))
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}
