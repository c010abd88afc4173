//! Recordings of the gate, and replays against real servers.

use std::fmt::Write;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::harness::gate::{EVENKEEL, Gate, memory_policy};
use crate::harness::process;
use crate::harness::skip::needs;
use crate::harness::storage::{Server, Wire};
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, wait_for};

fn evenkeel(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(EVENKEEL);
    command.args(arguments).current_dir(scratch.path()).output().expect("run evenkeel")
}

/// The JSON that `evenkeel trace` prints; panics unless it succeeds.
fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    let output = evenkeel(scratch, &[&["trace"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// A trace of reads and writes, a millisecond apart, in the format of MSR Cambridge.
fn write_trace(scratch: &Scratch, requests: u64) {
    let mut text = String::new();
    for n in 0..requests {
        let (time, offset) = (128_166_372_000_000_000 + 10_000 * n, n * 12_288);
        let kind = if n % 4 == 3 { "Write" } else { "Read" };
        writeln!(text, "{time},web,{},{kind},{offset},4096,5000", n % 2).expect("strings take all");
    }
    std::fs::write(scratch.join("trace.csv"), text).expect("write to scratch");
}

/// Gives the gate a policy with two tenants, and what a recording is started with.
fn recording_gate(scratch: &Scratch) -> Gate {
    let policy = format!(
        "{}[[tenant]]\nname = \"db\"\nmatch = {{ export = \"disk\" }}\nshare = 1\n",
        memory_policy("64 MiB")
    );
    Gate::start(scratch, &policy)
}

fn fio(scratch: &Scratch, target: &Target, options: &[&str]) -> Value {
    let uri = format!("--uri={}", target.uri());
    let mut arguments =
        vec!["--name=job", "--ioengine=nbd", "--output-format=json", "--size=32m", &uri];
    arguments.extend_from_slice(options);
    let output = process::run(scratch.path(), "fio", &arguments);
    let start = output.find('{').expect("fio prints JSON");
    let report: Value = serde_json::from_str(&output[start..]).expect("fio prints JSON");
    report["jobs"][0].clone()
}

#[test]
fn a_recording_agrees_with_what_fio_reports() {
    needs!("fio");
    let scratch = Scratch::new();
    let mut gate = recording_gate(&scratch);
    gate.ctl(&["record", "start", "gate.ektrace.zst"]);
    let options = ["--rw=randrw", "--rwmixread=70", "--bs=4k", "--iodepth=8", "--number_ios=5000"];
    let job = fio(&scratch, &gate.plain("disk"), &options);
    assert!(gate.status()["recording"]["requests"].is_u64(), "a recording is under way");
    gate.ctl(&["record", "stop"]);
    assert_eq!(gate.status()["recording"], Value::Null);

    let found = json(&scratch, &["stat", "gate.ektrace.zst", "--json"]);
    let fio = |way: &str, key: &str| job[way][key].clone();
    let kinds = &found["kinds"];
    assert_eq!(kinds["read"]["requests"], fio("read", "total_ios"));
    assert_eq!(kinds["write"]["requests"], fio("write", "total_ios"));
    assert_eq!(kinds["read"]["bytes"], fio("read", "io_bytes"));
    assert_eq!(kinds["write"]["bytes"], fio("write", "io_bytes"));
    let reads = fio("read", "total_ios").as_f64().expect("a number");
    let writes = fio("write", "total_ios").as_f64().expect("a number");
    let share = found["read_share"].as_f64().expect("a share");
    assert!((share - reads / (reads + writes)).abs() < 1e-9, "{share}");
    assert_eq!(found["sources"][0]["name"], "db/disk");
    // The gate's part of a request is a part of what fio saw of it.
    let gate_mean = kinds["read"]["response_seconds"]["mean"].as_f64().expect("a time");
    let fio_mean = job["read"]["clat_ns"]["mean"].as_f64().expect("a time") / 1e9;
    assert!(gate_mean > 0.0 && gate_mean < fio_mean, "{gate_mean} s of {fio_mean} s");
    assert!(gate.stop().success());
}

#[test]
fn a_gate_records_from_its_start_to_its_end_over_reloads() {
    let scratch = Scratch::new();
    let policy = memory_policy("8 MiB");
    std::fs::write(scratch.join("policy.toml"), format!("listen = [\"unix:gate.sock\"]\n{policy}"))
        .expect("write to scratch");
    let arguments = "serve policy.toml --control control.sock --metrics off --record gate.ektrace";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let mut gate = process::Process::start(scratch.path(), EVENKEEL, &arguments);
    let socket = Address::Unix(scratch.join("gate.sock"));
    gate.wait_until("listens", || socket.answers());
    let target = Target { address: socket, export: "disk".to_owned(), certificates: None };
    let bench = |requests: &str| {
        let arguments = ["bench", &target.uri(), "--requests", requests, "--depth", "4", "--json"];
        assert!(evenkeel(&scratch, &arguments).status.success());
    };
    bench("1000");
    let reload = ["ctl", "--control", "control.sock", "reload"];
    assert!(evenkeel(&scratch, &reload).status.success());
    bench("500");
    let metrics = evenkeel(&scratch, &["ctl", "--control", "control.sock", "status", "--json"]);
    let status: Value = serde_json::from_slice(&metrics.stdout).expect("status is JSON");
    assert_eq!(status["recording"]["dropped_requests"], 0);
    gate.signal(rustix::process::Signal::TERM);
    assert!(gate.wait().success());
    assert!(gate.log().contains("1500 requests are in gate.ektrace"), "{}", gate.log());
    let found = json(&scratch, &["stat", "gate.ektrace", "--json"]);
    assert_eq!((&found["requests"], &found["bad"]["count"]), (&1500.into(), &0.into()));
}

#[test]
fn a_gate_that_is_killed_leaves_a_recording_that_can_be_read() {
    let scratch = Scratch::new();
    let mut gate = recording_gate(&scratch);
    gate.ctl(&["record", "start", "gate.ektrace"]);
    let uri = gate.plain("disk").uri();
    assert!(evenkeel(&scratch, &["bench", &uri, "--requests", "300"]).status.success());
    let written = || gate.status()["recording"]["bytes"].as_u64().filter(|&bytes| bytes > 1000);
    wait_for("the recording to reach the file", written);
    gate.process.kill();
    let found = json(&scratch, &["stat", "gate.ektrace", "--json", "--skip-bad"]);
    assert!(found["requests"].as_u64() > Some(0), "{found}");
    assert!(found["bad"]["count"].as_u64() <= Some(1), "only its end is missing: {found}");
}

#[test]
fn a_second_recording_is_refused_and_the_first_goes_on() {
    let scratch = Scratch::new();
    let gate = recording_gate(&scratch);
    gate.ctl(&["record", "start", "one.ektrace"]);
    let (status, output) = gate.try_ctl(&["record", "start", "two.ektrace"]);
    assert!(!status.success() && output.contains("record stop"), "{output}");
    assert!(!scratch.join("two.ektrace").exists());
    assert!(gate.ctl(&["record", "stop"]).contains("one.ektrace"));
    let (status, output) = gate.try_ctl(&["record", "stop"]);
    assert!(!status.success() && output.contains("no recording"), "{output}");
}

#[test]
fn a_replay_keeps_the_recorded_times_and_says_how_late_it_was() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = Server::nbdkit(&scratch, Wire::Plain, &["memory", "64M"]);
    write_trace(&scratch, 1000);
    let uri = server.target.uri();
    let found =
        json(&scratch, &["replay", "trace.csv", &uri, "--write", "--latency-log", "run", "--json"]);
    let (job, replay) = (&found["jobs"][0], &found["evenkeel"]["replay"]);
    assert_eq!((&job["read"]["total_ios"], &job["write"]["total_ios"]), (&750.into(), &250.into()));
    assert_eq!(replay["left_out"]["writes"], 0);
    let seconds = |key: &str| replay[key].as_f64().expect("a time");
    assert!((seconds("scheduled_seconds") - 0.999).abs() < 1e-6);
    let actual = seconds("actual_seconds");
    assert!(actual > 0.99, "no request may start before its time: {actual}");
    assert_eq!(replay["lateness"][0]["count"], 1000);
    // Absolute deadlines: what one request is late does not add up over a thousand.
    let late_ms = replay["lateness"][0]["p50_ns"].as_f64().expect("a time") / 1e6;
    assert!(late_ms < 100.0, "half of the requests are {late_ms} ms late");
    check_logs(&scratch);
}

/// A packed piece of the native format holds more requests than the clients' queues.
#[test]
fn a_replay_starts_however_much_one_piece_of_the_trace_holds() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &memory_policy("8 MiB"));
    write_trace(&scratch, 60_000);
    json(&scratch, &["convert", "trace.csv", "trace.ektrace.zst", "--json"]);
    let uri = gate.plain("disk").uri();
    let arguments = ["replay", "trace.ektrace.zst", &uri, "--write", "--speed", "100", "--json"];
    let found = json(&scratch, &arguments);
    assert_eq!(found["evenkeel"]["requests_in_all"], 60_000);
}

