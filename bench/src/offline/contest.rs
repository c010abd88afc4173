//! What is compared: contests, who takes part, with which command lines, and what others are known
//! to reach.
//!
//! ```text
//! ingest   records of a trace    evenkeel trace convert, stat     fio, reading an iolog
//! queue    simulated requests    evenkeel simulate                SimPy, the same queue
//! array    simulated requests    evenkeel simulate                (DiskSim, a known figure)
//! cache    accesses, LRU         evenkeel trace cache             (libCacheSim, a known figure)
//! ```

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::Programs;
use super::inputs::{Inputs, Length};

/// A figure of a program that no distribution packages: somebody measured it elsewhere, and it is
/// shown as such.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Known {
    pub(super) program: &'static str,
    /// From the least to the most, per second of processor time.
    pub(super) per_second: (f64, f64),
    pub(super) source: &'static str,
}

/// One kind of work.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    pub(super) name: &'static str,
    /// What is counted.
    pub(super) unit: &'static str,
    pub(super) contenders: Vec<Contender>,
    pub(super) known: Option<Known>,
}

/// What is asked of a contender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Nothing.
    Any,
    /// The same for a quarter of the work and for all of it.
    Flat,
    /// No more than so many bytes, however long the work.
    AtMost(u64),
}

/// What the statistics of a trace may take: their tables grow with the blocks that it touches until
/// they are full, and then sample.
const STATISTICS_MAX_BYTES: u64 = 96 << 20;

/// A command line that does the work.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    /// The other contenders are measured by it.
    pub(super) is_peer: bool,
    /// What it should reach, per second of processor time.
    pub(super) aim_per_second: Option<f64>,
    pub(super) memory: Memory,
    /// Where the JSON that it prints tells how much it did: the sum of these.
    pub(super) counts: &'static [&'static str],
    /// The command line for the whole work.
    pub(super) whole: Vec<String>,
    /// The same for a quarter of it.
    pub(super) quarter: Vec<String>,
}

impl Contender {
    /// How much was done, by what was printed.
    pub(super) fn count(&self, output: &Value) -> Option<u64> {
        self.counts.iter().map(|place| output.pointer(place)?.as_u64()).sum()
    }
}

/// Every contest with whoever is installed.
pub(super) fn contests(programs: &Programs, inputs: &Inputs) -> Vec<Contest> {
    vec![
        ingest(programs, inputs),
        queue(programs, inputs),
        array(programs, inputs),
        cache(programs, inputs),
    ]
}

fn ours(
    programs: &Programs,
    name: &'static str,
    counts: &'static [&'static str],
    line: impl Fn(Length) -> Vec<String>,
) -> Contender {
    let line = |length| {
        let mut whole = vec![text(&programs.evenkeel)];
        whole.extend(line(length));
        whole.push("--json".to_owned());
        whole
    };
    Contender {
        name,
        is_peer: false,
        aim_per_second: None,
        memory: Memory::Flat,
        counts,
        whole: line(Length::Whole),
        quarter: line(Length::Quarter),
    }
}

fn peer(
    name: &'static str,
    counts: &'static [&'static str],
    line: impl Fn(Length) -> Vec<String>,
) -> Contender {
    Contender {
        name,
        is_peer: true,
        aim_per_second: None,
        memory: Memory::Any,
        counts,
        whole: line(Length::Whole),
        quarter: line(Length::Quarter),
    }
}

