//! What `evenkeel simulate` promises: the shipped scenarios run, equal runs are equal, mistakes are
//! shown where they were made.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::finish;

const LONG: Duration = Duration::from_mins(2);

fn simulate(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String) {
    let all = [&["simulate"], arguments].concat();
    let (status, output) = finish(scratch.path(), EVENKEEL, &all, LONG);
    (status.code(), output)
}

fn shipped(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    folder.join(name).to_str().expect("the checkout has a readable name").to_owned()
}

fn document(output: &str) -> Value {
    serde_json::from_str(output).unwrap_or_else(|error| panic!("{error}: {output}"))
}

fn all_shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let entries = std::fs::read_dir(folder).expect("the scenarios are part of the checkout");
    let files = entries.map(|entry| entry.expect("a folder can be listed").path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect()
}

#[test]
fn every_shipped_scenario_serves_every_tenant_and_repeats_itself() {
    let files = all_shipped();
    assert!(files.len() >= 6, "{files:?}");
    let scratch = Scratch::new();
    for file in files {
        let file = file.to_str().expect("a name of ours");
        let (code, first) = simulate(&scratch, &[file, "--json"]);
        assert_eq!(code, Some(0), "{file}: {first}");
        let summary = document(&first);
        for tenant in summary["tenants"].as_array().expect("a list") {
            assert!(tenant["traffic"]["requests"].as_u64() > Some(100), "{file}: {tenant}");
        }
        let (_, second) = simulate(&scratch, &[file, "--json"]);
        assert_eq!(first, second, "{file} gave two different runs");
    }
}

#[test]
fn another_seed_is_another_run() {
    let scratch = Scratch::new();
    let hash = |seed: &str| {
        let (_, output) = simulate(&scratch, &[&shipped("bursts.toml"), "--json", "--seed", seed]);
        document(&output)["log_hash"].as_str().expect("a hash").to_owned()
    };
    assert_eq!(hash("7"), hash("7"));
    assert_ne!(hash("7"), hash("8"));
}

#[test]
fn shares_come_out_as_the_policy_says() {
    let scratch = Scratch::new();
    let (_, output) = simulate(&scratch, &[&shipped("shares.toml"), "--json"]);
    let tenants = document(&output)["tenants"].clone();
    let delivered = tenants[0]["delivered"].as_f64().expect("a number");
    assert!((delivered - 0.8).abs() < 0.01, "four to one: {tenants}");
}

#[test]
fn series_and_figures_are_written_where_they_are_wanted() {
    let scratch = Scratch::new();
    let scenario = shipped("limits.toml");
    let (code, output) =
        simulate(&scratch, &[&scenario, "--series", "out.csv", "--plot", "figures"]);
    assert_eq!(code, Some(0), "{output}");
    let table = std::fs::read_to_string(scratch.join("out.csv")).expect("the series");
    assert_eq!(table.lines().count(), 1 + 2 * 21, "a row per tenant and second, and of the drain");
    let (code, output) = simulate(&scratch, &[&scenario, "--series", "out.parquet"]);
    assert_eq!(code, Some(0), "{output}");
    let packed = std::fs::read(scratch.join("out.parquet")).expect("the series");
    assert!(packed.starts_with(b"PAR1") && packed.ends_with(b"PAR1"));
    for name in ["throughput", "latency", "distribution", "shares"] {
        let file = |ending: &str| scratch.join(format!("figures/limits-{name}.{ending}"));
        let picture = std::fs::read(file("png")).expect("the figure as PNG");
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        let text = std::fs::read_to_string(file("svg")).expect("the figure as SVG");
        assert!(text.contains("</svg>"), "{name}");
    }
}