/// What fio's tools rely on: six numbers a line, in the order of time, and `lat` the sum of the
/// two parts.
fn check_logs(scratch: &Scratch) {
    let read = |name: &str| {
        let text = std::fs::read_to_string(scratch.join(format!("run_{name}.1.log")));
        let lines = text.expect("the log is there");
        let number = |field: &str| field.trim().parse::<u64>().expect("a number");
        lines.lines().map(|line| line.split(',').map(number).collect()).collect::<Vec<Vec<u64>>>()
    };
    let (late, service, both) = (read("slat"), read("clat"), read("lat"));
    assert_eq!(both.len(), 1000);
    assert!(both.is_sorted_by_key(|line| line[0]), "entries are in the order of time");
    for ((late, service), both) in late.iter().zip(&service).zip(&both) {
        assert_eq!(both.len(), 6);
        assert_eq!(late[1] + service[1], both[1]);
        assert_eq!((both[2] <= 1, both[3]), (true, 4096));
    }
    assert_eq!(both.iter().filter(|line| line[2] == 1).count(), 250);
    assert!(!read("iops").is_empty() && !read("bw").is_empty());
}

#[test]
fn fio_tools_read_the_logs_of_a_replay() {
    needs!("nbdkit", "fio2gnuplot");
    let scratch = Scratch::new();
    let server = Server::nbdkit(&scratch, Wire::Plain, &["memory", "64M"]);
    write_trace(&scratch, 2000);
    let arguments = ["replay", "trace.csv", &server.target.uri(), "--interval", "100ms"];
    json(&scratch, &[&arguments[..], &["--latency-log", "run", "--json"]].concat());
    let output = process::run(scratch.path(), "fio2gnuplot", &["-i", "-p", "*_iops.1.log"]);
    assert!(output.contains("run_iops.1.log"), "{output}");
}

