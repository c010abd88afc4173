//! Shares over hosts: the claims of PARDA (FAST 2009) and of Storage I/O Control, which it became.
//!
//! ```text
//!   machines that read 16 KiB at random -> hosts, each with its controller -> one array
//! ```
//!
//! In virtual time ([`evenkeel_sim::fleet::parda`]). Beside PARDA stand DRG, which knows no shares,
//! and ours in two forms: as it is by default, with the depth at which the array does most, and
//! with PARDA's threshold as the machines' latency goal, so that both hold the array back alike.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_core::time::Span;
use evenkeel_sim::fleet::Record;
use evenkeel_sim::fleet::parda::{Control, Machine, Setting};

use super::reference::{Burst, Parda, Reference};
use crate::reproduce::claim::{Claim, Verdict};

/// Parts of its due by which a host or machine may be off under PARDA, as its authors saw.
const PARDA_OFF: f64 = 0.10;

/// The same for ours.
const SHARES_OFF: f64 = 0.05;

/// Part of the throughput without control that must be left.
const LEFT: f64 = 0.95;

/// Times the threshold that the array may take.
const ABOVE: f64 = 1.2;

/// The part of a machine's due within which it has settled, and for how many seconds running.
const SETTLED: f64 = 0.10;
const SETTLED_S: u64 = 5;

/// Seconds within which ours has settled.
const SHARES_SETTLE_S: u64 = 5;

/// Seconds of a run that do not count.
const WARM_UP_S: u64 = 20;

/// Everything that is run, and what came of it.
struct Runs(Vec<(Scene, Control, Record)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    Equal,
    Ratio,
    Machines,
    Burst,
    Sioc,
}

impl Scene {
    const ALL: [Self; 5] = [Self::Equal, Self::Ratio, Self::Machines, Self::Burst, Self::Sioc];
}

/// The machines of these shares, by host.
fn machines(shares: &[Vec<u32>]) -> Vec<Machine> {
    let hosts = (0..).zip(shares);
    let machines = hosts.flat_map(|(host, of)| of.iter().map(move |share| (host, *share)));
    machines.map(|(host, share)| Machine::busy(host, share)).collect()
}

/// The same shares, as many together as those of the paper's table: by their sum PARDA passes its
/// threshold.
fn scaled(shares: &[Vec<u32>], table: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let sum = |of: &[Vec<u32>]| of.iter().flatten().sum::<u32>();
    let (all, of_table) = (sum(shares), sum(table));
    shares.iter().map(|of| of.iter().map(|share| share * of_table / all).collect()).collect()
}

/// When a machine of the burst stops and comes back; sooner if it has to be quick.
fn stops(burst: &Burst, is_quick: bool) -> Range<u64> {
    if is_quick { 30..90 } else { burst.stops_s..burst.resumes_s }
}

fn setting(scene: Scene, reference: &Reference, is_quick: bool, seed: u64) -> Setting {
    let Parda { equal, ratio, machines: table, burst } = &reference.parda;
    let alone = |shares: [u32; 4]| shares.map(|share| vec![share]).to_vec();
    let (threshold_ms, shares) = match scene {
        Scene::Equal => (equal.threshold_ms, alone([10; 4])),
        Scene::Ratio => (ratio.threshold_ms, alone(ratio.shares)),
        Scene::Machines | Scene::Burst => (table.threshold_ms, table.shares.clone()),
        Scene::Sioc => (reference.sioc.threshold_ms, scaled(&reference.sioc.shares, &table.shares)),
    };
    let mut machines = machines(&shares);
    let mut seconds = if is_quick { 40 } else { 120 };
    if scene == Scene::Burst {
        let idle = stops(burst, is_quick);
        seconds = idle.end + 30;
        machines[burst.machine].idle = idle;
    }
    Setting { machines, threshold: Span::from_millis(threshold_ms), seconds, seed }
}

impl Runs {
    /// Runs all, on as many threads as there are cores.
    fn of(reference: &Reference, is_quick: bool, seed: u64) -> Self {
        let of = |scene| Control::ALL.map(|control| (scene, control));
        let jobs: Vec<_> = Scene::ALL.into_iter().flat_map(of).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((scene, control)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let record = setting(*scene, reference, is_quick, seed).run(*control);
                done.push((*scene, *control, record));
            }
            done
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let done = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let done = workers.into_iter().map(|one| one.join().expect("a run does not panic"));
            done.flatten().collect()
        });
        Self(done)
    }

    fn record(&self, scene: Scene, control: Control) -> &Record {
        let mut runs = self.0.iter();
        let run = runs.find(|(of, by, _)| (*of, *by) == (scene, control));
        &run.expect("everything was run").2
    }
}

