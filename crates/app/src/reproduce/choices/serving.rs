//! A cluster at work: what choices by nearness and memory are worth, that choices by figures which
//! change quickly do no harm, and what asking before the first access costs.

use evenkeel_core::place::cluster::{DomainId, GroupMap, GroupOptions, Member};
use evenkeel_core::place::policy::Policy;
use evenkeel_core::place::policy::cpu::Cpu;
use evenkeel_core::place::policy::journal::Journal;
use evenkeel_core::place::policy::latency::Latency;
use evenkeel_core::place::policy::local::Local;
use evenkeel_core::place::policy::memory::Memory;
use evenkeel_core::place::policy::space::Space;
use evenkeel_core::time::Span;
use evenkeel_sim::serving::{
    Hog, Knowledge, Machines, Pattern, Placing, PolicyOf, Served, Serving, Work, play,
};

use super::super::claim::{Claim, Verdict};
use super::reference::{HarmlessPolicy, HarmlessRow, LocalRow, MemoryRow, ProbeRow, Reference};

/// What servers report without being asked, as a Ceph manager does.
const REPORTS: Knowledge = Knowledge::Reports(Span::from_secs(1));

const OBJECT_BYTES: u64 = 4 << 20;

/// Groups, as a power of two: 34 sets to a server with three copies.
const GROUP_BITS: u32 = 9;

/// Tables of groups that each figure is the mean of.
const TABLES: u32 = 5;

/// The hall in which all of it takes place.
struct Hall<'a> {
    reference: &'a Reference,
    quick: bool,
    seed: u64,
}

/// The claims.
pub(super) fn claims(reference: &Reference, quick: bool, seed: u64) -> Vec<Claim> {
    let hall = Hall { reference, quick, seed };
    let mut claims = Vec::new();
    for row in &reference.local {
        claims.extend(hall.local(row));
    }
    claims.extend(reference.memory.iter().map(|row| hall.memory(row)));
    for row in &reference.harmless {
        claims.extend(hall.harmless(row));
    }
    for row in &reference.probe {
        claims.extend(hall.probe(row));
    }
    claims
}

