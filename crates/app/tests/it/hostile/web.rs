//! Web pages and half requests at the port of metrics and status, which anyone may connect to.
//! Made after DNS rebinding (CVE-2018-5702 of Transmission) and slowloris.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::policy;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::{self, Process};
use crate::harness::target::Address;
use crate::harness::{Scratch, free_port};

/// Twice what the port has places for.
const HALF_REQUESTS: usize = 128;

struct Port {
    gate: Process,
    scratch: Scratch,
    number: u16,
    host: &'static str,
}

impl Port {
    fn start(host: &'static str, extra: &str) -> Self {
        let (scratch, number) = (Scratch::new(), free_port());
        let policy = format!("listen = [\"unix:gate.sock\"]\n{}", policy(extra));
        std::fs::write(scratch.join("policy.toml"), policy).expect("write the policy");
        let metrics = format!("{host}:{number}");
        let line = ["serve", "policy.toml", "--control", "c.sock", "--metrics", &metrics];
        let mut gate = Process::start(scratch.path(), EVENKEEL, &line);
        // It says so when all is served.
        let control = Address::Unix(scratch.join("c.sock"));
        gate.wait_until("serves metrics", || {
            control.answers() && TcpStream::connect(&metrics).is_ok()
        });
        Self { gate, scratch, number, host }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(format!("{}:{}", self.host, self.number)).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        stream
    }

    /// The whole answer to a request with these headers.
    fn ask(&self, line: &str, headers: &[(&str, &str)]) -> String {
        let mut stream = self.connect();
        let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers: String = headers.collect();
        let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("ask");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    fn status(&self, headers: &[(&str, &str)]) -> String {
        let answer = self.ask("GET /v1/status", headers);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }
}

#[test]
fn a_page_with_a_rebound_name_reads_nothing() {
    let port = Port::start("127.0.0.1", "");
    for path in ["/v1/status", "/metrics", "/healthz", "/"] {
        let answer = port.ask(&format!("GET {path}"), &[("Host", "evil.example:9809")]);
        assert!(answer.starts_with("HTTP/1.1 421"), "{path}: {answer}");
        assert!(answer.contains("`hosts` in `[metrics]`"), "it names the remedy: {answer}");
        assert!(!answer.contains("disk") && !answer.contains("memory"), "{answer}");
    }
    let number = port.number;
    for own in [format!("127.0.0.1:{number}"), format!("localhost:{number}"), "[::1]".to_owned()] {
        assert_eq!(port.status(&[("Host", &own)]), "200", "{own}");
    }
    let log = port.gate.log();
    assert_eq!(log.matches("evil.example").count(), 1, "one line for all of them:\n{log}");
}

#[test]
fn a_listed_name_is_answered_from_the_next_reload_on() {
    let port = Port::start("127.0.0.1", "");
    let name = [("Host", "Gate.example:9809")];
    assert_eq!(port.status(&name), "421");
    let more = "[metrics]\nhosts = [\"gate.example\"]\n";
    let policy = format!("listen = [\"unix:gate.sock\"]\n{}", policy(more));
    std::fs::write(port.scratch.join("policy.toml"), policy).expect("write the policy");
    process::run(port.scratch.path(), EVENKEEL, &["ctl", "--control", "c.sock", "reload"]);
    assert_eq!(port.status(&name), "200");
    assert_eq!(port.status(&[("Host", "evil.example")]), "421");
    assert_eq!(port.status(&[name[0], ("Origin", "https://gate.example")]), "200");
}

#[test]
fn a_page_from_elsewhere_is_refused_and_its_browser_keeps_the_answer_from_it() {
    let port = Port::start("127.0.0.1", "");
    let host = format!("127.0.0.1:{}", port.number);
    for page in ["http://evil.example", "http://localhost:3000", "http://6.6.6.6", "null"] {
        assert_eq!(port.status(&[("Host", &host), ("Origin", page)]), "403", "{page}");
    }
    let own = format!("http://{host}");
    assert_eq!(port.status(&[("Host", &host), ("Origin", &own)]), "200");
    let answer = port.ask("GET /metrics", &[("Host", &host)]);
    assert!(answer.contains("cross-origin-resource-policy: same-origin"), "{answer}");
    assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
    for change in ["POST /v1/reload", "POST /v1/status", "OPTIONS /v1/status"] {
        let headers = [("Host", &*host), ("Content-Type", "text/plain"), ("Content-Length", "0")];
        let answer = port.ask(change, &headers);
        assert!(answer.starts_with("HTTP/1.1 40"), "{change}: {answer}");
    }
}

#[test]
fn half_requests_do_not_delay_health_or_metrics() {
    for host in ["127.0.0.1", "[::1]"] {
        if host == "[::1]" && std::net::TcpListener::bind("[::1]:0").is_err() {
            eprintln!("skipped in part: this machine has no IPv6");
            continue;
        }
        let mut port = Port::start(host, "");
        let half = || {
            let mut stream = port.connect();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: local").expect("half a request");
            stream
        };
        let halves: Vec<_> = (0..HALF_REQUESTS).map(|_| half()).collect();
        for path in ["/healthz", "/metrics", "/v1/status"] {
            let begun = Instant::now();
            let answer = port.ask(&format!("GET {path}"), &[("Host", "localhost")]);
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(1), "{path} at {host} took {took:?}");
        }
        // What is left of them is closed before long.
        let begun = Instant::now();
        for mut stream in halves {
            let _ = stream.read(&mut [0; 64]);
        }
        assert!(begun.elapsed() < Duration::from_secs(8), "heads may come for 5 s");
        assert_eq!(port.gate.ended(), None);
    }
}

#[test]
fn a_peer_that_does_not_read_is_given_up_and_holds_nobody_up() {
    let port = Port::start("127.0.0.1", "");
    let mut deaf = Vec::new();
    for _ in 0..16 {
        let mut stream = port.connect();
        stream.set_nonblocking(true).expect("set");
        // So many that the answers fill what lies between.
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000);
        let _ = stream.write(&request);
        deaf.push(stream);
    }
    for path in ["/healthz", "/metrics"] {
        let begun = Instant::now();
        let answer = port.ask(&format!("GET {path}"), &[("Host", "localhost")]);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        // It stands in line behind answers that are made, not behind those that are not taken.
        assert!(begun.elapsed() < Duration::from_secs(5), "{path} took {:?}", begun.elapsed());
    }
    drop(deaf);
}
