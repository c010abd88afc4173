//! The policies in traces: a gate records those that it serves under, and transformations keep them
//! true or say that they are left out.

use std::process::{Command, Output};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_trace::format::{Format, Options};
use evenkeel_trace::{Record, Sources};
use serde_json::Value;

use crate::harness::gate::{EVENKEEL, memory_policy, without_found};
use crate::harness::process::Process;
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, wait_for};

fn run(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(EVENKEEL);
    let output =
        command.args(arguments).current_dir(scratch.path()).output().expect("run evenkeel");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output
}

fn trace(scratch: &Scratch, arguments: &[&str]) -> String {
    let output = run(scratch, &[&["trace"], arguments].concat());
    String::from_utf8(output.stderr).expect("messages are text")
}

fn stat(scratch: &Scratch, file: &str) -> Value {
    let output = run(scratch, &["trace", "stat", file, "--json"]);
    serde_json::from_slice(&output.stdout).expect("stat prints JSON")
}

/// Instants and texts.
fn policies(scratch: &Scratch, file: &str) -> Vec<(u64, Option<String>)> {
    let document = stat(scratch, file);
    let policies = document["policies"].as_array().expect("a list").iter();
    policies
        .map(|policy| {
            let at = policy["at_nanoseconds"].as_u64().expect("a number");
            (at, policy["text"].as_str().map(str::to_owned))
        })
        .collect()
}

/// Arrivals of all requests, in the trace's own time.
fn arrivals(scratch: &Scratch, file: &str) -> Vec<u64> {
    trace(scratch, &["convert", file, "times.csv.zst", "--to", "csv"]);
    trace(scratch, &["convert", "times.csv.zst", "times.csv", "--to", "csv"]);
    let text = std::fs::read_to_string(scratch.join("times.csv")).expect("written above");
    let first = |line: &str| line.split(',').next().expect("a column").parse().expect("a number");
    text.lines().skip(1).map(first).collect()
}

#[test]
fn a_recording_tells_each_policy_in_force_at_its_instant() {
    let scratch = Scratch::new();
    let policy = format!(
        "listen = [\"unix:gate.sock\"]\n{}\
         [[tenant]]\nname = \"db\"\nmatch = {{ export = \"disk\" }}\n",
        memory_policy("8 MiB")
    );
    std::fs::write(scratch.join("policy.toml"), policy).expect("write to scratch");
    let arguments = "serve policy.toml --control control.sock --metrics off --record gate.ektrace";
    let mut gate =
        Process::start(scratch.path(), EVENKEEL, &arguments.split(' ').collect::<Vec<_>>());
    let socket = Address::Unix(scratch.join("gate.sock"));
    gate.wait_until("listens", || socket.answers());
    let uri = Target { address: socket, export: "disk".to_owned(), certificates: None }.uri();
    let ctl = |arguments: &[&str]| {
        let output = run(&scratch, &[&["ctl", "--control", "control.sock"], arguments].concat());
        without_found(&String::from_utf8(output.stdout).expect("a policy is text"))
    };
    let serve = |requests: &str| {
        run(&scratch, &["bench", &uri, "--requests", requests, "--depth", "4"]);
        ctl(&["policy"])
    };
    let mut expected = vec![serve("400")];
    ctl(&["tenant", "set", "db", "--share", "7"]);
    expected.push(serve("300"));
    ctl(&["mode", "shadow"]);
    expected.push(serve("200"));
    // A reload takes back what was changed, and a second one changes nothing.
    gate.signal(rustix::process::Signal::HUP);
    wait_for("the policy file to be in force", || (ctl(&["policy"]) == expected[0]).then_some(()));
    ctl(&["reload"]);
    expected.push(serve("100"));
    gate.signal(rustix::process::Signal::TERM);
    assert!(gate.wait().success());

    let found = policies(&scratch, "gate.ektrace");
    let texts: Vec<String> = found.iter().filter_map(|(_, text)| text.clone()).collect();
    assert_eq!(texts, expected);
    assert!(texts[1].contains("share = 7") && texts[2].contains("mode = \"shadow\""));
    let arrivals = arrivals(&scratch, "gate.ektrace");
    let before = |at: u64| arrivals.iter().filter(|&&arrival| arrival < at).count();
    let served: Vec<usize> = found.iter().map(|&(at, _)| before(at)).collect();
    assert_eq!(served, [0, 400, 700, 900], "of {} requests", arrivals.len());
    let text = String::from_utf8(run(&scratch, &["trace", "stat", "gate.ektrace"]).stdout);
    let text = text.expect("text");
    assert!(
        text.contains("policy      from the start on: observe, 1 tenant with share: db 1\n"),
        "{text}"
    );
}

const SECOND: u64 = 1_000_000_000;
const FIRST: &str = "mode = \"observe\"\n# first";
const SECOND_ONE: &str = "mode = \"enforce\"\n# second";

/// A request every second for 100 s from the instant 0 on, and the policies of these instants.
fn write_trace(scratch: &Scratch, name: &str, policies: &[(u64, Option<&str>)]) {
    let mut sources = Sources::default();
    let source = sources.intern("db/secret-name").expect("one name");
    let mut encoder = Format::Native.encoder(&Options::default()).expect("it can be written");
    let (mut file, mut policies) = (Vec::new(), policies.iter().peekable());
    for number in 0..100 {
        let at = number * SECOND;
        while let Some((at, text)) = policies.next_if(|policy| policy.0 <= at) {
            encoder.policy(Nanos(*at), *text, &mut file).expect("they are in order");
        }
        let (kind, offset) = (Kind::Read, number * 4096);
        let at = Nanos(at);
        let record = Record { at, source, kind, offset, length: 4096, response: None };
        encoder.encode(&sources, &record, &mut file).expect("it fits");
    }
    encoder.finish(&mut file);
    std::fs::write(scratch.join(name), file).expect("write to scratch");
}

