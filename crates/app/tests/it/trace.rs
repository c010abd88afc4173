//! Traces on disk: conversions, bad lines, and memory that does not grow with the trace.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::gate::EVENKEEL;
use crate::harness::process::{self, Process};
use crate::harness::{Scratch, wait_for};

/// Lines of an MSR trace, a tenth of a millisecond apart.
fn msr_line(text: &mut String, n: u64) {
    let (time, response) = (1000 * n, 1000 + n % 100);
    let kind = if n % 4 == 3 { "Write" } else { "Read" };
    let (offset, size) = (n * 7919 % 10_000 * 4096, 4096 << (n % 3));
    writeln!(text, "{time},web,0,{kind},{offset},{size},{response}").expect("strings take all");
}

fn msr(count: u64) -> String {
    let mut text = String::new();
    (0..count).for_each(|n| msr_line(&mut text, n));
    text
}

/// What `evenkeel trace` says to these arguments.
fn try_trace(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(EVENKEEL);
    command.arg("trace").args(arguments).current_dir(scratch.path());
    command.output().expect("run evenkeel")
}

/// What it prints; panics unless it succeeds.
fn trace(scratch: &Scratch, arguments: &[&str]) -> String {
    let output = try_trace(scratch, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
    String::from_utf8(output.stdout).expect("output is text")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stat(scratch: &Scratch, file: &str) -> Value {
    serde_json::from_str(&trace(scratch, &["stat", file, "--json"])).expect("stat prints JSON")
}

fn read(scratch: &Scratch, file: &str) -> String {
    std::fs::read_to_string(scratch.join(file)).expect("a file in scratch")
}

#[test]
fn a_trace_survives_every_packing_and_the_way_through_the_native_format() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("a.csv"), msr(20_000)).expect("write to scratch");
    let way = ["a.csv", "b.ektrace.zst", "c.csv.gz", "d.ektrace", "e.csv.zst", "f.csv"];
    for pair in way.windows(2) {
        trace(&scratch, &["convert", pair[0], pair[1], "--to", format_of(pair[1])]);
        assert!(!scratch.join(format!("{}.partial", pair[1])).exists());
    }
    assert!(read(&scratch, "a.csv") == read(&scratch, "f.csv"), "the lines are not the same");
    for (file, magic) in [("b.ektrace.zst", &b"\x28\xb5\x2f\xfd"[..]), ("c.csv.gz", b"\x1f\x8b")] {
        let bytes = std::fs::read(scratch.join(file)).expect("written above");
        assert!(bytes.starts_with(magic), "{file} is not packed");
    }
    let (first, last) = (stat(&scratch, "a.csv"), stat(&scratch, "d.ektrace"));
    for key in ["requests", "kinds", "read_size_bytes", "span_bytes", "footprint_blocks"] {
        assert_eq!(first[key], last[key], "{key}");
    }
}

fn format_of(file: &str) -> &'static str {
    if file.contains(".csv") { "msr" } else { "native" }
}

#[test]
fn stdin_and_stdout_take_the_place_of_files() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("a.csv"), msr(1000)).expect("write to scratch");
    let line = format!(
        "gzip -c a.csv | {EVENKEEL} trace convert - - --to msr | cmp - a.csv && \
         {EVENKEEL} trace convert a.csv - | {EVENKEEL} trace stat - --json > stat.json"
    );
    process::run(scratch.path(), "sh", &["-c", &line]);
    let found: Value =
        serde_json::from_str(&read(&scratch, "stat.json")).expect("stat prints JSON");
    assert_eq!((&found["requests"], &found["format"]), (&1000.into(), &"native".into()));
}

#[test]
fn bad_lines_are_refused_by_place_or_counted_and_named() {
    let scratch = Scratch::new();
    // The first line is good: the format is told by it.
    let text = msr(100).replacen("Read", "Raed", 8).replacen("Raed", "Read", 1);
    std::fs::write(scratch.join("bad.csv"), text).expect("write to scratch");
    let arguments = ["convert", "bad.csv", "good.csv", "--to", "msr"];
    let refused = try_trace(&scratch, &arguments);
    let reason = errors(&refused);
    assert_eq!(refused.status.code(), Some(3), "{reason}");
    assert!(reason.contains("bad.csv:2: ") && reason.contains("--skip-bad"), "{reason}");
    assert!(!scratch.join("good.csv").exists(), "half a trace is left behind");

    let skipping = try_trace(&scratch, &[&arguments[..], &["--skip-bad"]].concat());
    let told = errors(&skipping);
    assert!(told.contains("left out 7 bad entries"), "{told}");
    assert!(told.contains("bad.csv:3: ") && told.contains("and 2 more"), "{told}");
    assert_eq!(read(&scratch, "good.csv").lines().count(), 93);
    let found = trace(&scratch, &["stat", "bad.csv", "--json", "--skip-bad"]);
    let found: Value = serde_json::from_str(&found).expect("stat prints JSON");
    assert_eq!(found["bad"]["count"], 7);
}

