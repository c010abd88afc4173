//! A forecast beside a live gate, and what happened then: the same clients are watched in observe
//! mode, and after the policy was enforced.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel_app::evidence::machine::Conditions;
use serde_json::Value;

use super::{SLOW, advise, load, policy};
use crate::harness::Scratch;
use crate::harness::conditions::BEARS;
use crate::harness::gate::{EVENKEEL, Gate};
use crate::harness::skip::{needs, tell};
use crate::harness::storage::Server;

/// How long the gate looks, and then enforces; with `EVENKEEL_FORECAST_LIVE` for as long as a gate
/// remembers, which is five minutes but for the last seconds.
fn watched_seconds() -> u64 {
    if std::env::var_os("EVENKEEL_FORECAST_LIVE").is_some() { 290 } else { 15 }
}

/// Those with a share of four and of one.
const TENANTS: [(&str, u32); 2] = [("db", 4), ("backup", 1)];

/// A backup that works for a while and rests, again and again. That distinguishes devices.
fn work_and_rest(gate: &Gate, is_over: &AtomicBool) {
    let uri = gate.plain("backup").uri();
    let arguments = ["bench", &uri, "--size", "64KiB", "--depth", "32", "--runtime", "4 s"];
    while !is_over.load(Ordering::Relaxed) {
        let mut command = Command::new(EVENKEEL);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("run evenkeel").success());
        thread::sleep(Duration::from_secs(2));
    }
}

/// Bytes, requests and seconds that these took, since the gate was started.
fn totals(gate: &Gate, tenant: &str) -> [f64; 3] {
    let status = gate.status();
    let tenants = status["domains"][0]["tenants"].as_array().expect("tenants");
    let own = tenants.iter().find(|one| one["name"] == tenant).expect("the policy has it");
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let (time, bytes) = (&own["total_time"], number(&own["delivered"]["bytes"]));
    let count = number(&time["count"]);
    [bytes, count, count * number(&time["mean_seconds"])]
}

/// What a tenant got while that time passed: bytes a second, and the mean response time in seconds.
fn measured(gate: &Gate, span: Duration) -> [[f64; 2]; 2] {
    let before = TENANTS.map(|(name, _)| totals(gate, name));
    thread::sleep(span);
    let after = TENANTS.map(|(name, _)| totals(gate, name));
    [0, 1].map(|at| {
        let grown: Vec<f64> =
            after[at].iter().zip(before[at]).map(|(now, was)| now - was).collect();
        [grown[0] / span.as_secs_f64(), grown[2] / grown[1]]
    })
}

/// Of each tenant and figure that lies beyond its error bar: what was expected, and what came.
fn misses(advice: &Value, came: &[[f64; 2]; 2]) -> Vec<String> {
    let mut misses = Vec::new();
    for ((name, _), came) in TENANTS.iter().zip(came) {
        let tenants = advice["tenants"].as_array().expect("tenants");
        let own = tenants.iter().find(|one| one["name"] == **name).expect("it was seen");
        for (figure, came) in ["bytes_per_second", "mean_seconds"].iter().zip(came) {
            let expected = &own["forecast"][figure];
            let [value, low, high] =
                ["value", "low", "high"].map(|key| expected[key].as_f64().expect("a forecast"));
            let now = own["now"][figure].as_f64().expect("a figure");
            println!(
                "| {name} {figure} | {now:.4} | {value:.4} ({low:.4} to {high:.4}) | {came:.4} |"
            );
            if !(low..=high).contains(came) {
                misses.push(format!("{name} {figure}: {came} of {low} to {high}"));
            }
        }
    }
    misses
}

#[test]
fn what_was_forecast_happens_once_the_policy_is_enforced() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let server = Server::nbdkit_named(&scratch, "array", &SLOW);
    let tenant = |(name, share): (&str, u32)| {
        format!(
            "[[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\nshare = {share}\n"
        )
    };
    let policy = policy(&server) + &TENANTS.map(tenant).concat();
    let gate = Gate::start(&scratch, &policy);
    let _db = load(&scratch, &gate, "db", "4KiB", "8");
    let span = Duration::from_secs(watched_seconds());
    let is_over = AtomicBool::new(false);
    let ((advice, said, came), conditions) = Conditions::during(BEARS, || {
        thread::scope(|scope| {
            scope.spawn(|| work_and_rest(&gate, &is_over));
            let watch = format!("{} s", span.as_secs());
            let (_, advice, said) = advise(&scratch, &["--watch", &watch]);
            gate.ctl(&["mode", "enforce"]);
            // What waits is served by the old order for a moment.
            thread::sleep(Duration::from_secs(3));
            let came = measured(&gate, span);
            is_over.store(true, Ordering::Relaxed);
            (advice, said, came)
        })
    })
    .expect("a thread to watch with");
    assert_eq!(advice["is_explained"], true, "{said} {advice}");
    let misses = misses(&advice, &came);
    if !misses.is_empty() && conditions.is_disturbed() {
        return tell(&format!("{}: {}", misses.join(", "), conditions.why()));
    }
    assert!(misses.is_empty(), "{misses:?} {advice}");
}