#[test]
fn mistakes_are_shown_where_they_were_made() {
    let good = std::fs::read_to_string(shipped("shares.toml")).expect("a shipped scenario");
    let cases = [
        ("length = \"20 s\"", "lenght = \"20 s\"", "did you mean `length`"),
        ("length = \"20 s\"", "length = 20", "expected a duration"),
        ("length = \"20 s\"", "length = \"20 parsec\"", "is not a duration"),
        ("share = 4", "share = 0", "does not fit"),
        ("backend = \"array\"\nconstant", "backend = \"arry\"\nconstant", "did you mean `array`"),
        ("target = \"db\"", "target = \"dv\"", "no export or backend"),
        ("clients = 16", "clients = 0", "zero would serve nothing"),
        ("servers = 8 }", "servers = 8, heads = 2 }", "unknown key `heads`"),
        ("constant = {", "magnetic = {", "unknown key `magnetic`"),
        ("[[workload]]", "[[[workload]]", "scenario.toml:"),
    ];
    let scratch = Scratch::new();
    for (from, to, expected) in cases {
        assert!(good.contains(from), "{from} is not in the scenario");
        let text = good.replacen(from, to, 1);
        std::fs::write(scratch.join("scenario.toml"), text).expect("write the scenario");
        let (code, output) = simulate(&scratch, &["scenario.toml"]);
        assert!(matches!(code, Some(3 | 5)), "{to}: {code:?} {output}");
        assert!(output.contains(expected), "{to}: no {expected:?} in\n{output}");
    }
}

#[test]
fn a_policy_file_that_is_missing_or_wrong_is_named() {
    let scratch = Scratch::new();
    let scenario = "policy = \"gate.toml\"\nlength = \"1 s\"\n";
    std::fs::write(scratch.join("scenario.toml"), scenario).expect("write the scenario");
    let (code, output) = simulate(&scratch, &["scenario.toml"]);
    assert!(code == Some(5) && output.contains("gate.toml"), "{code:?} {output}");
    std::fs::write(scratch.join("gate.toml"), "moode = \"enforce\"\n").expect("write the policy");
    let (code, output) = simulate(&scratch, &["scenario.toml"]);
    assert!(code == Some(3) && output.contains("gate.toml:1"), "{code:?} {output}");
}

#[test]
fn noise_is_refused_with_a_place_and_not_with_a_crash() {
    let scratch = Scratch::new();
    let noise: [&[u8]; 4] = [b"", b"\0\0\0", b"policy = [[[[[[[", &[0xff, 0xfe, 0x00]];
    for bytes in noise {
        std::fs::write(scratch.join("scenario.toml"), bytes).expect("write the scenario");
        let (code, output) = simulate(&scratch, &["scenario.toml"]);
        assert!(matches!(code, Some(3 | 5)), "{bytes:?}: {code:?} {output}");
        assert!(output.contains("scenario.toml"), "{output}");
    }
    let (code, output) = simulate(&scratch, &["nowhere.toml"]);
    assert!(matches!(code, Some(3 | 5)) && output.contains("nowhere.toml"), "{output}");
}

#[test]
fn a_series_in_no_known_form_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    let (code, output) = simulate(&scratch, &[&shipped("shares.toml"), "--series", "out.xlsx"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains(".parquet"), "{output}");
}

