//! Gates whose clocks are off, or are set while they run, and gates that lose their state folder:
//! they hear each other all the same, and old words that somebody has kept count for nothing.
//!
//! The clocks are those of the processes alone: a library that is loaded before them adds to the
//! time of day what a file says.

use std::path::PathBuf;
use std::process::Command;

use super::words::Relay;
use super::*;

pub(super) const HOUR_S: i64 = 3_600;

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = real(clock, time);
    const char *name = getenv("CLOCK_AHEAD");
    FILE *file = clock == CLOCK_REALTIME && name ? fopen(name, "r") : NULL;
    long ahead_s = 0;
    if (file && fscanf(file, "%ld", &ahead_s) == 1) time->tv_sec += ahead_s;
    if (file) fclose(file);
    return outcome;
}
"#;

/// The time of day of one gate.
pub(super) struct Clock {
    library: PathBuf,
    ahead: PathBuf,
}

impl Clock {
    pub(super) fn new(scratch: &Scratch, ahead_s: i64) -> Self {
        let (source, library) = (scratch.join("clock.c"), scratch.join("clock.so"));
        std::fs::write(&source, LIBRARY).expect("write the library");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status()
            .expect("cc runs");
        assert!(built.success(), "{built}");
        let clock = Self { library, ahead: scratch.join("ahead") };
        clock.set(ahead_s);
        clock
    }

    /// From now on it is ahead by so much, or behind.
    fn set(&self, ahead_s: i64) {
        let fresh = self.ahead.with_extension("new");
        std::fs::write(&fresh, ahead_s.to_string()).expect("write the time");
        std::fs::rename(&fresh, &self.ahead).expect("put it in place");
    }

    pub(super) fn start(&self, scratch: &Scratch, policy: &str) -> Gate {
        let variable = |name, path: &PathBuf| format!("{name}={}", path.display());
        let variables =
            [variable("LD_PRELOAD", &self.library), variable("CLOCK_AHEAD", &self.ahead)];
        Gate::start_with(scratch, policy, &variables)
    }
}

/// By how much the gate says that its clock is ahead of what the gates count by, in seconds.
fn off_s(gate: &Gate) -> Option<f64> {
    gate.status()["exchange"]["clock_off_seconds"].as_f64()
}

fn is_about(off_s: Option<f64>, ahead_s: i64) -> bool {
    off_s.is_some_and(|off_s| (off_s - ahead_s as f64).abs() < 1.0)
}

#[test]
fn gates_whose_clocks_are_an_hour_off_hear_each_other() {
    needs!("nbdkit", "cc");
    for ahead_s in [HOUR_S, -HOUR_S] {
        let (scratch, other) = (Scratch::new(), Scratch::new());
        let (_server, uri) = pipe(&scratch);
        let all = [free_address(), free_address()];
        let one = Gate::start(&scratch, &policy(&scratch, &uri, &all[0], &all, ""));
        let clock = Clock::new(&other, ahead_s);
        let two = clock.start(&other, &policy(&other, &uri, &all[1], &all, ""));
        for gate in [&one, &two] {
            wait_for_gates(gate, 2);
        }
        // The one that is behind counts as the other does, and says so.
        let (behind, by_s) = if ahead_s > 0 { (&one, -ahead_s) } else { (&two, ahead_s) };
        wait_for("the clock that is off is named", || is_about(off_s(behind), by_s).then_some(()));
        let shown = behind.ctl(&["status"]);
        assert!(shown.contains("behind the time by which the gates count"), "{shown}");
    }
}

#[test]
fn a_step_of_a_clock_changes_nothing_while_others_are_heard() {
    needs!("nbdkit", "cc");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (_server, uri) = pipe(&scratch);
    let all = [free_address(), free_address()];
    let one = Gate::start(&scratch, &policy(&scratch, &uri, &all[0], &all, ""));
    let clock = Clock::new(&other, 0);
    let two = clock.start(&other, &policy(&other, &uri, &all[1], &all, ""));
    for gate in [&one, &two] {
        wait_for_gates(gate, 2);
    }
    for ahead_s in [HOUR_S, -HOUR_S] {
        let decisions = |gate: &Gate| {
            gate.status()["exchange"]["devices"][0]["decisions"].as_u64().expect("a count")
        };
        clock.set(ahead_s);
        wait_for("the step to be seen", || is_about(off_s(&two), ahead_s).then_some(()));
        let before = decisions(&one);
        wait_for("some seconds to pass", || {
            for gate in [&one, &two] {
                let exchange = &gate.status()["exchange"];
                let gates = exchange["devices"][0]["gates"].as_array().map(Vec::len);
                assert_eq!(gates, Some(2), "{exchange}");
                assert_eq!(exchange["peers"][0]["refused"], 0, "{exchange}");
            }
            (decisions(&one) > before + 20).then_some(())
        });
        let log = two.process.log();
        let by = if ahead_s > 0 { "3600.0 s later" } else { "3600.0 s earlier" };
        assert_eq!(log.matches(by).count(), 1, "{log}");
    }
}

/// The incarnation number in a gate's state folder.
fn incarnation(scratch: &Scratch) -> PathBuf {
    scratch.join("evenkeel-data/exchange.incarnation")
}

/// A gate whose clock was an hour ahead is put right and loses its state folder. Somebody has kept
/// what it said, and says it again.
#[test]
fn a_gate_without_its_state_folder_is_heard_within_seconds_and_its_old_words_are_not() {
    needs!("nbdkit", "cc");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (_server, uri) = pipe(&scratch);
    let (relay, listen) = (Relay::new(), free_address());
    let all = [relay.address.to_string(), free_address()];
    let meeting = format!("listen = \"{listen}\"\nown = \"{}\"\npeers = {all:?}\n", all[0]);
    let one = Gate::start(&scratch, &policy_meeting(&scratch, &uri, &meeting, ""));
    let clock = Clock::new(&other, HOUR_S);
    let count = |name: &str| {
        let status = one.status();
        status["exchange"]["refused"][name].as_u64().expect("a count")
    };
    std::thread::scope(|scope| {
        let _ending = relay.until_dropped();
        scope.spawn(|| relay.run(&listen));
        let mut two = clock.start(&other, &policy(&other, &uri, &all[1], &all, ""));
        wait_for_gates(&one, 2);
        let old: Vec<_> = relay.seen.lock().expect("nobody panics").clone();
        two.kill();
        clock.set(0);
        std::fs::remove_file(incarnation(&other)).expect("it is kept");
        two.restart();
        wait_for("a refusal", || (count("former") > 0).then_some(()));
        wait_for_word(&one, None);
        wait_for_gates(&one, 2);
        wait_for_gates(&two, 2);
        let (former, taken) = (count("former"), one.status()["exchange"]["peers"][0].clone());
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for word in &old {
            sender.send_to(word, &listen).expect("loopback takes it");
        }
        wait_for("the old words to be refused", || {
            let refused = one.status()["exchange"]["peers"][0]["refused"].as_u64();
            (refused >= Some(taken["refused"].as_u64()? + old.len() as u64)).then_some(())
        });
        assert!(count("former") >= former);
        assert_eq!(gates_heard(&one), 2);
    });
}
