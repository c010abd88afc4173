//! Promises that are kept, that are not, and that nobody put to the test.

use evenkeel_core::sched::{Floor, Limit};

use super::*;
use crate::status::{Server, Times, Window};

const SECONDS: u64 = 10;

/// What is delivered in a second, and how.
#[derive(Clone, Copy)]
struct Load {
    requests: u64,
    window: Window,
    throttled_seconds: f64,
}

const BUSY: Load = Load {
    requests: 1000,
    window: Window { delivered: 0.8, entitled: 0.8, attainable: 0.8, backlogged: 1.0 },
    throttled_seconds: 0.0,
};

fn policy(promises: Share) -> Policy {
    let mut policy = crate::testing::sample_policy();
    let alice = policy.tenants.iter_mut().find(|one| one.name == "alice").unwrap();
    alice.share = promises;
    policy
}

/// Documents of a gate that serves `alice` like this, a second apart.
fn documents(discipline: &str, load: Load) -> Vec<Status> {
    let document = |second: u64| {
        let counted = load.requests * second;
        let amount = Amount { requests: counted, bytes: counted * 4096 };
        let times = Times {
            count: counted,
            mean_seconds: Some(0.004),
            // Nine of ten take 2 ms, the others 22.
            buckets: vec![(2_000_000, counted / 10 * 9), (22_000_000, counted / 10)],
            ..Times::default()
        };
        let tenant = Tenant {
            name: "alice".to_owned(),
            offered: amount,
            delivered: amount,
            window: load.window,
            throttled_seconds: load.throttled_seconds * second as f64,
            total_time: times,
            ..Tenant::default()
        };
        let server = Server { discipline: discipline.to_owned(), ..Server::default() };
        let (tenants, servers) = (vec![tenant], vec![server]);
        let domain = Domain { name: "disk".to_owned(), tenants, servers, ..Domain::default() };
        Status {
            uptime_seconds: 100.0 + second as f64,
            mode: "enforce".to_owned(),
            domains: vec![domain],
            ..Status::default()
        }
    };
    (1..=SECONDS).map(document).collect()
}

/// The verdict on the promise whose words begin like this.
fn verdict(promises: Share, load: Load, promise: &str) -> (Verdict, String) {
    of(promises, "sfq", load, promise)
}

fn of(promises: Share, discipline: &str, load: Load, promise: &str) -> (Verdict, String) {
    let rows = all(&policy(promises), &documents(discipline, load));
    let row = rows.into_iter().find(|row| row.promise.starts_with(promise)).expect("it is there");
    (row.verdict, row.figure)
}

#[test]
fn a_share_is_kept_or_not_where_requests_waited() {
    let share = Share::default();
    assert_eq!(verdict(share, BUSY, "share").0, Verdict::Kept);
    let robbed = Load { window: Window { delivered: 0.5, ..BUSY.window }, ..BUSY };
    let (found, figure) = verdict(share, robbed, "share");
    assert_eq!(found, Verdict::NotKept);
    assert_eq!(figure, "50% of 80% due, in 9 s with requests waiting");
    let modest = Load { window: Window { backlogged: 0.2, ..robbed.window }, ..robbed };
    assert_eq!(verdict(share, modest, "share").0, Verdict::NothingToSee);
    assert_eq!(of(share, "fifo", BUSY, "share").0, Verdict::NotKept, "fifo knows no shares");
}

#[test]
fn a_limit_that_lets_more_pass_is_noticed() {
    let limit = |rate_iops| {
        let limit = Limit { rate_iops, burst_requests: 10, ..Limit::default() };
        Share { limit, ..Share::default() }
    };
    let held = Load { throttled_seconds: 0.5, ..BUSY };
    assert_eq!(verdict(limit(1000), held, "limit").0, Verdict::Kept);
    assert_eq!(verdict(limit(5000), BUSY, "limit").0, Verdict::NothingToSee);
    let (found, figure) = verdict(limit(900), held, "limit");
    assert_eq!((found, figure.as_str()), (Verdict::NotKept, "1k iops on average"));
}

#[test]
fn a_floor_is_due_where_requests_waited() {
    let floor = |rate_iops| {
        let floor = Floor { rate_iops, rate_bytes: 0 };
        Share { floor, ..Share::default() }
    };
    let of = |rate, load| of(floor(rate), "mclock", load, "floor").0;
    assert_eq!(of(1000, BUSY), Verdict::Kept);
    assert_eq!(of(1200, BUSY), Verdict::NotKept);
    let modest = Load { window: Window { backlogged: 0.2, ..BUSY.window }, ..BUSY };
    assert_eq!(of(1200, modest), Verdict::NothingToSee, "it asked for no more");
}

#[test]
fn a_goal_bounds_the_mean_or_all_but_some() {
    let goal = |milliseconds, goal_bounds| {
        let latency_goal = Span::from_millis(milliseconds);
        Share { latency_goal, goal_bounds, ..Share::default() }
    };
    let of = |millis, bounds| verdict(goal(millis, bounds), BUSY, "latency").0;
    assert_eq!(of(5, Bounds::Mean), Verdict::Kept);
    assert_eq!(of(3, Bounds::Mean), Verdict::NotKept);
    assert_eq!(of(5, Bounds::AllBut { late_milli: 200 }), Verdict::Kept);
    assert_eq!(of(5, Bounds::AllBut { late_milli: 50 }), Verdict::NotKept);
    let idle = Load { requests: 1, ..BUSY };
    assert_eq!(verdict(goal(5, Bounds::Mean), idle, "latency").0, Verdict::NothingToSee);
}

#[test]
fn the_cause_stands_beside_what_was_not_kept() {
    let robbed = Load { window: Window { delivered: 0.5, ..BUSY.window }, ..BUSY };
    let mut seen = documents("sfq", robbed);
    let last = seen.last_mut().unwrap();
    last.domains[0].tenants[0].finding.standing = "below_its_due".to_owned();
    last.domains[0].tenants[0].finding.sentence = "alice is robbed".to_owned();
    let rows = all(&policy(Share::default()), &seen);
    assert!(rows[0].figure.ends_with("; alice is robbed"), "{}", rows[0].figure);
}
