//! What people and scripts see: diagnostics, exit codes, help, the gate without a file.

use std::time::Duration;

use crate::harness::Scratch;
use crate::harness::gate::{EVENKEEL, Gate, memory_policy};
use crate::harness::nbd::Client;
use crate::harness::process::{self, Process, finish};
use crate::harness::target::{Address, Target};

/// Exit code and output of one run.
fn evenkeel(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String) {
    let (status, output) = finish(scratch.path(), EVENKEEL, arguments, Duration::from_secs(20));
    (status.code(), output)
}

fn check(policy: &str) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("policy.toml"), policy).expect("write the policy");
    evenkeel(&scratch, &["check", "policy.toml"])
}

#[test]
fn a_good_policy_checks_out() {
    let (code, output) = check(&format!("listen = [\"unix:s\"]\n{}", memory_policy("1 MiB")));
    assert_eq!(code, Some(0), "{output}");
}

#[test]
fn the_policies_in_the_documents_check_out() {
    let documents = [
        include_str!("../../../../README.md"),
        include_str!("../../../../docs/policy.md"),
        include_str!("../../../../docs/promises.md"),
    ];
    for document in documents {
        for block in document.split("```toml\n").skip(1) {
            let policy = block.split("```").next().expect("split gives one part");
            let asks = |key: &str| policy.contains(&format!("\n{key} = "));
            let can_build = (cfg!(feature = "nats") || !asks("nats"))
                && (cfg!(feature = "etcd") || !asks("etcd"));
            if can_build && policy.contains("[[backend]]") && policy.contains("listen") {
                let (code, output) = check(policy);
                assert_eq!(code, Some(0), "{output}");
            }
        }
    }
}

#[test]
fn with_json_a_failure_is_a_document_with_its_exit_code() {
    let scratch = Scratch::new();
    for (arguments, code) in [
        (&["ctl", "status", "--control", "none.sock", "--json"][..], 4),
        (&["plan", "none.toml", "--live", "--json"], 5),
        (&["plan", "--json"], 2),
        (&["bench", "nbd+unix:///x?socket=none.sock", "--json"], 4),
        (&["advise", "--trace", "none.ektrace", "--json"], 5),
        (&["store", "check", "none.img", "--json"], 5),
    ] {
        let mut command = std::process::Command::new(EVENKEEL);
        let output = command.args(arguments).current_dir(scratch.path()).output().expect("run");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        assert_eq!(document["error"]["exit_code"], code, "{arguments:?}");
        let message = document["error"]["message"].as_str().expect("a text");
        assert!(!message.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_interrupted_bench_gives_what_it_has() {
    let scratch = Scratch::new();
    let policy = memory_policy("1 MiB");
    let gate = Gate::start(&scratch, &policy);
    let uri = gate.plain("disk").uri();
    let mut command = std::process::Command::new(EVENKEEL);
    command.args(["bench", &uri, "--runtime", "300 s", "--json"]).current_dir(scratch.path());
    let child = command.stdout(std::process::Stdio::piped()).spawn().expect("run evenkeel");
    std::thread::sleep(Duration::from_secs(1));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    let requests = document["jobs"][0]["read"]["total_ios"].as_u64().expect("a number");
    let seconds = document["jobs"][0]["read"]["runtime"].as_f64().expect("a number") / 1000.0;
    assert!(requests > 0 && (0.3..30.0).contains(&seconds), "{requests} in {seconds} s");
}

#[test]
fn an_open_loop_that_is_broken_off_does_not_wait_for_its_next_request() {
    use evenkeel_io::load::{Arrivals, LoadPlan, LoadSpec, run_while};
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &memory_policy("1 MiB"));
    let spec = LoadSpec {
        targets: vec![gate.plain("disk").uri().parse().expect("a URI of ours")],
        // One in seventeen minutes.
        arrivals: Arrivals::Constant { per_second: 0.001 },
        ..LoadSpec::default()
    };
    let runtime = Some(evenkeel_core::time::Span::from_secs(3600));
    let plan = LoadPlan { groups: vec![spec], runtime, ..LoadPlan::default() };
    let begun = std::time::Instant::now();
    let half_a_second = evenkeel_core::time::Span::from_millis(500);
    let report = run_while(&plan, &mut |progress| {
        if progress.elapsed > half_a_second {
            return std::ops::ControlFlow::Break(());
        }
        std::ops::ControlFlow::Continue(())
    });
    let report = report.expect("it has done what it could");
    assert!(begun.elapsed() < Duration::from_secs(10), "after {:?}", begun.elapsed());
    assert_eq!((report.groups[0].errors, report.groups[0].unanswered), (0, 0));
}

#[test]
fn every_mistake_is_named_with_file_line_and_remedy() {
    let policy = "listen = [\"unix:s\"]\nmoode = \"enforce\"\n[[backend]]\nname = \"m\"\n\
                  memory = true\n[[export]]\nname = \"e\"\nbackend = \"n\"\nsize = \"1 parsec\"\n";
    let (code, output) = check(policy);
    assert_eq!(code, Some(3), "{output}");
    for place in ["policy.toml:2", "policy.toml:9"] {
        assert!(output.contains(place), "no {place} in:\n{output}");
    }
    assert!(output.contains("mode"), "the key that was meant is not named:\n{output}");
}

#[test]
fn a_reference_to_nothing_is_found() {
    let policy = "listen = [\"unix:s\"]\n[[backend]]\nname = \"m\"\nmemory = true\n\
                  [[export]]\nname = \"e\"\nbackend = \"n\"\nsize = \"1 MiB\"\n";
    let (code, output) = check(policy);
    assert_eq!(code, Some(3), "{output}");
    assert!(output.contains("policy.toml:7") && output.contains('n'), "{output}");
}

#[test]
fn findings_come_as_json_too() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("policy.toml"), "nonsense = 1\n").expect("write the policy");
    let (code, output) = evenkeel(&scratch, &["check", "policy.toml", "--json"]);
    assert_eq!(code, Some(3), "{output}");
    let document: serde_json::Value = serde_json::from_str(&output).expect("JSON and no more");
    assert!(document.to_string().contains("nonsense"));
}