#[test]
fn nothing_is_written_unless_it_is_said() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = Server::nbdkit(&scratch, Wire::Plain, &["memory", "64M"]);
    write_trace(&scratch, 400);
    let closed = ["--closed", "8", "--no-think", "--json"];
    let uri = server.target.uri();
    let replay = |more: &[&str]| {
        json(&scratch, &[&["replay", "trace.csv", &uri], &closed[..], more].concat())
    };
    let found = replay(&[]);
    let job = &found["jobs"][0];
    assert_eq!((&job["read"]["total_ios"], &job["write"]["total_ios"]), (&300.into(), &0.into()));
    assert_eq!(found["evenkeel"]["replay"]["left_out"]["writes"], 100);
    assert_eq!(replay(&["--writes-as-reads"])["jobs"][0]["read"]["total_ios"], 400);
    let log = std::fs::read_to_string(crate::harness::storage::log_of(&scratch));
    assert!(!log.expect("nbdkit logs").contains("Write id="), "the server was written to");
}

#[test]
fn sources_go_to_the_exports_of_their_names() {
    let scratch = Scratch::new();
    let second = "[[export]]\nname = \"1\"\nbackend = \"memory\"\nsize = \"4 MiB\"\n";
    let policy = memory_policy("8 MiB").replace("\"disk\"", "\"0\"");
    let gate = Gate::start(&scratch, &format!("{policy}{second}"));
    write_trace(&scratch, 200);
    let uri = gate.plain("").uri();
    // The sources of the trace are `web.0` and `web.1`, or whatever the format makes of them.
    let stat = json(&scratch, &["stat", "trace.csv", "--json"]);
    let names: Vec<&str> = stat["sources"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|source| source["name"].as_str().expect("a name"))
        .collect();
    let rules = [format!("{}=0", names[0]), format!("{}=1", names[1])];
    let arguments = ["replay", "trace.csv", &uri, "--map", &rules[0], "--map", &rules[1]];
    let found = json(
        &scratch,
        &[&arguments[..], &["--write", "--fit", "scale", "--speed", "4", "--json"]].concat(),
    );
    let jobs = found["jobs"].as_array().expect("a list");
    let by_name = |name: &str| {
        let job = jobs.iter().find(|job| job["jobname"] == name).expect("a job for each export");
        ["read", "write"].map(|way| job[way]["total_ios"].as_u64().expect("a number"))
    };
    assert_eq!((by_name("0"), by_name("1")), ([100, 0], [50, 50]));
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let scratch = Scratch::new();
    write_trace(&scratch, 10);
    let nobody = format!("nbd+unix:///?socket={}", scratch.join("nobody.sock").display());
    let output = evenkeel(&scratch, &["trace", "replay", "trace.csv", &nobody]);
    assert_eq!(output.status.code(), Some(4));
    let (status, _) = process::finish(
        scratch.path(),
        EVENKEEL,
        &["trace", "replay", "absent.csv", &nobody],
        Duration::from_secs(20),
    );
    assert_eq!(status.code(), Some(5));
}