fn told(policies: &[(u64, Option<&str>)]) -> Vec<(u64, Option<String>)> {
    policies.iter().map(|&(at, text)| (at, text.map(str::to_owned))).collect()
}

/// `first` from the start, `second` from 50.5 s on.
const BOTH: [(u64, Option<&str>); 2] = [(0, Some(FIRST)), (505 * SECOND / 10, Some(SECOND_ONE))];

#[test]
fn a_cut_keeps_the_policy_in_force_at_its_start_and_later_changes() {
    let scratch = Scratch::new();
    write_trace(&scratch, "a.ektrace", &BOTH);
    let cut = |arguments: &[&str]| {
        trace(&scratch, &[&["cut", "a.ektrace", "b.ektrace"], arguments].concat());
        policies(&scratch, "b.ektrace")
    };
    assert_eq!(cut(&["--from", "10s"]), told(&[(0, BOTH[0].1), (405 * SECOND / 10, BOTH[1].1)]));
    assert_eq!(cut(&["--from", "60s"]), told(&[(0, BOTH[1].1)]));
    assert_eq!(cut(&["--from", "60s", "--times", "kept"]), told(&[(60 * SECOND, BOTH[1].1)]));
    assert_eq!(cut(&["--until", "50s"]), told(&[(0, BOTH[0].1)]));
    assert_eq!(cut(&["--skip", "51", "--count", "3"]), told(&[(0, BOTH[1].1)]));
    assert_eq!(cut(&["--count", "3"]), told(&[(0, BOTH[0].1)]));
}

#[test]
fn policies_go_along_when_a_trace_is_converted_and_scaled() {
    let scratch = Scratch::new();
    write_trace(&scratch, "a.ektrace", &BOTH);
    assert!(!trace(&scratch, &["convert", "a.ektrace", "b.ektrace.zst"]).contains("left out"));
    assert_eq!(policies(&scratch, "b.ektrace.zst"), told(&BOTH));
    trace(&scratch, &["scale", "a.ektrace", "b.ektrace", "--time", "2"]);
    assert_eq!(policies(&scratch, "b.ektrace"), told(&[BOTH[0], (101 * SECOND, BOTH[1].1)]));
    // Two requests a nanosecond apart come to the same instant; the policy between them does not.
    trace(&scratch, &["scale", "a.ektrace", "b.ektrace", "--rate", "1000000000"]);
    assert_eq!(policies(&scratch, "b.ektrace"), told(&[BOTH[0], (51, BOTH[1].1)]));
}

#[test]
fn policies_that_cannot_go_along_are_left_out_with_a_word() {
    let scratch = Scratch::new();
    write_trace(&scratch, "a.ektrace", &BOTH);
    let left_out = "the policies that the trace tells are left out: ";
    let said = trace(&scratch, &["convert", "a.ektrace", "b.csv", "--to", "msr"]);
    assert!(said.contains(&format!("{left_out}the format holds no policy")), "{said}");
    let said = trace(&scratch, &["anonymise", "a.ektrace", "b.ektrace"]);
    assert!(said.contains(&format!("{left_out}they name tenants")), "{said}");
    assert_eq!(policies(&scratch, "b.ektrace"), []);
    let bytes = std::fs::read(scratch.join("b.ektrace")).expect("written above");
    for secret in [&b"secret-name"[..], b"first"] {
        assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{secret:?}");
    }
}

#[test]
fn a_merge_keeps_the_policy_that_all_its_parts_share() {
    let scratch = Scratch::new();
    write_trace(&scratch, "a.ektrace", &BOTH);
    write_trace(&scratch, "b.ektrace", &BOTH);
    write_trace(&scratch, "c.ektrace", &[(0, Some(FIRST))]);
    write_trace(&scratch, "none.ektrace", &[]);
    let merge = |arguments: &[&str]| {
        let said = trace(&scratch, &[&["merge", "-o", "m.ektrace"], arguments].concat());
        (policies(&scratch, "m.ektrace"), said.contains("not recorded under the same policy"))
    };
    assert_eq!(merge(&["a.ektrace", "b.ektrace"]), (told(&BOTH), false));
    let (found, is_said) = merge(&["a.ektrace", "c.ektrace"]);
    assert_eq!((found, is_said), (told(&[BOTH[0], (505 * SECOND / 10, None)]), true));
    assert_eq!(merge(&["a.ektrace", "none.ektrace"]), (told(&[]), true));
    assert_eq!(merge(&["none.ektrace"]), (told(&[]), false));
    let delays = ["a.ektrace", "c.ektrace", "--delay", "0s", "--delay", "100s"];
    let expected = told(&[BOTH[0], BOTH[1], (100 * SECOND, Some(FIRST))]);
    assert_eq!(merge(&delays), (expected, false));
}

#[test]
fn stat_says_under_which_policies_a_trace_was_recorded() {
    let scratch = Scratch::new();
    write_trace(&scratch, "a.ektrace", &[(0, Some(FIRST)), (5, None)]);
    write_trace(&scratch, "none.ektrace", &[]);
    let text = |file: &str| {
        String::from_utf8(run(&scratch, &["trace", "stat", file]).stdout).expect("text")
    };
    let found = text("a.ektrace");
    assert!(found.contains("\n            from <1 us on: not known\n"), "{found}");
    let found = text("none.ektrace");
    assert!(found.contains("\npolicy      the trace tells none\n"), "{found}");
    let document = stat(&scratch, "a.ektrace");
    assert_eq!(document["policies"][1]["text"], Value::Null);
    assert_eq!(document["policies"][1]["summary"], "not known");
    assert_eq!(document["bad"]["passed_over"], 0);
}
