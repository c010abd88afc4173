//! `evenkeel calibrate` finds what is known of a live server, and harms nothing unasked.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::Scratch;
use crate::harness::conditions::assert_within;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::Process;
use crate::harness::skip::needs;
use crate::harness::target::Address;

/// nbdkit on memory behind a filter; the server and its address.
fn nbdkit(scratch: &Scratch, options: &[&str]) -> (Process, String) {
    let socket = scratch.join("nbdkit.sock");
    let path = socket.to_str().expect("a path of ours is UTF-8");
    let arguments = [&["--foreground", "--unix", path][..], options].concat();
    let mut process = Process::start(scratch.path(), "nbdkit", &arguments);
    // The socket's file is there before anybody listens on it.
    process.wait_until("answers on its socket", || Address::Unix(socket.clone()).answers());
    (process, format!("nbd+unix:///?socket={path}"))
}

fn calibrate(folder: &Path, address: &str, options: &[&str]) -> Output {
    let model = folder.join("model.toml");
    let model = model.to_str().expect("a path of ours is UTF-8");
    let fixed = ["calibrate", address, "--json", "--output", model];
    Command::new(EVENKEEL).args(fixed).args(options).output().expect("run evenkeel")
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

#[track_caller]
fn assert_near(model: &Value, path: &str, expected: f64, percent: f64) {
    let found = model.pointer(path).and_then(Value::as_f64).expect(path);
    let distance = (found / expected - 1.0).abs() * 100.0;
    assert!(distance <= percent, "{path} is {found}, {distance:.1} % off {expected}: {model:#}");
}

/// Carries out `work`, and measures meanwhile by how much longer than asked for a thread of this
/// machine sleeps, as a median: nbdkit's threads do likewise.
fn with_oversleep<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let asked = Duration::from_millis(10);
            let mut over_ns = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let start = Instant::now();
                std::thread::sleep(asked);
                over_ns.push(start.elapsed().saturating_sub(asked).as_secs_f64() * 1e9);
            }
            over_ns.sort_by(f64::total_cmp);
            over_ns[over_ns.len() / 2]
        });
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        (result, sleeper.join().expect("the sleeper does nothing that fails"))
    })
}

#[test]
fn the_rate_of_a_limited_server_is_found_within_5_percent() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let filter = ["--filter=rate", "memory", "64M", "rate=160M"];
    let (_server, address) = nbdkit(&scratch, &filter);
    let model = json(&calibrate(scratch.path(), &address, &["--seconds", "16"]));
    // nbdkit counts 160 Mi bits.
    let rate_bytes = f64::from(20 << 20);
    assert_near(&model, "/cost_read/rate_bytes", rate_bytes, 5.0);
    assert_near(&model, "/device/read/gate/rate_bytes", rate_bytes, 5.0);
    assert_eq!(model["is_write_measured"], false);
    let text = std::fs::read_to_string(scratch.join("model.toml")).expect("the model's file");
    assert!(text.contains(&address), "the file says what was measured: {text}");
}

#[test]
fn the_delay_and_the_parallelism_of_a_slow_server_are_found_within_10_percent() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let filter = ["--threads=16", "--filter=delay", "memory", "64M", "rdelay=40ms", "wdelay=80ms"];
    let (_server, address) = nbdkit(&scratch, &filter);
    let options = ["--seconds", "30", "--write"];
    let (output, oversleep_ns) = with_oversleep(|| calibrate(scratch.path(), &address, &options));
    let model = json(&output);
    assert_near(&model, "/device/read/service/fixed_ns", 40e6 + oversleep_ns, 10.0);
    assert_near(&model, "/device/write/service/fixed_ns", 80e6 + oversleep_ns, 10.0);
    assert_near(&model, "/knee_depth", 16.0, 10.0);
    assert_eq!(model["is_write_measured"], true);
}

#[test]
fn nothing_is_written_unless_asked_for() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let disk = scratch.random_file("disk", 4 << 20);
    let before = std::fs::read(&disk).expect("the disk");
    let (_server, address) = nbdkit(&scratch, &["file", disk.to_str().expect("UTF-8")]);
    let output = calibrate(scratch.path(), &address, &["--seconds", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(&disk).expect("the disk") == before, "reading changed the disk");
    let output = calibrate(scratch.path(), &address, &["--seconds", "4", "--write"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("its data is lost"));
    assert!(std::fs::read(&disk).expect("the disk") != before, "writes were measured");
}

#[test]
fn what_cannot_be_measured_is_refused_at_once() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let (_server, address) = nbdkit(&scratch, &["--readonly", "memory", "1M"]);
    let refusal = |options: &[&str]| {
        let output = calibrate(scratch.path(), &address, options);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = refusal(&["--write"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("read-only") && text.contains("leave --write out"), "{text}");
    assert!(refusal(&["--seconds", "1"]).1.contains("2 to 86400"));
    let nobody = calibrate(scratch.path(), "nbd+unix:///?socket=/nonexistent", &[]);
    assert_eq!(nobody.status.code(), Some(4));
}

/// Interrupts a calibration after a while, and gives what it said.
fn interrupted(scratch: &Scratch, address: &str, after: Duration) -> Output {
    let model = scratch.join("model.toml");
    let model = model.to_str().expect("a path of ours is UTF-8");
    let mut command = Command::new(EVENKEEL);
    command.args(["calibrate", address, "--json", "--output", model, "--seconds", "60"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let output = assert_within(Duration::from_secs(10), || {
        let child = command.spawn().expect("run evenkeel");
        std::thread::sleep(after);
        let begun = Instant::now();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        (child.wait_with_output().expect("it ends"), begun.elapsed())
    });
    assert_eq!(output.status.code(), Some(1));
    output
}

#[test]
fn an_interrupt_gives_what_was_measured_and_leaves_the_model_of_before() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let (_server, address) = nbdkit(&scratch, &["memory", "64M"]);
    std::fs::write(scratch.join("model.toml"), "of before").expect("write to scratch");
    // The first step takes more than a second, and counts for nothing.
    let document = json(&interrupted(&scratch, &address, Duration::from_millis(600)));
    let message = document["error"]["message"].as_str().expect("a message");
    assert!(message.contains("before anything was measured"), "{message}");
    let document = json(&interrupted(&scratch, &address, Duration::from_secs(6)));
    assert_eq!(document["is_complete"], false);
    let points = document["points"].as_array().expect("points");
    assert!(!points.is_empty() && points[0]["iops"].as_f64().is_some_and(|it| it > 0.0));
    let file = std::fs::read_to_string(scratch.join("model.toml")).expect("the file");
    assert_eq!(file, "of before");
}
