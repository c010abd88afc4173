//! Gates find each other and their policy in etcd, and go on without it.

use std::net::TcpStream;
use std::time::Duration;

use crate::exchange::{bench, pipe, policy_meeting, wait_for_gates};
use crate::harness::gate::{EVENKEEL, Gate, memory_policy};
use crate::harness::process::{self, Process};
use crate::harness::skip::needs;
use crate::harness::target::Address;
use crate::harness::{Scratch, free_address, free_port, wait_for};

/// Debian's server with one member, which keeps its data in the test's folder.
struct Etcd {
    process: Process,
    folder: std::path::PathBuf,
    ports: [u16; 2],
}

impl Etcd {
    fn start(scratch: &Scratch) -> Self {
        Self::start_at(scratch.path(), [free_port(), free_port()])
    }

    fn start_at(folder: &std::path::Path, ports: [u16; 2]) -> Self {
        let [clients, peers] = ports.map(|port| format!("http://127.0.0.1:{port}"));
        let cluster = format!("default={peers}");
        let mut line = vec!["--data-dir", "etcd", "--initial-cluster", &cluster];
        for (option, url) in [
            ("--listen-client-urls", &clients),
            ("--advertise-client-urls", &clients),
            ("--listen-peer-urls", &peers),
            ("--initial-advertise-peer-urls", &peers),
        ] {
            line.extend([option, url.as_str()]);
        }
        let mut process = Process::start(folder, "etcd", &line);
        process.wait_until("listens", || TcpStream::connect(("127.0.0.1", ports[0])).is_ok());
        Self { process, folder: folder.to_owned(), ports }
    }

    fn restart(&mut self) {
        *self = Self::start_at(&self.folder, self.ports);
    }

    fn put(&self, key: &str, value: &str) {
        let endpoint = format!("--endpoints=http://127.0.0.1:{}", self.ports[0]);
        process::run(&self.folder, "etcdctl", &[&endpoint, "put", key, "--", value]);
    }

    /// Whether a key that begins so is there.
    fn has(&self, key: &str) -> bool {
        let endpoint = format!("--endpoints=http://127.0.0.1:{}", self.ports[0]);
        let line = [&endpoint, "get", "--prefix", "--keys-only", key];
        !process::run(&self.folder, "etcdctl", &line).trim().is_empty()
    }
}

#[test]
fn gates_find_each_other_by_a_list_that_outlives_its_server() {
    needs!("nbdkit", "etcd", "etcdctl");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (_pipe, uri) = pipe(&scratch);
    let mut etcd = Etcd::start(&scratch);
    let server = format!("http://127.0.0.1:{}", etcd.ports[0]);
    let start = |folder: &Scratch, own: &str| {
        let meeting = format!("listen = \"{own}\"\netcd = [\"{server}\"]\n");
        Gate::start(folder, &policy_meeting(folder, &uri, &meeting, ""))
    };
    let addresses = [free_address(), free_address()];
    let one = start(&scratch, &addresses[0]);
    let mut two = start(&other, &addresses[1]);
    wait_for_gates(&one, 2);
    wait_for_gates(&two, 2);
    let shown = one.ctl(&["status"]);
    assert!(shown.contains("over etcd at 127.0.0.1") && shown.contains("connected"), "{shown}");

    let connected = |gate: &Gate| gate.status()["exchange"]["server"]["connected"].clone();
    let report = std::thread::scope(|scope| {
        let load = scope.spawn(|| bench(&scratch, "--depth 8 --runtime 4s"));
        etcd.process.kill();
        wait_for("the loss of etcd", || (connected(&one) == false).then_some(()));
        load.join().expect("the load ends")
    });
    assert_eq!(report["jobs"][0]["error"], 0, "{report}");
    wait_for_gates(&one, 2);
    etcd.restart();
    wait_for("etcd again", || (connected(&one) == true).then_some(()));

    two.process.kill();
    wait_for_gates(&one, 1);
    let peers = || one.status()["exchange"]["peers"].as_array().map(Vec::len);
    wait_for("the end of the lease", || (peers() == Some(0)).then_some(()));
    assert!(etcd.has("/evenkeel/test/members/") && !etcd.has(&member(&addresses[1])));
}

fn member(address: &str) -> String {
    format!("/evenkeel/test/members/{address}")
}

const KEY: &str = "/evenkeel/policy";

fn policy(share: &str) -> String {
    let tenant = format!(
        "[[tenant]]\nname = \"other\"\nshare = {share}\nmatch = {{ peer = \"10.0.0.1\" }}\n"
    );
    format!("listen = [\"unix:gate.sock\"]\n{}{tenant}", memory_policy("1 MiB"))
}

#[test]
fn a_policy_is_taken_from_a_key_and_a_bad_one_changes_nothing() {
    needs!("etcd", "etcdctl");
    let scratch = Scratch::new();
    let mut etcd = Etcd::start(&scratch);
    let uri = format!("etcd://127.0.0.1:{}{KEY}", etcd.ports[0]);
    let line = [
        "serve",
        "policy.toml",
        "--policy-from",
        &uri,
        "--control",
        "control.sock",
        "--metrics",
        "off",
    ];
    let patience = Duration::from_secs(20);
    let (ended, output) = process::finish(scratch.path(), EVENKEEL, &line, patience);
    let says = output.contains("is not there") && output.contains("no copy in policy.toml");
    assert!(!ended.success() && says, "{output}");

    etcd.put(KEY, &policy("2"));
    let start = || {
        let mut gate = Process::start(scratch.path(), EVENKEEL, &line);
        gate.wait_until("is ready", || Address::Unix(scratch.join("control.sock")).answers());
        gate
    };
    let in_force = || {
        let line = ["ctl", "--control", "control.sock", "policy"];
        process::finish(scratch.path(), EVENKEEL, &line, patience).1
    };
    let copy = || std::fs::read_to_string(scratch.join("policy.toml")).unwrap_or_default();
    let mut gate = start();
    wait_for("the policy", || in_force().contains("share = 2\n").then_some(()));
    assert_eq!(copy(), policy("2"));

    let bad = policy("many");
    etcd.put(KEY, &bad);
    wait_for("the refusal", || {
        let log = gate.log();
        (log.contains("the old one stays") && log.contains("etcd key /evenkeel/policy:"))
            .then_some(())
    });
    assert!(in_force().contains("share = 2\n") && copy() == policy("2"));

    // etcd goes, the gate is killed, and starts with its copy; then etcd is back with news.
    etcd.process.kill();
    gate.kill();
    std::fs::remove_file(scratch.join("control.sock")).expect("the gate left its socket");
    let gate = start();
    wait_for("the copy", || in_force().contains("share = 2\n").then_some(()));
    assert!(gate.log().contains("going on with the copy in policy.toml"), "{}", gate.log());
    etcd.restart();
    etcd.put(KEY, &policy("3"));
    wait_for("the news", || in_force().contains("share = 3\n").then_some(()));
    wait_for("the copy of the news", || copy().contains("share = 3\n").then_some(()));
}
