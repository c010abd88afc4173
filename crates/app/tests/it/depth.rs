//! The depth that a gate finds by itself, in front of a real server.

use crate::exchange::bench_of;
use crate::harness::Scratch;
use crate::harness::gate::Gate;
use crate::harness::skip::needs;
use crate::harness::storage::Server;

/// A database with a share of 4 beside a backup, before a server whose costs are known.
fn policy(server: &str) -> String {
    let tenant = |name: &str, share: u32| {
        format!(
            "[[export]]\nname = \"{name}\"\nsource = \"\"\n\
             [[tenant]]\nname = \"{name}\"\nmatch = {{ export = \"{name}\" }}\nshare = {share}\n"
        )
    };
    format!(
        "mode = \"enforce\"\n[[backend]]\nname = \"array\"\nupstream = \"{server}\"\n\
         depth = \"automatic\"\ncost.read = {{ fixed = \"5 us\", rate = \"38 MiB/s\" }}\n{}{}",
        tenant("db", 4),
        tenant("backup", 1),
    )
}

#[test]
fn an_automatic_depth_lets_shares_hold_on_a_slow_server() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let source = ["--filter=rate", "memory", "64M", "rate=320M"];
    let _server = Server::nbdkit_named(&scratch, "array", &source);
    let uri = format!("nbd+unix:///?socket={}", scratch.join("array.sock").display());
    let gate = Gate::start(&scratch, &policy(&uri));
    let [database, backup] = std::thread::scope(|scope| {
        // The server's bucket is full for two seconds.
        let backup = scope.spawn(|| {
            let options = "--depth 16 --size 256KiB --pattern seq --ramp 5s --runtime 6s";
            bench_of(&scratch, "backup", options)
        });
        let database = bench_of(&scratch, "db", "--depth 32 --size 4KiB --ramp 5s --runtime 6s");
        [database, backup.join().expect("it ran")]
            .map(|report| report["jobs"][0]["read"]["bw_bytes"].as_f64().expect("a rate"))
    });
    let part = database / (database + backup);
    // Four fifths of the device; with 32 at a time it is nine tenths and more.
    assert!((0.74..0.86).contains(&part), "{database} beside {backup} bytes/s: {part}");
    assert!(database + backup > 0.95 * 40e6, "{database} and {backup} bytes/s");
    let found = &gate.status()["domains"][0]["servers"][0]["depth_found"];
    assert!(found.as_u64().is_some_and(|found| found <= 2), "{found}");
}