#[test]
fn exit_codes_are_as_documented() {
    let scratch = Scratch::new();
    let codes = [
        (&["--version"][..], 0),
        (&["--help"], 0),
        (&["no-such-command"], 2),
        (&["serve", "--no-such-option"], 2),
        (&["check", "absent.toml"], 3),
        (&["serve", "absent.toml"], 3),
        (&["ctl", "--control", "absent.sock", "status"], 4),
    ];
    for (arguments, wanted) in codes {
        let (code, output) = evenkeel(&scratch, arguments);
        assert_eq!(code, Some(wanted), "evenkeel {arguments:?}:\n{output}");
    }
}

#[test]
fn every_subcommand_has_help_with_examples() {
    let scratch = Scratch::new();
    let commands =
        ["serve", "check", "ctl", "top", "demo", "bench", "reproduce", "completions", "man"];
    for command in commands {
        let (code, output) = evenkeel(&scratch, &[command, "--help"]);
        assert_eq!(code, Some(0), "{output}");
        assert!(output.contains("Examples:"), "{command} shows no examples:\n{output}");
    }
}

/// A picture that moves needs a terminal; a pipe or a file gets one picture.
#[test]
fn top_without_a_terminal_prints_one_picture() {
    let scratch = Scratch::new();
    let _gate = Gate::start(&scratch, &memory_policy("1 MiB"));
    let top = ["top", "--control", "control.sock", "--interval", "100 ms"];
    let (code, output) = evenkeel(&scratch, &top);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("TENANT") && !output.contains("panic"), "{output}");
    let line = format!("{EVENKEEL} {} --interval '100 ms' | head -1", top[..3].join(" "));
    let (status, output) =
        finish(scratch.path(), "bash", &["-o", "pipefail", "-c", &line], Duration::from_secs(20));
    assert!(status.success() && output.lines().count() == 1, "{status}: {output}");
}

#[test]
fn an_address_that_is_taken_is_said_plainly() {
    let scratch = Scratch::new();
    let _first = Gate::start(&scratch, &memory_policy("1 MiB"));
    let second = ["serve", "policy.toml", "--control", "second.sock", "--metrics", "off"];
    let (code, output) = evenkeel(&scratch, &second);
    assert_eq!(code, Some(5), "{output}");
    assert!(output.contains("gate.sock"), "{output}");
}

