//! What `evenkeel plan` promises: a forecast beside the present for each tenant of a trace, a
//! verdict, and clear refusals.

use std::time::Duration;

use serde_json::Value;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::finish;

const POLICY: &str = "\
mode = \"enforce\"
listen = [\"unix:s\"]
[[backend]]
name = \"disk\"
memory = true
depth = 4
[[export]]
name = \"db\"
size = \"1 GiB\"
[[export]]
name = \"backup\"
size = \"1 GiB\"
[[tenant]]
name = \"db\"
match = { export = \"db\" }
share = 4
[[tenant]]
name = \"backup\"
match = { export = \"backup\" }
";

/// Two tenants in the columns of MSR Cambridge: time in 100 ns, host, disk, kind, offset, size,
/// response in 100 ns.
fn trace(response_ms: u64) -> String {
    let mut text = String::new();
    for index in 0..4000u64 {
        let at = 128_166_372_000_000_000 + index * 25_000;
        let (disk, size) = if index % 2 == 0 { ("db", 4096) } else { ("backup", 65536) };
        let offset = (index * 7919 % 4096) * 4096;
        let line = format!("{at},{disk},0,Read,{offset},{size},{}\n", response_ms * 10_000);
        text.push_str(&line);
    }
    text
}

fn plan(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String) {
    let all = [&["plan", "policy.toml", "--trace", "trace.csv"], arguments].concat();
    let (status, output) = finish(scratch.path(), EVENKEEL, &all, Duration::from_mins(1));
    (status.code(), output)
}

fn stage() -> Scratch {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("policy.toml"), POLICY).expect("write the policy");
    std::fs::write(scratch.join("trace.csv"), trace(20)).expect("write the trace");
    scratch
}

const MAPS: [&str; 4] = ["--map", "db_0=db", "--map", "backup_0=backup"];

#[test]
fn a_plan_sets_the_forecast_beside_what_was_recorded() {
    let scratch = stage();
    let (code, output) =
        plan(&scratch, &[&["--backend", "fixed=2ms,servers=4", "--json"], &MAPS[..]].concat());
    assert_eq!(code, Some(0), "{output}");
    let report: Value = serde_json::from_str(&output).expect("one document");
    assert_eq!(report["basis"], "nothing");
    let tenants = report["tenants"].as_array().expect("a list");
    assert_eq!(tenants.len(), 2, "{report}");
    for tenant in tenants {
        let recorded = tenant["recorded"]["mean_seconds"].as_f64().expect("a number");
        let forecast = tenant["forecast"]["mean_seconds"].as_f64().expect("a number");
        assert!((recorded - 0.020).abs() < 1e-6, "as recorded: {tenant}");
        assert!((0.002..0.02).contains(&forecast), "quicker than that: {tenant}");
        assert!(tenant["present"].is_null(), "{tenant}");
        assert_eq!(tenant["change"], "unknown", "another storage is no policy to compare with");
    }
}

#[test]
fn without_a_present_policy_nobody_is_better_off_than_nothing() {
    let scratch = stage();
    let (_, output) = plan(&scratch, &[&["--backend", "fixed=2ms,servers=4"], &MAPS[..]].concat());
    assert!(output.contains("nothing to compare with"), "{output}");
    assert!(output.contains("--present POLICY"), "the remedy: {output}");
    assert!(!output.contains("better"), "{output}");
    let same = [&["--backend", "fixed=2ms,servers=4", "--present", "policy.toml"], &MAPS[..]];
    let (_, output) = plan(&scratch, &same.concat());
    assert_eq!(output.matches("no difference").count(), 2, "{output}");
}

#[test]
fn a_burst_at_the_end_of_the_trace_breaks_a_goal_that_it_breaks() {
    let scratch = promising("latency = \"50 ms\"");
    let mut text = trace(20);
    // A quarter more than there is, all at the last instant.
    let last = 128_166_372_000_000_000u64 + 3999 * 25_000;
    let burst = |index: u64| format!("{last},db,0,Read,{},4096,200000\n", index * 4096);
    text.extend((0..1000).map(burst));
    std::fs::write(scratch.join("trace.csv"), text).expect("write the trace");
    let options = ["--backend", "fixed=4ms,servers=2", "--json"];
    let (code, output) = plan(&scratch, &[&options[..], &MAPS[..]].concat());
    assert_eq!(code, Some(1), "{output}");
    let report: Value = serde_json::from_str(&output).expect("one document");
    let promises = report["promises"].as_array().expect("a list");
    let goal = promises.iter().find(|one| one["tenant"] == "db").expect("the goal");
    assert_eq!(goal["is_kept"], false, "{goal}");
    // A thousand at once, 500 a second: two thirds of a third of all took longer than 50 ms.
    assert!(goal["found"].as_str().is_some_and(|found| found.starts_with("32.")), "{goal}");
    let carried = &promises[0];
    assert_eq!(carried["is_kept"], false, "{carried}");
    assert!(carried["found"].as_str().is_some_and(|found| found.contains("to drain")), "{carried}");
    let drain = report["drain_seconds"].as_f64().expect("a number");
    assert!((1.9..2.1).contains(&drain), "{drain}");
}

#[test]
fn a_storage_that_cannot_carry_the_load_breaks_the_promise() {
    let scratch = stage();
    let (code, output) = plan(&scratch, &[&["--backend", "fixed=20ms"], &MAPS[..]].concat());
    assert_eq!(code, Some(1), "the answer is no: {output}");
    assert!(output.contains("BROKEN  the storage carries the load"), "{output}");
    assert!(output.contains("to drain"), "{output}");
}

/// The policy with what `db` is promised.
fn promising(promise: &str) -> Scratch {
    let scratch = stage();
    let policy = POLICY.replace("share = 4", &format!("share = 0.1\n{promise}"));
    std::fs::write(scratch.join("policy.toml"), policy).expect("write the policy");
    scratch
}

#[test]
fn a_floor_is_kept_where_the_storage_has_room_for_it_and_broken_where_not() {
    // `db` asks for 200 requests in a second, and so does `backup`.
    let scratch = promising("floor = \"180 iops\"");
    let (_, output) = plan(&scratch, &[&["--backend", "fixed=4ms"], &MAPS[..]].concat());
    assert!(output.contains("kept  db: floor of 180 iops: "), "250 in a second: {output}");
    assert!(output.contains("kept  the floors fit the devices"), "{output}");
    // What the storage takes is left to the gate, which no plan has seen.
    assert!(output.contains("not measured") && output.contains("not provable yet"), "{output}");
    let (code, output) = plan(&scratch, &[&["--backend", "fixed=8ms"], &MAPS[..]].concat());
    assert!(output.contains("BROKEN  db: floor of 180 iops: "), "125 in a second: {output}");
    assert_eq!(code, Some(1), "{output}");
}

#[test]
fn a_latency_goal_is_kept_beside_a_tenant_that_floods_the_storage() {
    let scratch = stage();
    let promise = POLICY.replace("share = 4", "share = 4\nlatency = \"50 ms\"");
    std::fs::write(scratch.join("policy.toml"), promise).expect("write the policy");
    let (_, output) = plan(&scratch, &[&["--backend", "fixed=4ms"], &MAPS[..]].concat());
    assert!(output.contains("kept  db: latency of 50 ms: "), "{output}");
    let (_, output) = plan(&scratch, &[&["--backend", "fixed=60ms"], &MAPS[..]].concat());
    assert!(output.contains("BROKEN  db: latency of 50 ms: "), "{output}");
}

/// `db` needs four fifths of the storage. `backup`, whose requests wait for longer than a second,
/// has half of its ten elevenths whoever else is in time: nobody starves.
#[test]
fn a_latency_goal_that_needs_what_half_the_shares_of_others_leave_is_broken() {
    let scratch = promising("latency = \"50 ms\"");
    let (_, output) = plan(&scratch, &[&["--backend", "fixed=4ms"], &MAPS[..]].concat());
    assert!(output.contains("BROKEN  db: latency of 50 ms: "), "{output}");
}

#[test]
fn the_present_policy_may_be_simulated_for_comparison() {
    let scratch = stage();
    std::fs::write(scratch.join("old.toml"), POLICY.replace("share = 4", "share = 1"))
        .expect("write the policy");
    let options = ["--backend", "fixed=9ms,servers=4", "--present", "old.toml", "--json"];
    let (_, output) = plan(&scratch, &[&options[..], &MAPS[..]].concat());
    let report: Value = serde_json::from_str(&output).expect("one document");
    assert_eq!(report["basis"], "present_policy");
    let again = plan(&scratch, &[&options[..], &MAPS[..]].concat()).1;
    assert_eq!(output, again, "the same plan twice");
}

#[test]
fn figures_are_drawn_on_request() {
    let scratch = stage();
    let options = ["--backend", "fixed=2ms,servers=4", "--plot", "figures"];
    let (code, output) = plan(&scratch, &[&options[..], &MAPS[..]].concat());
    assert_eq!(code, Some(0), "{output}");
    for file in ["plan-latency.png", "plan-latency.svg", "plan-p99.png", "plan-p99.svg"] {
        assert!(scratch.join("figures").join(file).exists(), "{file}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_remedy() {
    let scratch = stage();
    std::fs::write(scratch.join("junk.csv"), "this is\nno trace\n").expect("write");
    std::fs::write(scratch.join("empty.csv"), "").expect("write");
    std::fs::write(scratch.join("device.toml"), "constnat = {}\n").expect("write");
    let good = ["--backend", "fixed=2ms"];
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--backend", "fixed=fast"], 2, "write it like"),
        (&["--backend", "no-such-file"], 2, "neither a model nor a file"),
        (&["--backend", "device.toml"], 3, "constnat"),
        (&["--backend", "hdd:mystery"], 3, "mystery"),
        (&["--backend", "fixed=1ms", "--backend", "fixed=2ms"], 2, "NAME="),
        (&[good[0], good[1], "--map", "db_0=nobody"], 2, "no tenant"),
        (&[good[0], good[1], "--speed", "0"], 2, "--speed"),
        (&[good[0], good[1], "--present", "nowhere.toml"], 5, "nowhere.toml"),
    ];
    for (arguments, exit, expected) in cases {
        let (code, output) = plan(&scratch, arguments);
        assert_eq!(code, Some(exit), "{arguments:?}: {output}");
        assert!(output.contains(expected), "{arguments:?}: {output}");
    }
    for file in ["junk.csv", "empty.csv", "-"] {
        let arguments = ["plan", "policy.toml", "--trace", file, "--backend", "fixed=2ms"];
        let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, Duration::from_mins(1));
        assert!(matches!(status.code(), Some(2 | 3)), "{file}: {status} {output}");
    }
}
