//! What the gate finds by itself, in front of real servers of which the policy says nothing.

use serde_json::Value;

use crate::exchange::bench_of;
use crate::harness::Scratch;
use crate::harness::gate::Gate;
use crate::harness::skip::needs;
use crate::harness::storage::Server;

/// Its walk-through; only where the server and the gate are is put in.
fn readmes_policy(scratch: &Scratch) -> String {
    let readme = include_str!("../../../../README.md");
    let (_, policy) = readme.split_once("Write `policy.toml`:\n\n```toml\n").expect("it is there");
    let (policy, _) = policy.split_once("```").expect("it ends");
    let uri = format!("nbd+unix:///?socket={}", scratch.join("array.sock").display());
    let (listen, server) = ("listen = [\"0.0.0.0:10809\"]\n", "nbd://10.0.0.5:10809");
    assert!(policy.contains(listen) && policy.contains(server), "{policy}");
    let policy = policy.replace(listen, "").replace(server, &uri);
    policy.replace("mode = \"observe\"", "mode = \"enforce\"")
}

/// Both tenants on one export of the server, and so on the same connections.
fn policy_on_one_export(scratch: &Scratch) -> String {
    let tenant = |name: &str, share: u32| {
        format!(
            "[[export]]\nname = \"{name}\"\nsource = \"\"\n\
             [[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\nshare = {share}\n"
        )
    };
    format!(
        "mode = \"enforce\"\n[[backend]]\nname = \"array\"\n\
         upstream = \"nbd+unix:///?socket={}\"\n{}{}",
        scratch.join("array.sock").display(),
        tenant("db", 4),
        tenant("backup", 1),
    )
}

/// The database's small reads beside the backup's large ones: what each got of this.
fn both(scratch: &Scratch, of: &str) -> [f64; 2] {
    std::thread::scope(|scope| {
        let backup = scope.spawn(|| {
            let options = "--depth 16 --size 256KiB --pattern seq --ramp 5s --runtime 6s";
            bench_of(scratch, "backup", options)
        });
        let database = bench_of(scratch, "db", "--depth 32 --size 4KiB --ramp 5s --runtime 6s");
        [database, backup.join().expect("it ran")].map(|report| rate(&report, of))
    })
}

fn rate(report: &Value, of: &str) -> f64 {
    report["jobs"][0]["read"][of].as_f64().expect("a rate")
}

/// A part of the server is the database's, in what the server has so much of.
fn assert_part(gate: &Gate, [database, backup]: [f64; 2], wanted: std::ops::Range<f64>) {
    let server = &gate.status()["domains"][0]["servers"][0];
    let part = database / (database + backup);
    assert!(wanted.contains(&part), "{database} beside {backup}: {part}, {server}");
    let depth = server["depth_found"].as_u64();
    assert!(depth.is_some_and(|found| found <= 3), "{server}");
    assert!(server["cost_found"]["read"]["fixed_seconds"].is_number(), "{server}");
    let policy = gate.ctl(&["policy"]);
    for key in ["depth", "unit", "cost"] {
        let line = format!("\n{key} = \"automatic\"  # found: ");
        assert!(policy.contains(&line), "{policy}");
    }
}

/// Three quarters to six sevenths: this server lets small requests overtake large ones.
#[test]
fn shares_hold_on_a_server_of_40_megabytes_a_second() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let source = ["--filter=rate", "memory", "64M", "rate=320M"];
    let _server = Server::nbdkit_named(&scratch, "array", &source);
    let gate = Gate::start(&scratch, &policy_on_one_export(&scratch));
    // The server's bucket is full for two seconds.
    let bytes = both(&scratch, "bw_bytes");
    assert_part(&gate, bytes, 0.74..0.86);
    assert!(bytes.iter().sum::<f64>() > 0.97 * 40e6, "{bytes:?}");
}

/// Within 5 % of four fifths.
#[test]
fn the_readmes_shares_hold_on_a_server_that_takes_a_millisecond_for_anything() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let source = [
        "--filter=exportname",
        "--filter=noparallel",
        "--filter=delay",
        "memory",
        "64M",
        "serialize=all-requests",
        "rdelay=1ms",
        "exportname=db",
        "exportname=backup",
        "exportname-list=explicit",
    ];
    let _server = Server::nbdkit_named(&scratch, "array", &source);
    let gate = Gate::start(&scratch, &readmes_policy(&scratch));
    let requests = both(&scratch, "iops");
    assert_part(&gate, requests, 0.76..0.84);
    let alone = bench_of(&scratch, "db", "--depth 32 --size 4KiB --ramp 1s --runtime 3s");
    let (both, alone) = (requests.iter().sum::<f64>(), rate(&alone, "iops"));
    assert!(both > 0.97 * alone, "{both} requests a second, and {alone} of one alone");
}