/// `evenkeel serve` and nothing else: a store with two tenants, how to connect, and the same data
/// at the next start.
#[test]
fn serve_needs_no_file() {
    let scratch = Scratch::new();
    let port = crate::harness::free_port();
    // The ports of the built-in policy may be taken on a developer's machine.
    let data = scratch.join("evenkeel-data");
    std::fs::create_dir(&data).expect("a folder in scratch");
    let policy = include_str!("../../src/config/default.toml");
    let policy = policy.replace("127.0.0.1:10809", &format!("127.0.0.1:{port}"));
    std::fs::write(data.join("policy.toml"), policy).expect("write the policy");
    let address = Address::Tcp(port);
    let start = || {
        let mut gate = Process::start(scratch.path(), EVENKEEL, &["serve", "--metrics", "off"]);
        gate.wait_until("listens", || address.answers());
        gate
    };
    let open = |export: &str| {
        let export = export.to_owned();
        Client::open(&Target { address: address.clone(), export, certificates: None })
    };
    let mut gate = start();
    for tenant in ["alice", "bob"] {
        let mut client = open(tenant);
        assert_eq!(client.write(0, tenant.as_bytes()), Ok(()));
        assert_eq!(client.flush(), Ok(()));
    }
    let log = gate.log();
    assert!(log.contains("made a store of 3 files"), "{log}");
    for word in ["qemu", "fio", "nbdfuse", "alice", &port.to_string()] {
        assert!(log.contains(word), "`{word}` is not in the banner:\n{log}");
    }
    // A first snapshot has room, of a volume that holds something.
    let mut client = open("alice");
    for chunk in 1..=20 {
        assert_eq!(client.write(chunk << 24, &vec![7; 16 << 20]), Ok(()));
    }
    for volume in ["0", "1"] {
        let arguments = ["ctl", "snapshot", "create", "--volume", volume];
        let (code, output) = evenkeel(&scratch, &arguments);
        assert_eq!(code, Some(0), "{output}");
    }
    gate.signal(rustix::process::Signal::INT);
    assert!(gate.wait().success());
    let _again = start();
    assert_eq!(open("alice").read(0, 5), Ok(b"alice".to_vec()));
    assert_eq!(open("bob").read(0, 3), Ok(b"bob".to_vec()));
}

/// The policy that earlier versions wrote to the data folder.
#[test]
fn a_data_folder_of_an_earlier_version_is_served_on() {
    let scratch = Scratch::new();
    let data = scratch.join("evenkeel-data");
    std::fs::create_dir_all(data.join("disks")).expect("a folder in scratch");
    std::fs::write(data.join("disks/alice"), vec![7; 8192]).expect("write to scratch");
    let arguments = ["serve", "--metrics", "off"];
    let (code, output) = evenkeel(&scratch, &arguments);
    assert_eq!(code, Some(5), "without its policy, it is not passed over:\n{output}");
    assert!(output.contains("evenkeel-data/disks has disks of an earlier version"), "{output}");
    let policy = "listen = [\"unix:nbd.sock\"]\n[[backend]]\nname = \"disk\"\n\
                  directory = \"disks\"\n[[export]]\nname = \"alice\"\nsize = \"8 KiB\"\n";
    std::fs::write(data.join("policy.toml"), policy).expect("write to scratch");
    let mut gate = Process::start(scratch.path(), EVENKEEL, &arguments);
    let address = Address::Unix(data.join("nbd.sock"));
    gate.wait_until("listens", || address.answers());
    let target = Target { address, export: "alice".to_owned(), certificates: None };
    assert_eq!(Client::open(&target).read(0, 4), Ok(vec![7; 4]));
    assert!(!data.join("store").exists());
}

#[test]
fn metrics_are_served_where_asked_and_nothing_can_be_changed_there() {
    let scratch = Scratch::new();
    let port = crate::harness::free_port();
    let policy = format!("listen = [\"unix:gate.sock\"]\n{}", memory_policy("1 MiB"));
    std::fs::write(scratch.join("policy.toml"), policy).expect("write the policy");
    let metrics = format!("127.0.0.1:{port}");
    let arguments = ["serve", "policy.toml", "--control", "c.sock", "--metrics", &metrics];
    let mut gate = Process::start(scratch.path(), EVENKEEL, &arguments);
    gate.wait_until("serves metrics", || Address::Tcp(port).answers());
    let text = http(port, "GET /metrics");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("# TYPE evenkeel_"), "{text}");
    for change in ["POST /v1/reload", "PUT /v1/mode", "DELETE /v1/exports/disk"] {
        let answer = http(port, change);
        assert!(answer.starts_with("HTTP/1.1 40"), "{change} over the network:\n{answer}");
    }
}

/// The whole answer to a request such as `GET /metrics`.
fn http(port: u16, request: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connect");
    let request = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("ask");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn completions_and_manual_pages_are_there() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = process::run(scratch.path(), EVENKEEL, &["completions", shell]);
        assert!(script.contains("evenkeel"));
    }
    process::run(scratch.path(), EVENKEEL, &["man", "pages"]);
    assert!(scratch.join("pages/evenkeel.1").exists());
}
