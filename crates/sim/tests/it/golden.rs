//! Scenarios with their recorded outcome: `testdata/*.txt`, blocks of a script (see
//! [`crate::script`]), a line `----`, and the outcome. `EVENKEEL_BLESS=1` in the environment
//! rewrites the outcomes instead of comparing them.
//!
//! The outcome ends with the log hash, so that the same files hold debug builds, release builds and
//! other machines to the same run.

use std::fmt::Write as _;
use std::path::Path;

use evenkeel_sim::result::{Summary, Traffic};

use crate::scenes::run;
use crate::script::scenario;

#[test]
fn scenarios_end_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the folder of the goldens") {
        let path = file.expect("an entry").path();
        let recorded = std::fs::read_to_string(&path).expect("a text file");
        let actual = play(&recorded);
        if std::env::var_os("EVENKEEL_BLESS").is_some() {
            std::fs::write(&path, &actual).expect("the file can be written");
        } else {
            assert_eq!(actual, recorded, "{}; EVENKEEL_BLESS=1 rewrites it", path.display());
        }
        count += 1;
    }
    assert!(count > 0);
}

/// Runs the scenarios of a file; returns it with their outcomes as they are now.
fn play(file: &str) -> String {
    let mut text = String::new();
    for block in file.trim_end().split("\n\n") {
        let script = block.split_once("\n----").map_or(block, |(script, _)| script);
        let _ = write!(text, "{script}\n----\n{}\n", outcome(&run(&scenario(script))));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn outcome(summary: &Summary) -> String {
    let mut text = String::new();
    for tenant in &summary.tenants {
        let (share, traffic) = (tenant.share_cost, &tenant.traffic);
        let queue = tenant.queue_time.mean;
        let _ = writeln!(text, "{}: share {share:.4} {} queue {queue}", tenant.name, told(traffic));
        if traffic.series.len() > 1 {
            let rates: Vec<String> =
                traffic.series.iter().map(|one| one.requests.to_string()).collect();
            let _ = writeln!(text, "  over time: {}", rates.join(" "));
        }
    }
    for backend in &summary.backends {
        let _ = write!(text, "{}: {} units busy {:.3}", backend.name, backend.units, backend.busy);
        let _ = write!(text, " in service {:.2}", backend.in_service_mean);
        let _ = write!(text, " at most {}", backend.in_service_max);
        let _ = write!(text, " depth {}", backend.depth_at_end);
        if backend.failed_units + backend.lies > 0 {
            let _ = write!(text, " failed {} lies {}", backend.failed_units, backend.lies);
        }
        text.push('\n');
    }
    if let Some(fairness) = &summary.fairness {
        let _ = writeln!(text, "lag {} of {}", fairness.lag, fairness.bound);
    }
    let _ = writeln!(text, "events {} hash {:016x}", summary.events, summary.log_hash);
    text
}

fn told(traffic: &Traffic) -> String {
    let Traffic { requests, errors, latency, mib_per_second, .. } = traffic;
    let errors = if *errors > 0 { format!(" errors {errors}") } else { String::new() };
    format!(
        "requests {requests}{errors} at {mib_per_second:.2} MiB/s, mean {} p99 {}",
        latency.mean, latency.p99
    )
}