impl Hall<'_> {
    fn machines(&self) -> Machines {
        let figures = &self.reference.serving;
        Machines {
            count: figures.machines,
            servers_each: figures.servers_each,
            link_bytes_per_s: figures.link_bytes_per_s,
            hop: Span::from_micros(figures.hop_us),
            cores: figures.cores,
            work: Span::from_micros(figures.work_us),
            seek: Span::from_micros(figures.seek_us),
            disk_bytes_per_s: figures.disk_bytes_per_s,
            log: Span::from_micros(figures.log_us),
            journal_bytes_per_s: figures.journal_bytes_per_s,
            journal_bytes: figures.journal_bytes,
            memory_bytes: figures.memory_bytes,
            hogs: Vec::new(),
        }
    }

    /// Requests as large as objects, unless the row has others.
    fn work(&self, pattern: Pattern, depth: u32) -> Work {
        let figures = &self.reference.serving;
        let measure = if self.quick { 10_000 } else { 100_000 };
        Work {
            pattern,
            images: figures.images,
            image_objects: figures.image_objects,
            request_bytes: OBJECT_BYTES,
            object_bytes: OBJECT_BYTES,
            depth,
            settle: measure / 2,
            measure,
        }
    }

    /// The mean over some tables of groups: on a single one, its fullest server decides.
    fn play(&self, machines: &Machines, copies: usize, work: Work, placing: Placing<'_>) -> Served {
        let mut mean = Served::default();
        for table in 0..TABLES {
            let seed = self.seed * u64::from(TABLES) + u64::from(table);
            let options = GroupOptions { group_bits: GROUP_BITS, replicas: copies, seed };
            let map = GroupMap::new(&machines.members(), options);
            let map = map.expect("the data file is part of the build");
            let one = play(&Serving { machines, map: &map, work, placing, seed });
            mean += one * (1.0 / f64::from(TABLES));
        }
        mean
    }

    fn local(&self, row: &LocalRow) -> [Claim; 2] {
        let machines = self.machines();
        let pattern = if row.writes { Pattern::RandomWrites } else { Pattern::RandomReads };
        let work = self.work(pattern, row.depth);
        let [far, near] = [Placing::Hashing, by(&local, REPORTS)]
            .map(|placing| self.play(&machines, row.copies, work, placing));
        let id = format!("local-{}-{}", if row.writes { "writes" } else { "reads" }, row.copies);
        let what = format!("near primaries, {}", row.what);
        let gain = near.bytes_per_s / far.bytes_per_s;
        let crossing = Claim {
            measured: format!("{:.2} instead of {:.2} bytes per byte", near.traffic, far.traffic),
            value: near.traffic / far.traffic,
            tolerance: "less".to_owned(),
            verdict: Verdict::of(near.traffic < far.traffic),
            ..Claim::shown(format!("{id}-traffic"), format!("{what}: between machines"))
        };
        let gained = Claim {
            paper: percent(row.paper),
            measured: percent(gain),
            value: gain,
            tolerance: format!("at least {}", percent(row.at_least)),
            verdict: Verdict::of(gain >= row.at_least),
            ..Claim::shown(format!("{id}-gain"), format!("{what}: throughput"))
        };
        [crossing, gained]
    }

    fn memory(&self, row: &MemoryRow) -> Claim {
        let hog = Hog { machine: 0, memory_bytes: row.hog_bytes, cores: 0 };
        let machines = Machines { hogs: vec![hog], ..self.machines() };
        let work = self.work(Pattern::RandomReads, row.depth);
        // Every piece has been read some times before it counts.
        let pieces = u64::from(work.images) * work.image_objects * OBJECT_BYTES / row.request_bytes;
        let work = Work { request_bytes: row.request_bytes, settle: 4 * pieces, ..work };
        let [base, chosen] = [Placing::Hashing, by(&memory, REPORTS)]
            .map(|placing| self.play(&machines, 1, work, placing));
        let gain = chosen.bytes_per_s / base.bytes_per_s;
        let cached = [base, chosen].map(|it| format!("{:.0} %", it.cached_part * 100.0));
        Claim {
            paper: percent(row.paper),
            measured: format!("{} ({} from memory, {})", percent(gain), cached[1], cached[0]),
            value: gain,
            tolerance: format!("at least {}", percent(row.at_least)),
            verdict: Verdict::of(gain >= row.at_least),
            ..Claim::shown(
                format!("memory-{}", row.request_bytes),
                format!("primaries with free memory, {}: throughput", row.what),
            )
        }
    }

    fn harmless(&self, row: &HarmlessRow) -> [Claim; 2] {
        let machines = self.machines();
        let work = self.work(Pattern::SequentialWrites, 4);
        let policy: &PolicyOf<'_> = match row.policy {
            HarmlessPolicy::Cpu => &cpu,
            HarmlessPolicy::Latency => &latency,
            HarmlessPolicy::Journal => &journal,
        };
        let base = self.play(&machines, 2, work, Placing::Hashing);
        let at_least = 1.0 - self.reference.serving.harm_at_most;
        [("asked", Knowledge::Probes), ("told", REPORTS)].map(|(how, knowledge)| {
            let chosen = self.play(&machines, 2, work, by(policy, knowledge));
            let part = chosen.bytes_per_s / base.bytes_per_s;
            let name = format!("{:?}", row.policy).to_lowercase();
            Claim {
                paper: percent(row.paper),
                measured: format!(
                    "{} ({:.0} % diverted)",
                    percent(part),
                    chosen.diverted_part * 100.0
                ),
                value: part,
                tolerance: format!("at least {}", percent(at_least)),
                verdict: Verdict::of(part >= at_least),
                ..Claim::shown(
                    format!("{name}-{how}"),
                    format!("choice by {name}, servers are {how}: throughput"),
                )
            }
        })
    }

    fn probe(&self, row: &ProbeRow) -> [Claim; 2] {
        let machines = self.machines();
        let pattern =
            if row.sequential { Pattern::SequentialWrites } else { Pattern::RandomWrites };
        let work = self.work(pattern, row.depth);
        let measure = if self.quick { 40_000 } else { 200_000 };
        // From the very first access on.
        let measure = if row.sequential { measure / 10 } else { measure };
        let work = Work { request_bytes: row.request_bytes, settle: 0, measure, ..work };
        let [asked, told] = [by(&space, Knowledge::Probes), by(&space, REPORTS)]
            .map(|placing| self.play(&machines, 1, work, placing));
        let cost = asked.latency_mean_s / told.latency_mean_s - 1.0;
        let id = format!("probe-{}", row.request_bytes);
        let costs = Claim {
            paper: format!("+{:.1} %", row.at_most * 100.0),
            measured: format!(
                "{:+.1} % ({:.0} % of the requests)",
                cost * 100.0,
                asked.probed_part * 100.0
            ),
            value: cost,
            tolerance: format!("at most +{:.1} %", row.at_most * 100.0),
            verdict: Verdict::of(cost <= row.at_most),
            ..Claim::shown(
                format!("{id}-asked"),
                format!("probing before the first access, {}: latency", row.what),
            )
        };
        let none = Claim {
            measured: format!("{:.0} % of the requests", told.probed_part * 100.0),
            value: told.probed_part,
            tolerance: "none".to_owned(),
            verdict: Verdict::of(told.probed_part <= 0.0),
            ..Claim::shown(
                format!("{id}-told"),
                format!("with reports and a map of choices, {}: probes", row.what),
            )
        };
        [costs, none]
    }
}

fn by<'a>(policy: &'a PolicyOf<'a>, knowledge: Knowledge) -> Placing<'a> {
    Placing::Choice { policy, knowledge }
}

fn local(members: &[Member], here: DomainId) -> Box<dyn Policy> {
    Box::new(Local::new(members, here))
}

fn memory(_: &[Member], _: DomainId) -> Box<dyn Policy> {
    Box::new(Memory { margin: 0.1 })
}

fn space(_: &[Member], _: DomainId) -> Box<dyn Policy> {
    Box::new(Space::with_margin(0.01))
}

fn cpu(_: &[Member], _: DomainId) -> Box<dyn Policy> {
    Box::new(Cpu { margin: 0.2 })
}

fn latency(_: &[Member], _: DomainId) -> Box<dyn Policy> {
    Box::new(Latency::new(0.75, 0.1))
}

fn journal(_: &[Member], _: DomainId) -> Box<dyn Policy> {
    Box::new(Journal { margin_bytes: 64 << 20 })
}

/// What a ratio is more or less than one.
pub(super) fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_claims_and_holds_even_when_it_has_to_be_quick() {
        let claims = claims(&Reference::load(), true, 1);
        assert_eq!(claims.len(), 4 * 2 + 2 + 3 * 2 + 2 * 2);
        for claim in claims {
            assert_ne!(claim.verdict, Verdict::Fails, "{}: {}", claim.what, claim.measured);
        }
    }
}