fn ingest(programs: &Programs, inputs: &Inputs) -> Contest {
    let convert = |name, file: &'static str| {
        let copy = text(&inputs.folder.join("copy.ektrace"));
        let line =
            move |length| words(&["trace", "convert", &text(&inputs.trace(length, file)), &copy]);
        let contender = ours(programs, name, &["/written"], line);
        Contender { aim_per_second: Some(5e6), ..contender }
    };
    let stat = |length| words(&["trace", "stat", &text(&inputs.trace(length, "msr.csv.gz"))]);
    let kinds = &["/kinds/read/requests", "/kinds/write/requests"];
    let stat = ours(programs, "stat MSR gzip", kinds, stat);
    let mut contenders = vec![
        convert("convert MSR gzip", "msr.csv.gz"),
        convert("convert MSR zstd", "msr.csv.zst"),
        Contender { memory: Memory::AtMost(STATISTICS_MAX_BYTES), ..stat },
    ];
    if let Some(fio) = &programs.fio {
        let line = |length| {
            let log = format!("--read_iolog={}", text(&inputs.trace(length, "iolog")));
            let mut line = vec![text(fio)];
            line.extend(words(&["--name=offline", "--ioengine=null", "--size=1000g", &log]));
            line.extend(words(&["--replay_no_stall=1", "--output-format=json"]));
            line
        };
        let counts = &["/jobs/0/read/total_ios", "/jobs/0/write/total_ios"];
        contenders.push(peer("fio, null engine", counts, line));
    }
    Contest { name: "ingest", unit: "records", contenders, known: None }
}

fn queue(programs: &Programs, inputs: &Inputs) -> Contest {
    let line = |length| words(&["simulate", &text(&inputs.constant(length))]);
    let ours = ours(programs, "simulate", &["/requests_in_all"], line);
    let mut contenders = vec![Contender { aim_per_second: Some(2e6), ..ours }];
    if let Some(python) = &programs.simpy {
        let line = |length| {
            let nanoseconds = inputs.simpy_ns(length).to_string();
            words(&[&text(python), &text(&inputs.queue), &nanoseconds])
        };
        contenders.push(peer("SimPy", &["/requests"], line));
    }
    Contest { name: "queue", unit: "requests", contenders, known: None }
}

fn array(programs: &Programs, inputs: &Inputs) -> Contest {
    let line = |length| words(&["simulate", &text(&inputs.array(length))]);
    let ours = ours(programs, "simulate", &["/requests_in_all"], line);
    let known = Known {
        program: "DiskSim",
        per_second: (2e3, 11e3),
        source: "4.0 on arrays of disks, measured once by this project, on 2 virtual cores",
    };
    let contenders = vec![Contender { aim_per_second: Some(200e3), ..ours }];
    Contest { name: "array", unit: "requests", contenders, known: Some(known) }
}

fn cache(programs: &Programs, inputs: &Inputs) -> Contest {
    let line = |length| {
        let trace = text(&inputs.trace(length, "ektrace"));
        words(&["trace", "cache", &trace, "--policy", "lru", "--size", "256MiB"])
    };
    let ours = ours(programs, "trace cache", &["/caches/0/accesses"], line);
    let known = Known {
        program: "libCacheSim",
        per_second: (1.8e6, 3.5e6),
        source: "LRU on other traces, measured once by this project, on 2 virtual cores",
    };
    let contenders = vec![Contender { aim_per_second: Some(5e6), ..ours }];
    Contest { name: "cache", unit: "accesses", contenders, known: Some(known) }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_done_is_the_sum_of_what_is_told() {
        let contender = peer("fio", &["/jobs/0/read/n", "/jobs/0/write/n"], |_| Vec::new());
        let output = json!({ "jobs": [{ "read": { "n": 3 }, "write": { "n": 4 } }] });
        assert_eq!(contender.count(&output), Some(7));
        assert_eq!(contender.count(&json!({ "jobs": [] })), None);
    }

    #[test]
    fn a_contest_without_its_peer_has_our_rows() {
        let programs = Programs { evenkeel: "evenkeel".into(), fio: None, simpy: None };
        let inputs = Inputs::in_folder(Path::new("scratch"), 1000);
        let contests = contests(&programs, &inputs);
        assert!(contests.iter().all(|contest| !contest.contenders.is_empty()));
        assert!(contests.iter().flat_map(|contest| &contest.contenders).all(|c| !c.is_peer));
    }
}