/// All claims on shares over hosts.
pub(super) fn claims(reference: &Reference, is_quick: bool, seed: u64) -> Vec<Claim> {
    let runs = Runs::of(reference, is_quick, seed);
    let mut claims = Vec::new();
    for control in Control::ALL {
        claims.extend(equal(&runs, reference, control));
        let parda = &reference.parda;
        let table = &parda.machines;
        let worst = worst_of(&[&table.database_ops, &table.reads_iops], &table.shares);
        let fig8 = parda.ratio.shares.map(|share| vec![share]);
        let share = |scene, names, paper: &str, shares: &[Vec<u32>]| {
            let record = runs.record(scene, control);
            by_share(control, names, paper.to_owned(), record, &shares.concat())
        };
        let (machines, sioc) = (&table.shares, &reference.sioc.shares);
        let two = ("sioc", "1500 and 500 on one host, 500 on another");
        claims.extend([
            share(Scene::Ratio, ("ratio", "hosts, 1:1:2:2"), "roughly", &fig8),
            share(Scene::Machines, ("machines", "six machines on four hosts"), &worst, machines),
            share(Scene::Sioc, two, "by share", sioc),
        ]);
        let idle = stops(&parda.burst, is_quick);
        claims.extend(burst(&runs, reference, control, &idle));
    }
    claims
}

/// What is demanded of a controller: of PARDA what its authors saw, and of ours more. The others
/// are shown.
fn demanded(control: Control, of_parda: f64, of_ours: f64) -> Option<f64> {
    match control {
        Control::Parda => Some(of_parda),
        Control::Shares | Control::SharesGoal => Some(of_ours),
        Control::None | Control::Drg => None,
    }
}

fn verdict(bound: Option<f64>, holds: impl Fn(f64) -> bool) -> Verdict {
    bound.map_or(Verdict::Shown, |bound| Verdict::of(holds(bound)))
}

fn id(row: &str, control: Control) -> String {
    format!("hosts-{row}-{}", control.name().replace(' ', "-").to_lowercase())
}

fn rate(record: &Record) -> f64 {
    let (count, seconds) = counted(record);
    let done = (0..record.tenants.len()).map(|one| record.sum(one, WARM_UP_S, count).completions);
    done.sum::<u64>() as f64 / seconds
}

/// The second at which a run ends, and how many count.
fn counted(record: &Record) -> (u64, f64) {
    let end = record.tenants[0].len() as u64;
    (end, (end - WARM_UP_S) as f64)
}

fn device_ms(record: &Record) -> f64 {
    let (end, _) = counted(record);
    let sums = (0..record.tenants.len()).map(|one| record.sum(one, WARM_UP_S, end));
    let (device_s, done) = sums.fold((0.0, 0), |(device_s, done), sum| {
        (device_s + sum.device.as_secs_f64(), done + sum.completions)
    });
    1e3 * device_s / done.max(1) as f64
}

/// Hosts of equal shares: the array does as much as without control, and answers sooner.
fn equal(runs: &Runs, reference: &Reference, control: Control) -> [Claim; 2] {
    let paper = &reference.parda.equal;
    let record = runs.record(Scene::Equal, control);
    let (done, free) = (rate(record), rate(runs.record(Scene::Equal, Control::None)));
    let is_free = control == Control::None;
    let (iops, ms) = if is_free {
        (paper.uncontrolled_iops, paper.uncontrolled_ms)
    } else {
        (paper.iops, paper.latency_ms)
    };
    let part = done / free;
    // Of ours one form is for throughput, and one for latency.
    let left = demanded(control, LEFT, LEFT).filter(|_| control != Control::SharesGoal);
    let (latency_ms, threshold_ms) = (device_ms(record), paper.threshold_ms as f64);
    let above = demanded(control, ABOVE, ABOVE).filter(|_| control != Control::Shares);
    let most_ms = above.map(|times| times * threshold_ms);
    // The paper's are of no control and of PARDA.
    let of_paper = |text: String| {
        if matches!(control, Control::None | Control::Parda) { text } else { String::new() }
    };
    [
        Claim {
            paper: of_paper(format!("{}/s", iops.iter().sum::<u32>())),
            measured: format!("{done:.0}/s, {:.0} % of that without control", 100.0 * part),
            value: part,
            tolerance: left
                .map_or_else(String::new, |left| format!("at least {:.0} %", left * 1e2)),
            verdict: verdict(left, |left| part >= left),
            ..Claim::shown(id("equal-rate", control), what(control, "four equal hosts: throughput"))
        },
        Claim {
            paper: of_paper(format!("{ms} ms")),
            measured: format!("{latency_ms:.1} ms"),
            value: latency_ms,
            tolerance: most_ms.map_or_else(String::new, |most| format!("at most {most:.0} ms")),
            verdict: verdict(most_ms, |most| latency_ms <= most),
            ..Claim::shown(
                id("equal-latency", control),
                what(control, &format!("four equal hosts, {threshold_ms:.0} ms: at the array")),
            )
        },
    ]
}

fn what(control: Control, text: &str) -> String {
    format!("{}, {text}", control.name())
}