#[test]
fn parts_of_a_trace_merge_to_the_whole() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("a.csv"), msr(5000)).expect("write to scratch");
    let cut = |name: &str, bounds: &[&str]| {
        let mut arguments = vec!["cut", "a.csv", name, "--times", "kept"];
        arguments.extend_from_slice(bounds);
        trace(&scratch, &arguments);
    };
    cut("early.ektrace", &["--until", "100ms"]);
    cut("late.ektrace", &["--from", "100ms"]);
    assert_eq!(stat(&scratch, "early.ektrace")["requests"], 1000);
    let parts = ["merge", "late.ektrace", "early.ektrace", "--shared-names"];
    trace(&scratch, &[&parts[..], &["--output", "whole.ektrace"]].concat());
    trace(&scratch, &["convert", "a.csv", "a.ektrace"]);
    let (whole, original) = (stat(&scratch, "whole.ektrace"), stat(&scratch, "a.ektrace"));
    for key in ["requests", "kinds", "duration_seconds", "sources", "over_time"] {
        assert_eq!(whole[key], original[key], "{key}");
    }
}

#[test]
fn twice_the_rate_is_half_the_time_and_a_stranger_sees_no_names() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("a.csv"), msr(2000)).expect("write to scratch");
    trace(&scratch, &["scale", "a.csv", "fast.ektrace", "--rate", "2", "--wrap", "1 MiB"]);
    let (slow, fast) = (stat(&scratch, "a.csv"), stat(&scratch, "fast.ektrace"));
    let seconds = |stat: &Value| stat["duration_seconds"].as_f64().expect("a number");
    assert!((seconds(&slow) / seconds(&fast) - 2.0).abs() < 1e-6);
    assert!(fast["span_bytes"].as_u64().expect("a number") <= 1 << 20);

    trace(&scratch, &["anonymise", "a.csv", "hidden.ektrace"]);
    let hidden = stat(&scratch, "hidden.ektrace");
    assert_eq!(hidden["kinds"], slow["kinds"]);
    let name = hidden["sources"][0]["name"].as_str().expect("a name");
    assert!(name.starts_with("source-"), "{name}");
    let bytes = std::fs::read(scratch.join("hidden.ektrace")).expect("written above");
    assert!(!bytes.windows(3).any(|part| part == b"web"), "the name is still in the file");
}

#[test]
fn plots_and_hit_ratios_come_from_one_command_each() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("a.csv"), msr(5000)).expect("write to scratch");
    trace(&scratch, &["stat", "a.csv", "--plot", "plots"]);
    for name in ["rate", "throughput", "sizes", "miss-ratio"] {
        assert!(read(&scratch, &format!("plots/{name}.svg")).starts_with("<svg"), "{name}");
        assert!(scratch.join(format!("plots/{name}.png")).exists(), "{name}");
    }
    let caches = ["cache", "a.csv", "--policy", "lru,sieve", "--size", "1 MiB", "--size", "1 GiB"];
    let output = trace(&scratch, &[&caches[..], &["--json"]].concat());
    let found: Value = serde_json::from_str(&output).expect("cache prints JSON");
    let caches = found["caches"].as_array().expect("a list");
    assert_eq!(caches.len(), 4);
    let hits = |index: usize| caches[index]["hit_ratio"].as_f64().expect("a number");
    assert!(hits(1) > hits(0), "a larger cache hits more: {caches:?}");
}

/// Twenty-four million requests, a gigabyte of text, are made and read on the fly.
#[test]
fn a_trace_of_a_gigabyte_streams_through_little_memory() {
    const REQUESTS: u64 = 24_000_000;
    let scratch = Scratch::new();
    process::run(scratch.path(), "mkfifo", &["fifo"]);
    let arguments =
        ["trace", "convert", "fifo", "/dev/null", "--format", "msr", "--to", "native", "--json"];
    let mut converting = Process::start(scratch.path(), EVENKEEL, &arguments);
    let (mut most_bytes, mut fed_bytes) = (0, 0);
    let fifo = std::fs::File::options().write(true).open(scratch.join("fifo"));
    let mut fifo = BufWriter::new(fifo.expect("open the fifo"));
    let mut text = String::new();
    for n in 0..REQUESTS {
        msr_line(&mut text, n);
        if text.len() > 1 << 20 {
            fifo.write_all(text.as_bytes()).expect("the reader reads to the end");
            fed_bytes += text.len();
            text.clear();
            most_bytes = most_bytes.max(resident(&converting));
        }
    }
    fifo.write_all(text.as_bytes()).expect("the reader reads to the end");
    drop(fifo);
    let status = wait_for("the end of the conversion", || converting.ended());
    assert!(status.success(), "{}", converting.log());
    assert!(fed_bytes > 900_000_000, "{fed_bytes} bytes are no gigabyte");
    assert!(most_bytes < 64 << 20, "it occupied {} MiB", most_bytes >> 20);
    let told: Value = serde_json::from_str(&converting.log()).expect("convert prints JSON");
    assert_eq!((&told["read"], &told["written"]), (&REQUESTS.into(), &REQUESTS.into()));
}

/// Memory that a process occupies; zero if it has just ended.
pub(crate) fn resident(process: &Process) -> u64 {
    let status =
        std::fs::read_to_string(Path::new("/proc").join(format!("{}/status", process.id())));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