#[test]
fn a_policy_may_change_while_a_scenario_runs() {
    let policy = |share: u32| {
        format!(
            "mode = \"enforce\"\nlisten = [\"unix:s\"]\n\
             backend = [{{ name = \"disk\", memory = true, depth = 4 }}]\n\
             export = [{{ name = \"disk\", size = \"1 GiB\" }}]\n\
             tenant = [{{ name = \"a\", share = {share} }}, {{ name = \"b\" }}]\n"
        )
    };
    let workload = |tenant: &str| {
        format!(
            "[[workload]]\nname = \"{tenant}\"\ntenant = \"{tenant}\"\n\
             target = \"disk\"\nclients = 8\n"
        )
    };
    let text = format!(
        "length = \"10 s\"\npolicy = \"first.toml\"\n[[device]]\nbackend = \"disk\"\n\
         constant = {{ size = \"1 GiB\", fixed = \"1 ms\" }}\n{}{}\
         [[change]]\nat = \"5 s\"\npolicy = \"second.toml\"\n",
        workload("a"),
        workload("b")
    );
    let scratch = Scratch::new();
    for (name, text) in
        [("first.toml", policy(3)), ("second.toml", policy(1)), ("scenario.toml", text.clone())]
    {
        std::fs::write(scratch.join(name), text).expect("write a file");
    }
    let (code, output) = simulate(&scratch, &["scenario.toml", "--json"]);
    assert_eq!(code, Some(0), "{output}");
    let report: Value = serde_json::from_str(&output).expect("one document");
    let delivered = report["tenants"][0]["delivered"].as_f64().expect("a number");
    assert!((0.62..0.63).contains(&delivered), "three quarters, then one half: {delivered}");
    let bad = text.replace("second.toml", "gone.toml");
    std::fs::write(scratch.join("scenario.toml"), bad).expect("write the scenario");
    let (code, output) = simulate(&scratch, &["scenario.toml"]);
    assert!(code == Some(5) && output.contains("gone.toml"), "{code:?} {output}");
}

#[test]
fn a_backlog_that_never_ends_is_an_error_of_the_scenario() {
    let scratch = Scratch::new();
    let text = "length = \"1 s\"\n[policy]\nmode = \"enforce\"\n\
                [[policy.backend]]\nname = \"disk\"\n\
                [[device]]\nbackend = \"disk\"\nconstant = { size = \"1 GiB\", rate = \"1 B/s\" }\n\
                [[workload]]\nname = \"w\"\ntarget = \"disk\"\nsize = \"16 MiB\"\n";
    std::fs::write(scratch.join("scenario.toml"), text).expect("write the scenario");
    let (code, output) = simulate(&scratch, &["scenario.toml"]);
    assert_eq!(code, Some(3), "{output}");
    assert!(output.contains("never ends") && output.contains("1 of \"w\""), "{output}");
}

/// The scenario that the manual shows.
#[test]
fn the_scenario_in_the_manual_runs() {
    let manual = include_str!("../../../../docs/simulate.md");
    let scenario = manual.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let scratch = Scratch::new();
    let text = scenario.expect("the manual shows a scenario");
    std::fs::write(scratch.join("manual.toml"), text).expect("write the scenario");
    let (code, output) = simulate(&scratch, &["manual.toml"]);
    assert_eq!(code, Some(0), "{output}");
}

/// The paper's experiments need neither nbdkit nor minutes in virtual time.
#[test]
fn the_shares_of_vpfs_hold_in_virtual_time() {
    let scratch = Scratch::new();
    let arguments = ["reproduce", "vpfs", "--simulated", "only", "--json"];
    let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, LONG);
    assert_eq!(status.code(), Some(0), "{output}");
    let start = output.find('{').expect("a document after the talk");
    let claims = document(&output[start..])["claims"].clone();
    assert_eq!(claims.as_array().map(Vec::len), Some(12), "{claims}");
}

/// A few seeds are too few for every claim to hold; those that do not depend on chance must.
#[test]
fn response_times_across_hosts_are_kept_best_by_ours() {
    let scratch = Scratch::new();
    let arguments =
        ["reproduce", "drg", "--only", "simulated", "--quick", "--json", "--plot", "figures"];
    let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, LONG);
    let start = output.find("\n{").expect("a document after the talk");
    let document = document(&output[start..]);
    let holds = document["holds"].as_bool().expect("a verdict on all");
    assert_eq!(status.code(), Some(i32::from(!holds)), "{output}");
    let claims = document["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 31, "{claims:?}");
    assert_eq!(document["reporting"]["first_seed"], 101);
    assert_eq!(document["reporting"]["last_seed"], 105);
    let is_firm = |id: &str| id.starts_with("windows-");
    for claim in claims.iter().filter(|claim| is_firm(claim["id"].as_str().expect("an id"))) {
        assert_eq!(claim["verdict"], "holds", "{claim}");
    }
    for figure in ["drg-5-1b.svg", "drg-5-4a.svg", "drg-5-7c.png"] {
        assert!(scratch.join("figures").join(figure).is_file(), "{figure}");
    }
}

