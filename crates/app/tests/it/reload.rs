//! A new policy drops no connection and loses no request; a bad one changes nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::harness::gate::{Gate, memory_policy, without_found};
use crate::harness::nbd::Client;
use crate::harness::target::Target;
use crate::harness::{Scratch, noise, wait_for};

/// Clients that read and write, each on one connection from first to last, while `change` runs.
/// Every answer is checked; a lost connection or request fails the test.
fn under_load(targets: &[Target], change: impl FnOnce(&dyn Fn())) {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = |target: &Target, number: u64| {
        let mut client = Client::open(target);
        let mut round = 0;
        while !stop.load(Ordering::Relaxed) {
            let data = noise(number << 32 | round, 8192);
            assert_eq!(client.write(number * 65_536, &data), Ok(()));
            assert!(client.read(number * 65_536, 8192).as_ref() == Ok(&data), "other bytes");
            done.fetch_add(1, Ordering::Relaxed);
            round += 1;
        }
    };
    // Waits until every client has had time for some requests under what is now in force.
    let settle = || {
        let from = done.load(Ordering::Relaxed);
        wait_for("requests to go on", || (done.load(Ordering::Relaxed) > from + 200).then_some(()));
    };
    std::thread::scope(|scope| {
        let _stop_in_the_end = StopOnDrop(&stop);
        for (target, number) in targets.iter().cycle().zip(0..8) {
            scope.spawn(move || work(target, number));
        }
        settle();
        change(&settle);
        settle();
    });
}

/// Ends the clients even if the test panics: a scope waits for its threads.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn two_tenants(mode: &str, shares: (u32, u32)) -> String {
    let (a, b) = shares;
    format!(
        "mode = \"{mode}\"\n{}[[export]]\nname = \"other\"\nbackend = \"memory\"\n\
         size = \"8 MiB\"\n\
         [[tenant]]\nname = \"a\"\nmatch = {{ export = \"disk\" }}\nshare = {a}\n\
         [[tenant]]\nname = \"b\"\nmatch = {{ export = \"other\" }}\nshare = {b}\n",
        memory_policy("8 MiB")
    )
}

#[test]
fn a_reload_under_load_drops_no_connection_and_loses_no_request() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &two_tenants("enforce", (1, 1)));
    let targets = [gate.plain("disk"), gate.plain("other")];
    under_load(&targets, |settle| {
        for share in 2..12 {
            let (status, output) = gate.reload(&two_tenants("enforce", (share, 1)));
            assert!(status.success(), "{output}");
            settle();
        }
    });
    let status = gate.status();
    let tenants = status["domains"][0]["tenants"].as_array().expect("tenants");
    let a = tenants.iter().find(|tenant| tenant["name"] == "a").expect("tenant a");
    assert_eq!(a["share"], 11.0);
    assert_eq!(a["failed_requests"], 0);
}

#[test]
fn modes_change_under_load() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &two_tenants("observe", (3, 1)));
    let targets = [gate.plain("disk"), gate.plain("other")];
    under_load(&targets, |settle| {
        for mode in ["enforce", "observe", "shadow", "enforce", "observe"] {
            gate.ctl(&["mode", mode]);
            assert_eq!(gate.status()["mode"], mode);
            settle();
        }
    });
}

#[test]
fn tenants_come_and_go_under_load() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &two_tenants("enforce", (1, 1)));
    let targets = [gate.plain("disk"), gate.plain("other")];
    under_load(&targets, |settle| {
        gate.ctl(&["tenant", "set", "c", "--share", "5", "--match", "export=d*"]);
        settle();
        gate.ctl(&["tenant", "remove", "a"]);
        settle();
        gate.ctl(&["tenant", "set", "b", "--limit", "20000 iops"]);
        settle();
        gate.ctl(&["tenant", "remove", "c"]);
        settle();
    });
}

#[test]
fn exports_come_and_go_while_others_work() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &memory_policy("8 MiB"));
    under_load(&[gate.plain("disk")], |settle| {
        for round in 0..3 {
            gate.ctl(&["export", "add", "guest", "--backend", "memory", "--size", "4 MiB"]);
            let mut guest = Client::open(&gate.plain("guest"));
            assert_eq!(guest.write(0, &noise(round, 4096)), Ok(()));
            settle();
            drop(guest);
            wait_for("the guest to be gone", || {
                let status = gate.status();
                let exports = status["exports"].as_array().expect("exports").clone();
                let guest = exports.into_iter().find(|export| export["name"] == "guest")?;
                let open = guest["connections"].as_object().is_some_and(|by| !by.is_empty());
                (!open).then_some(())
            });
            gate.ctl(&["export", "remove", "guest"]);
            let mut late = Client::greet(&gate.plain("guest").address);
            late.option(crate::harness::nbd::GO, &crate::harness::nbd::go_data("guest"));
            assert!(late.option_replies().pop().is_some_and(|last| last.kind >= 1 << 31));
            settle();
        }
    });
}

#[test]
fn a_backend_that_went_and_came_back_is_a_new_one() {
    let scratch = Scratch::new();
    let spare = "[[backend]]\nname = \"spare\"\nmemory = true\n\
                 [[export]]\nname = \"guest\"\nbackend = \"spare\"\nsize = \"4 MiB\"\n";
    let (without, with) = (memory_policy("8 MiB"), memory_policy("8 MiB") + spare);
    let gate = Gate::start(&scratch, &with);
    under_load(&[gate.plain("disk")], |settle| {
        for round in 0..3 {
            let data = noise(round, 4096);
            let mut guest = Client::open(&gate.plain("guest"));
            assert_eq!(guest.read(0, 4096), Ok(vec![0; 4096]), "bytes of an earlier backend");
            assert_eq!(guest.write(0, &data), Ok(()));
            let (status, output) = gate.reload(&without);
            assert!(status.success(), "{output}");
            settle();
            assert_eq!(guest.read(0, 4096), Ok(data), "a connection keeps what it has open");
            assert!(Client::try_open(&gate.plain("guest")).is_none(), "the export is gone");
            drop(guest);
            let (status, output) = gate.reload(&with);
            assert!(status.success(), "{output}");
        }
    });
}

#[test]
fn a_bad_policy_is_refused_with_its_line_and_changes_nothing() {
    let scratch = Scratch::new();
    let good = two_tenants("enforce", (3, 1));
    let gate = Gate::start(&scratch, &good);
    let before = without_found(&gate.ctl(&["policy"]));
    let targets = [gate.plain("disk"), gate.plain("other")];
    under_load(&targets, |settle| {
        let bad = good.replace("share = 3", "share = -3");
        let line = 2 + bad.lines().position(|line| line == "share = -3").expect("it is there");
        let (status, output) = gate.reload(&bad);
        assert_eq!(status.code(), Some(3), "{output}");
        assert!(output.contains(&format!("policy.toml:{line}")), "no line {line} in:\n{output}");
        settle();
    });
    assert_eq!(without_found(&gate.ctl(&["policy"])), before);
}

#[test]
fn a_hangup_signal_reloads() {
    let scratch = Scratch::new();
    let gate = Gate::start(&scratch, &two_tenants("observe", (1, 1)));
    gate.write_policy(&two_tenants("shadow", (1, 1)));
    gate.process.signal(rustix::process::Signal::HUP);
    wait_for("the new mode", || (gate.status()["mode"] == "shadow").then_some(()));
}
