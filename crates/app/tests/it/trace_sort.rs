//! Traces in any order are sorted, in bounded memory and without a trace of their own.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::gate::EVENKEEL;
use crate::harness::process::{self, Process};
use crate::harness::{Scratch, wait_for};
use crate::trace::resident;

fn trace(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(EVENKEEL);
    command.arg("trace").args(arguments).current_dir(scratch.path()).env_remove("TMPDIR");
    command.output().expect("run evenkeel")
}

fn succeeds(scratch: &Scratch, arguments: &[&str]) {
    let output = trace(scratch, arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
}

/// Requests in an order that no window mends; two of each instant.
fn shuffled(line: impl Fn(u64, u64) -> String) -> String {
    let mut text = String::new();
    for number in 0..6_000_u64 {
        let instant = number * 3_571 % 6_000 / 2;
        text += &line(instant, number);
    }
    text
}

#[test]
fn a_trace_out_of_order_is_refused_with_the_command_that_sorts_it() {
    let scratch = Scratch::new();
    let text = shuffled(|at, n| format!("{},web,0,Read,{},4096,7\n", at * 10_000, n * 4096));
    std::fs::write(scratch.join("a.csv"), text).expect("write to scratch");
    let refused = trace(&scratch, &["convert", "a.csv", "b.ektrace"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{told}");
    assert!(told.contains("evenkeel trace sort IN OUT"), "{told}");
    succeeds(&scratch, &["sort", "a.csv", "b.ektrace"]);
    succeeds(&scratch, &["stat", "b.ektrace"]);
}

/// The line of a request, from its instant and number.
type Line = Box<dyn Fn(u64, u64) -> String>;

#[test]
fn every_format_is_sorted_packed_and_not_and_equal_instants_keep_their_order() {
    let scratch = Scratch::new();
    let bytes = |n: u64| n * 4096;
    let formats: [(&str, Line); 6] = [
        ("msr", Box::new(move |at, n| format!("{},web,0,Read,{},4096,7\n", at * 10_000, bytes(n)))),
        ("spc", Box::new(|at, n| format!("0,{},4096,r,{}.{:03}\n", n * 8, at / 1000, at % 1000))),
        ("alibaba", Box::new(move |at, n| format!("1,R,{},4096,{}\n", bytes(n), at * 1000))),
        ("tencent", Box::new(|at, n| format!("{}.{:03},{},8,0,1\n", at / 1000, at % 1000, n * 8))),
        ("disksim", Box::new(|at, n| format!("{at} 0 {} 8 1\n", n * 8))),
        ("csv", Box::new(move |at, n| format!("{},R,{},4096\n", at, bytes(n)))),
    ];
    for (format, line) in formats {
        let head = if format == "csv" { "time_ms,op,offset,size\n" } else { "" };
        let text = format!("{head}{}", shuffled(line));
        std::fs::write(scratch.join("in"), text).expect("write to scratch");
        process::run(scratch.path(), "sh", &["-c", "gzip -c in > in.gz"]);
        for input in ["in", "in.gz"] {
            succeeds(&scratch, &["sort", input, "out.csv", "--format", format]);
            let out = std::fs::read_to_string(scratch.join("out.csv")).expect("written above");
            let found: Vec<(u64, u64)> = out.lines().skip(1).map(instant_and_offset).collect();
            let mut expected: Vec<(u64, u64)> =
                (0..6_000_u64).map(|n| (n * 3_571 % 6_000 / 2 * 1_000_000, bytes(n))).collect();
            expected.sort_by_key(|&(at, _)| at);
            assert!(found == expected, "{format}, {input}: {:?}", &found[..4]);
        }
    }
}

fn instant_and_offset(row: &str) -> (u64, u64) {
    let fields: Vec<&str> = row.split(',').collect();
    let number = |index: usize| fields[index].parse().expect("a number");
    (number(0), number(3))
}

#[test]
fn a_trace_is_sorted_in_place() {
    let scratch = Scratch::new();
    let text = shuffled(|at, n| format!("{at},R,{},4096\n", n * 4096));
    std::fs::write(scratch.join("a.csv"), format!("time_ms,op,offset,size\n{text}"))
        .expect("write");
    succeeds(&scratch, &["sort", "a.csv", "a.csv"]);
    succeeds(&scratch, &["stat", "a.csv"]);
    let names = std::fs::read_dir(scratch.path()).expect("list scratch").count();
    assert_eq!(names, 1, "something is left behind");
}

const REQUESTS: u64 = 2_000_000;

/// Feeds so many requests, the last first.
fn feed(fifo: &Path, mut watch: impl FnMut()) -> std::io::Result<()> {
    let file = std::fs::File::options().write(true).open(fifo)?;
    let (mut file, mut text) = (BufWriter::new(file), String::new());
    for number in (0..REQUESTS).rev() {
        writeln!(text, "{},web,0,Write,{},4096,7", 1_000 * number, number * 4096)
            .expect("strings take all");
        if text.len() > 1 << 20 {
            file.write_all(text.as_bytes())?;
            text.clear();
            watch();
        }
    }
    file.write_all(text.as_bytes())?;
    file.flush()
}

fn start(scratch: &Scratch) -> Process {
    process::run(scratch.path(), "mkfifo", &["fifo"]);
    let arguments = ["trace", "sort", "fifo", "out.ektrace.zst", "--format", "msr", "--json"];
    Process::start(scratch.path(), EVENKEEL, &arguments)
}

#[test]
fn two_million_requests_backwards_are_sorted_in_little_memory_with_no_file_left() {
    let scratch = Scratch::new();
    let mut sorting = start(&scratch);
    let mut most_bytes = 0;
    feed(&scratch.join("fifo"), || most_bytes = most_bytes.max(resident(&sorting)))
        .expect("it reads to the end");
    let status = wait_for("the end of the sort", || {
        most_bytes = most_bytes.max(resident(&sorting));
        sorting.ended()
    });
    assert!(status.success(), "{}", sorting.log());
    assert!(most_bytes < 64 << 20, "it occupied {} MiB", most_bytes >> 20);
    let names = std::fs::read_dir(scratch.path()).expect("list scratch");
    let names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with(".tmp")), "{names:?}");
    let output = trace(&scratch, &["stat", "out.ektrace.zst", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["requests"], REQUESTS);
}

#[test]
fn a_sort_that_is_killed_leaves_no_run_behind() {
    let scratch = Scratch::new();
    let mut sorting = start(&scratch);
    let mut fed = 0;
    let outcome = feed(&scratch.join("fifo"), || {
        fed += 1;
        if fed == 60 {
            sorting.kill();
        }
    });
    assert!(outcome.is_err(), "the reader is dead");
    let names = std::fs::read_dir(scratch.path()).expect("list scratch");
    let mut names: Vec<String> = names
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name != "fifo" && !name.contains("log"));
    assert_eq!(names, [""; 0], "left behind");
}

#[test]
fn a_sort_without_room_names_the_folder_and_the_remedy() {
    let scratch = Scratch::new();
    process::run(scratch.path(), "mkfifo", &["fifo"]);
    let mut command = Command::new(EVENKEEL);
    command.args(["trace", "sort", "fifo", "out.ektrace", "--format", "msr"]);
    command.current_dir(scratch.path()).env("TMPDIR", "/nowhere/at/all");
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("run evenkeel");
    // It ends before it has read all.
    let _ = feed(&scratch.join("fifo"), || {});
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains("/nowhere/at/all") && told.contains("TMPDIR"), "{told}");
    assert!(!scratch.join("out.ektrace").exists());
}