/// Shares over hosts as PARDA's authors have them, which ours keep more closely.
#[test]
fn shares_over_hosts_hold_as_in_the_paper_on_parda() {
    let scratch = Scratch::new();
    let arguments = ["reproduce", "drg", "--only", "hosts", "--quick", "--json"];
    let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, LONG);
    assert_eq!(status.code(), Some(0), "{output}");
    let start = output.find("\n{").expect("a document after the talk");
    let document = document(&output[start..]);
    let claims = document["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 35, "{claims:?}");
    let find = |id: &str| claims.iter().find(|claim| claim["id"] == id).expect("it is there");
    assert!(find("hosts-sioc-shares")["value"].as_f64() < Some(0.02));
    assert!(find("hosts-sioc-no-control")["value"].as_f64() > Some(1.0));
}

/// The reporting seeds of `--seed 0` would be those that the load was fitted on.
#[test]
fn claims_are_never_judged_on_the_seeds_of_the_fit() {
    let scratch = Scratch::new();
    let arguments = ["reproduce", "drg", "--only", "simulated", "--seed", "0"];
    let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, LONG);
    assert_eq!(status.code(), Some(2), "{output}");
    assert!(output.contains("--seed 0 has no seeds to report on; 1 is the first"), "{output}");
}

/// A user with a drive of their own: figures and a recording, plain or packed, and every mistake
/// with its place.
#[test]
fn a_recording_of_a_real_drive_is_held_against_its_model() {
    let scratch = Scratch::new();
    let line = |sector: u64| format!("R Hit {sector} 8 7000.0 20000.0\n");
    let recording: String = (0..50).map(|at| line(at * 300_000)).collect();
    std::fs::write(scratch.join("mine.trace"), &recording).expect("a folder to write to");
    let run = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["drive", "validate"].iter().chain(arguments).copied().collect();
        finish(scratch.path(), EVENKEEL, &arguments, LONG)
    };
    let (status, output) = run(&["cheetah-9lp", "mine.trace", "--json", "--plot", "figures"]);
    assert_eq!(status.code(), Some(0), "{output}");
    let start = output.find("{\n").expect("a document after the talk");
    let document = document(&output[start..]);
    assert_eq!(document["requests"], 50);
    assert_eq!(document["measured"]["mean_us"], 7000.0);
    assert!(document["demerit_us"].as_f64().is_some_and(|us| us > 0.0), "{document}");
    assert!(scratch.join("figures/drive-validate.svg").is_file());
    std::fs::write(scratch.join("bad.trace"), line(1) + "1,2,3\n").expect("a folder to write to");
    std::fs::write(scratch.join("bad.toml"), "name = 1\n").expect("a folder to write to");
    std::fs::write(scratch.join("far.trace"), line(1 << 40)).expect("a folder to write to");
    for (arguments, code, problem) in [
        (["cheetah-9lp", "bad.trace"], 3, "bad.trace: is no recording of a drive: line 2: fewer"),
        (["cheetah-9lp", "far.trace"], 3, "every request lies beyond the 17783240 sectors of"),
        (["bad.toml", "mine.trace"], 3, "docs/drives.md says what a drive needs"),
        (["cheetah", "mine.trace"], 2, "neither a drive that is built in (cheetah-9lp,"),
        (["cheetah-9lp", "none.trace"], 5, "cannot read the recording none.trace"),
    ] {
        let (status, output) = run(&arguments);
        assert_eq!(status.code(), Some(code), "{output}");
        assert!(output.contains(problem), "{output}");
    }
}
