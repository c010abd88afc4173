//! What `evenkeel place` shows of clusters, and that mistakes are told with a remedy.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::{finish, run};
use crate::harness::skip::needs;

const LONG: Duration = Duration::from_mins(2);

/// Few objects, so that it takes no time.
const QUICK: [&str; 2] = ["--objects", "1000"];

fn place(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String) {
    let all = [&["place"], arguments].concat();
    let (status, output) = finish(scratch.path(), EVENKEEL, &all, LONG);
    (status.code(), output)
}

/// What a simulation says, as JSON.
fn simulated(scratch: &Scratch, arguments: &[&str]) -> Value {
    let all = [&["simulate", "--json"], &QUICK[..], arguments].concat();
    let (code, output) = place(scratch, &all);
    assert_eq!(code, Some(0), "{output}");
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
}

fn used(document: &Value, way: usize) -> f64 {
    document["ways"][way]["used_part"].as_f64().expect("a part")
}

#[test]
fn choices_fill_what_hashing_leaves_empty() {
    let scratch = Scratch::new();
    let all = simulated(&scratch, &["--servers", "44", "--per-domain", "4"]);
    let ways = all["ways"].as_array().expect("ways");
    let names: Vec<_> = ways.iter().map(|way| &way["name"]).collect();
    assert_eq!(names, ["hashing", "2 choices", "2 choices, margin 1.0%", "odds, no look"]);
    let [hashing, choices, margin] = [0, 1, 2].map(|way| used(&all, way));
    assert!(hashing < 0.85 && choices > 0.99 && margin > 0.96, "{hashing} {choices} {margin}");
    let bound = all["certificate"]["at_most"].as_f64().expect("a bound");
    assert!(choices <= bound + 0.01, "{choices} {bound}");
    let servers = all["ways"][0]["server_used_parts"].as_array().expect("servers");
    assert_eq!(servers.len(), 44);
    let again = simulated(&scratch, &["--servers", "44", "--per-domain", "4"]);
    assert_eq!(all, again, "the same seed gives the same cluster");
}

#[test]
fn the_shipped_cluster_can_be_filled_and_drawn() {
    let scratch = Scratch::new();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/clusters/mixed.toml");
    let shipped = shipped.to_str().expect("the checkout has a readable name");
    let (code, output) =
        place(&scratch, &[&["simulate", shipped, "--plot", "figures"], &QUICK[..]].concat());
    assert_eq!(code, Some(0), "{output}");
    for part in ["46 servers in 11 failure domains", "FULL AT", "no choice can exceed"] {
        assert!(output.contains(part), "{part} in {output}");
    }
    assert!(scratch.join("figures/place-use.svg").is_file());
}

#[test]
fn what_ceph_prints_is_a_cluster_with_what_it_holds() {
    let scratch = Scratch::new();
    let osd = |id: u32| {
        let used = 100 + 10 * id;
        format!(
            "{{\"id\": {id}, \"name\": \"osd.{id}\", \"type\": \"osd\", \"crush_weight\": 1, \
             \"reweight\": 1, \"kb\": 100000000, \"kb_used\": {used}00000}}"
        )
    };
    let osds: Vec<String> = (0..12).map(osd).collect();
    let hosts = (0..4).map(|host| {
        let first = host * 3;
        format!(
            "{{\"id\": -{}, \"name\": \"h{host}\", \"type\": \"host\", \
             \"children\": [{first}, {}, {}]}}",
            host + 2,
            first + 1,
            first + 2
        )
    });
    let nodes: Vec<String> = hosts.chain(osds).collect();
    let text = format!("{{\"nodes\": [{}], \"stray\": []}}", nodes.join(", "));
    std::fs::write(scratch.join("df.json"), text).expect("write the document");
    let all = simulated(&scratch, &["df.json", "--keep-used", "--full", "95%"]);
    assert_eq!((&all["servers"], &all["failure_domains"]), (&12.into(), &4.into()));
    let start = all["start_part"].as_f64().expect("a part");
    assert!((start - 0.155).abs() < 1e-6, "{start}");
    let [hashing, choices] = [0, 1].map(|way| used(&all, way));
    assert!(hashing < 0.9 && choices > 0.94 && choices <= 0.95, "{hashing} {choices}");
}

#[test]
fn servers_that_join_and_leave_move_what_has_to_move() {
    let scratch = Scratch::new();
    let servers = ["--servers", "24", "--replicas", "1"];
    let all = simulated(&scratch, &[&servers[..], &["--join", "2", "--at", "60%"]].concat());
    let change = &all["change"];
    let part = |value: &Value| value.as_f64().expect("a part");
    assert!((part(&change["least_part"]) - 2.0 / 26.0).abs() < 1e-9, "{change}");
    assert!(part(&change["choices"]["moved_part"]) < 0.1, "{change}");
    assert!(part(&change["choices"]["used_part_when_full"]) > 0.96, "{change}");
    let all = simulated(&scratch, &[&servers[..], &["--leave", "s3"]].concat());
    assert!((part(&all["change"]["least_part"]) - 1.0 / 24.0).abs() < 0.003, "{all}");
}

