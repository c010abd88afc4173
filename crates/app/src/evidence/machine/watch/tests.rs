//! Conditions and verdicts; whose processor time is whose, on real processes.

use std::process::{Child, Command, Stdio};

use super::*;
use crate::evidence::Decision;

const BEARS: Bears = Bears { cores: 1.0, late_median_ms: 0.5, late_p99_ms: 2.0, uses_disks: false };

fn quiet() -> Reading {
    Reading { cores: 2, others: vec![0.0; 10], asked_seconds: 1.0, ..Reading::default() }
}

#[test]
fn a_failure_on_a_disturbed_machine_is_not_judged_and_on_a_quiet_one_stays() {
    let known = Verdict::Known(Decision(15));
    let all = [Verdict::Holds, Verdict::Attained, Verdict::Fails, known, Verdict::Shown];
    let calm = Conditions::of(BEARS, quiet());
    assert_eq!(all.map(|verdict| calm.temper(verdict)), all);
    assert_eq!(calm.why(), "");
    let busy = Conditions::of(BEARS, Reading { others: vec![1.9; 10], ..quiet() });
    let not_judged = Verdict::NotJudged;
    assert_eq!(
        all.map(|verdict| busy.temper(verdict)),
        [Verdict::Holds, Verdict::Attained, not_judged, not_judged, Verdict::Shown]
    );
    assert!(busy.why().starts_with("cannot judge at this load: other programs took up to 1.90"));
    assert!(busy.why().ends_with("; wait until other programs are done"), "{}", busy.why());
}

#[test]
fn a_light_experiment_may_go_before_others() {
    let light = Bears { cores: 0.5, ..BEARS };
    let busy = Conditions::of(light, Reading { others: vec![1.9; 10], ..quiet() });
    assert!(busy.why().contains("sudo chrt --rr 5"), "{}", busy.why());
}

/// A program that keeps a processor busy until it is dropped.
struct Busy(Child);

impl Busy {
    /// A child of this process.
    fn own() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Self(shell.spawn().expect("there is a shell"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A busy program whose parent has ended, as anybody's on this machine; ended when it is dropped.
struct Stranger(u32);

impl Stranger {
    fn start() -> Self {
        // It ends by itself after a minute should this process be killed.
        let text = "(exec timeout 60 sh -c 'while :; do :; done') >/dev/null 2>&1 & echo $!";
        let output = Command::new("sh").args(["-c", text]).output().expect("there is a shell");
        let id = String::from_utf8(output.stdout).unwrap();
        Self(id.trim().parse().expect("the shell tells the id"))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // `timeout` passes the signal on to what it runs.
        let _ = Command::new("kill").arg(self.0.to_string()).status();
    }
}

/// Waits until a look shows what it must, however little of the machine there is for this.
fn eventually(mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !look() {
        assert!(Instant::now() < deadline, "no look shows it");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_the_experiment_starts_is_its_own_and_what_others_start_is_not() {
    let mut family = Family::of_this_process();
    let child = Busy::own();
    let first = Look::take(&mut family);
    eventually(|| Look::take(&mut family).account.own >= first.account.own + 20);
    drop(child);
    let stranger = Stranger::start();
    let first = Look::take(&mut family);
    eventually(|| {
        let look = Look::take(&mut family);
        let busiest = look.account.busiest_since(&first.account);
        look.account.others >= first.account.others + 20 && busiest.is_some()
    });
    drop(stranger);
}

#[test]
fn a_watch_sees_the_machine_before_during_and_after() {
    let watch = Watch::begin(BEARS).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let Conditions { reading, .. } = watch.end();
    assert!(reading.cores >= 1 && reading.others.len() >= 3, "{reading:?}");
    assert!(reading.sleeps.max_ms > 0.0 && reading.asked_seconds >= 0.0, "{reading:?}");
}