/// Each has its share: of the parts of all, the one that is furthest from its due.
fn by_share(
    control: Control,
    (row, text): (&str, &str),
    paper: String,
    record: &Record,
    shares: &[u32],
) -> Claim {
    let (end, _) = counted(record);
    let all: u32 = shares.iter().sum();
    let part = |machine| record.part(machine, WARM_UP_S, end);
    let off = |(machine, share): (usize, &u32)| {
        let due = f64::from(*share) / f64::from(all);
        (part(machine) / due - 1.0).abs()
    };
    let off = shares.iter().enumerate().map(off).fold(0.0, f64::max);
    let parts: Vec<String> =
        (0..shares.len()).map(|machine| format!("{:.1}", 100.0 * part(machine))).collect();
    let most = demanded(control, PARDA_OFF, SHARES_OFF);
    Claim {
        paper: if control == Control::Parda { paper } else { String::new() },
        measured: format!("{:.1} % off; parts of {} %", 100.0 * off, parts.join(", ")),
        value: off,
        tolerance: most
            .map_or_else(String::new, |most| format!("at most {:.0} % off", 100.0 * most)),
        verdict: verdict(most, |most| off <= most),
        ..Claim::shown(id(row, control), what(control, text))
    }
}

/// By how much the paper's own figures differ from what the shares give: kind by kind, since kinds
/// are counted in units of their own.
fn worst_of(kinds: &[&Vec<u32>], shares: &[Vec<u32>]) -> String {
    let mut shares = shares.iter().flatten();
    let mut worst: f64 = 0.0;
    for kind in kinds {
        let of: Vec<u32> = shares.by_ref().take(kind.len()).copied().collect();
        let (done, due) = (kind.iter().sum::<u32>(), of.iter().sum::<u32>());
        for (figure, share) in kind.iter().zip(of) {
            let due = f64::from(done) * f64::from(share) / f64::from(due);
            worst = worst.max((f64::from(*figure) / due - 1.0).abs());
        }
    }
    format!("{:.1} % off", 100.0 * worst)
}

/// A machine stops: what is left of its host has its share and no more, and when; and the same when
/// it comes back.
fn burst(runs: &Runs, reference: &Reference, control: Control, idle: &Range<u64>) -> [Claim; 2] {
    let Parda { machines: table, burst, .. } = &reference.parda;
    let record = runs.record(Scene::Burst, control);
    let shares = table.shares.concat();
    let (all, gone) = (shares.iter().sum::<u32>(), shares[burst.machine]);
    let paper_s = burst.settled_by_s - burst.stops_s;
    let due = |share: u32, all: u32| f64::from(share) / f64::from(all);
    let last = record.tenants[0].len() as u64;
    // The first machine shares its host with the one that stops.
    let after_stop = settled(record, 0, due(shares[0], all - gone), idle.clone());
    let after_return = settled(record, burst.machine, due(gone, all), idle.end..last);
    let most_s = demanded(control, paper_s as f64, SHARES_SETTLE_S as f64);
    let claim = |row, text, after: Result<u64, u64>, paper: String| Claim {
        paper: if control == Control::Parda { paper } else { String::new() },
        measured: match after {
            Ok(after) => format!("{after} s"),
            Err(all) => format!("not in {all} s"),
        },
        value: after.unwrap_or_else(|all| all) as f64,
        tolerance: most_s.map_or_else(String::new, |most| format!("at most {most:.0} s")),
        verdict: verdict(most_s, |most| after.is_ok_and(|after| after as f64 <= most)),
        ..Claim::shown(id(row, control), what(control, text))
    };
    [
        claim(
            "stop",
            "a machine stops: its neighbour has its share, within 10 %",
            after_stop,
            format!("{paper_s} s"),
        ),
        claim("return", "it comes back: so has it", after_return, "grows back".to_owned()),
    ]
}

/// After how many of these seconds a machine has its due for some of them running; how many there
/// are, if it never has.
fn settled(record: &Record, machine: usize, due: f64, seconds: Range<u64>) -> Result<u64, u64> {
    let is_due = |second: u64| {
        let part = record.part(machine, second, second + 1);
        (part / due - 1.0).abs() <= SETTLED
    };
    let first = seconds.start;
    let mut starts = first..(seconds.end + 1).saturating_sub(SETTLED_S);
    let found = starts.find(|start| (*start..start + SETTLED_S).all(is_due));
    found.map(|start| start - first).ok_or(seconds.end - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_own_table_is_eight_percent_off_at_most() {
        let table = Reference::load().parda.machines;
        let worst = worst_of(&[&table.database_ops, &table.reads_iops], &table.shares);
        assert_eq!(worst, "8.0 % off");
    }

    #[test]
    fn what_has_its_due_for_five_seconds_has_settled() {
        use evenkeel_sim::fleet::Second;
        let second = |cost_ns| Second { cost_ns, ..Second::default() };
        let parts = [1, 3, 5, 1, 5, 5, 5, 5, 5, 5];
        let tenants = vec![
            parts.map(|part| second(10 * part)).to_vec(),
            parts.map(|part| second(100 - 10 * part)).to_vec(),
        ];
        let record = Record { tenants, ..Record::default() };
        assert_eq!(settled(&record, 0, 0.5, 0..10), Ok(4));
        assert_eq!(settled(&record, 0, 0.5, 6..10), Err(4), "too few are left");
    }
}