#[test]
fn clients_that_know_little_fill_less() {
    let scratch = Scratch::new();
    let servers = ["--servers", "20", "--clients", "32", "--report-every", "10%"];
    let alone = simulated(&scratch, &[&servers[..], &["--unaware"]].concat());
    let together = simulated(&scratch, &servers);
    assert!(used(&alone, 1) < used(&together, 1), "{alone} {together}");
}

#[test]
fn mistakes_are_told_with_a_remedy() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("bad.toml"), "[[servers]]\nsizo = \"1 TiB\"\n").expect("write");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["simulate"], 2, "CLUSTER"),
        (&["simulate", "--servers", "2"], 2, "fewer --replicas"),
        (&["simulate", "--servers", "10001"], 2, "10000"),
        (&["simulate", "--servers", "9", "--margin", "1%%"], 2, "such as 95%"),
        (&["simulate", "--servers", "9", "--report-every", "0"], 2, "0.1% or more"),
        (&["simulate", "--servers", "9", "--leave", "x"], 2, "no server is called x"),
        (&["simulate", "--servers", "9", "--size", "4"], 2, "no unit"),
        (&["simulate", "bad.toml"], 3, "did you mean `size`"),
        (&["simulate", "nowhere.toml"], 5, "nowhere.toml"),
    ];
    for (arguments, expected, part) in cases {
        let (code, output) = place(&scratch, arguments);
        assert!(
            code == Some(expected) && output.contains(part),
            "{arguments:?}: {code:?} {output}"
        );
    }
}

/// The cluster that the manual shows.
#[test]
fn the_cluster_in_the_manual_can_be_filled() {
    let manual = include_str!("../../../../docs/place.md");
    let cluster = manual.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let scratch = Scratch::new();
    let text = cluster.expect("the manual shows a cluster");
    std::fs::write(scratch.join("manual.toml"), text).expect("write the cluster");
    let all = simulated(&scratch, &["manual.toml", "--keep-used"]);
    assert_eq!(all["servers"], 42, "{all}");
}

/// Twelve OSDs in four hosts and a pool of three copies, as `osdmaptool` lays them out, and what
/// Ceph would print of them.
fn ceph_cluster(scratch: &Scratch) {
    let file = |name: &str| scratch.join(name).to_str().expect("a name of ours").to_owned();
    let [map, crush] = ["osdmap", "crush"].map(file);
    run(
        scratch.path(),
        "osdmaptool",
        &["--createsimple", "12", &map, "--with-default-pool", "--pg-bits", "5"],
    );
    let shape = ["host", "straw2", "3", "root", "straw2", "0"];
    let build = ["--build", "--num_osds", "12", "-o", &crush];
    run(scratch.path(), "crushtool", &[&build[..], &shape[..]].concat());
    run(scratch.path(), "osdmaptool", &[&map, "--import-crush", &crush]);
    let up = ["--mark-up-in", "--adjust-crush-weight", "0:1", "--save"];
    run(scratch.path(), "osdmaptool", &[&[map.as_str()], &up[..]].concat());
    let (_, dump) =
        finish(scratch.path(), "osdmaptool", &[&map, "--test-map-pgs-dump", "--pool", "1"], LONG);
    let lines = dump.lines().filter_map(|line| {
        let mut words = line.split('\t');
        Some((words.next()?, words.next()?)).filter(|(_, set)| set.starts_with('['))
    });
    let mut used = [0u64; 12];
    let group = |(group, set): (&str, &str)| {
        for osd in set.trim_matches(['[', ']']).split(',') {
            used[osd.parse::<usize>().expect("an OSD")] += 1 << 30;
        }
        format!(
            "{{\"pgid\": \"{group}\", \"acting\": {set}, \
             \"stat_sum\": {{\"num_bytes\": {}}}}}",
            1 << 30
        )
    };
    let groups: Vec<String> = lines.map(group).collect();
    assert_eq!(groups.len(), 384, "{dump}");
    let osd = |(number, used): (usize, &u64)| {
        format!(
            "{{\"id\": {number}, \"name\": \"osd.{number}\", \"type\": \"osd\", \
             \"crush_weight\": 1, \"reweight\": 1, \"kb\": {}, \"kb_used\": {}}}",
            200 << 20,
            used >> 10
        )
    };
    let osds: Vec<String> = used.iter().enumerate().map(osd).collect();
    let write = |name: &str, text: String| {
        std::fs::write(scratch.join(name), text).expect("write a document");
    };
    write("df.json", format!("{{\"nodes\": [{}], \"stray\": []}}", osds.join(",")));
    write("pgs.json", format!("{{\"pg_map\": {{\"pg_stats\": [{}]}}}}", groups.join(",")));
    let pool = "{\"pool\": 1, \"pool_name\": \"rbd\", \"size\": 3, \"pg_num\": 384}";
    write("dump.json", format!("{{\"full_ratio\": 0.95, \"pools\": [{pool}]}}"));
}

const CEPH: [&str; 6] = ["--df", "df.json", "--pgs", "pgs.json", "--dump", "dump.json"];

#[test]
fn advice_compares_choices_with_hashing_and_with_upmap() {
    needs!("osdmaptool", "crushtool");
    let scratch = Scratch::new();
    ceph_cluster(&scratch);
    let all = [&["advise", "--json", "--osdmap", "osdmap", "--plot", "figures"], &CEPH[..]];
    let (code, output) = place(&scratch, &all.concat());
    assert_eq!(code, Some(0), "{output}");
    let start = output.find("\n{").map_or(0, |at| at + 1);
    let advice: Value = serde_json::from_str(&output[start..]).expect("JSON after the talk");
    let ways = advice["ways"].as_array().expect("ways");
    let names: Vec<_> = ways.iter().map(|way| &way["name"]).collect();
    let expected =
        ["hashing, as it is", "hashing after upmap", "2 choices", "2 choices, margin 1.0%"];
    assert_eq!(names, expected);
    let used: Vec<f64> =
        ways.iter().map(|way| way["used_part"].as_f64().expect("a part")).collect();
    assert!(used[0] < used[1] && used[1] < 0.95, "{used:?}");
    assert!(used[2] > 0.94 && used[3] > 0.92, "{used:?}");
    assert!(ways[1]["moved_bytes"].as_u64() > Some(10 << 30), "{}", ways[1]);
    assert_eq!(ways[2]["moved_bytes"], 0);
    assert!(advice["gained_bytes"].as_u64() > Some(10 << 30), "{advice}");
    assert!(scratch.join("figures/place-advise.svg").is_file());
}

#[test]
fn advice_without_a_map_or_a_cluster_says_what_is_missing() {
    needs!("osdmaptool", "crushtool");
    let scratch = Scratch::new();
    ceph_cluster(&scratch);
    let (code, output) = place(&scratch, &[&["advise"], &CEPH[..]].concat());
    assert_eq!(code, Some(0), "{output}");
    for part in ["12 OSDs", "pool rbd: 3 copies, 384 groups", "upmap is not compared", "--osdmap"] {
        assert!(output.contains(part), "{part} in {output}");
    }
    let (code, output) = place(&scratch, &[&["advise", "--pool", "x"], &CEPH[..]].concat());
    assert!(code == Some(2) && output.contains("there are rbd"), "{output}");
    let (code, output) = place(&scratch, &["advise", "--df", "df.json"]);
    assert!(code == Some(2) && output.contains("--pgs"), "{output}");
}

/// The status of a gate with a spread volume, as far as a plan reads it.
fn status(scratch: &Scratch) {
    let server = |name: &str| {
        format!(
            "{{\"backend\": \"{name}\", \"slots\": 1000, \"ceiling_slots\": 930, \
             \"used_slots\": 600, \"standing\": \"serving\"}}"
        )
    };
    let servers = ["s1", "s2", "s3", "s4"].map(server).join(",");
    let text = format!(
        "{{\"version\": \"0\", \"uptime_seconds\": 1, \"mode\": \"enforce\", \
         \"connections\": {{\"open\": 0, \"refused\": 0, \"protocol_errors\": 0}}, \
         \"memory\": {{\"bytes\": 0, \"bound_bytes\": 0}}, \"backends\": [], \"exports\": [], \
         \"domains\": [{{\"name\": \"pool\", \"tenants\": [], \"servers\": [], \
         \"interference\": [], \"interference_other_seconds\": 0, \"spread\": {{\
         \"servers\": [{servers}], \"object_bytes\": 4194304, \"objects\": 3600, \
         \"placed_objects\": 2400, \"diverted_objects\": 0, \"lost_objects\": 0, \
         \"full_writes\": 0}}}}]}}"
    );
    std::fs::write(scratch.join("status.json"), text).expect("write the status");
}

#[test]
fn a_plan_shows_what_would_move_and_that_it_only_shows() {
    let scratch = Scratch::new();
    status(&scratch);
    let plan = ["plan", "pool", "--status", "status.json"];
    let (code, output) = place(&scratch, &[&plan[..], &["--join", "s5=4000 MiB"]].concat());
    assert_eq!(code, Some(0), "{output}");
    for part in ["s5", "objects move", "nothing has moved"] {
        assert!(output.contains(part), "{part} in {output}");
    }
    let (code, output) =
        place(&scratch, &[&plan[..], &["--leave", "s2", "--level", "2%", "--json"]].concat());
    assert_eq!(code, Some(0), "{output}");
    let document: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(document["servers"][1]["objects"], 0, "{document}");
    assert!(document["max_to_mean"].as_f64() < Some(1.05), "{document}");
    assert_eq!(document["is_carried_out"], false);
    let (code, output) =
        place(&scratch, &[&plan[..], &["--leave", "s2", "--leave", "s3"]].concat());
    assert!(code == Some(1) && output.contains("add a server"), "{code:?} {output}");
    let (code, output) = place(&scratch, &[&plan[..], &["--leave", "s9"]].concat());
    assert!(code == Some(2) && output.contains("it has s1, s2, s3, s4"), "{code:?} {output}");
}
