//! Costs that are learned, on devices of which nothing is known, beside the default ones and true
//! ones: what shares of the device tenants get that always ask. Fitted on seeds below 10,000.
//!
//! `EVENKEEL_DEVICES` says how many devices; the table is printed.

use evenkeel_core::sched::depth::DepthPolicy;
use evenkeel_sim::depths::{Knowledge, Setting};

use crate::depths::{FIRST_SEED, devices, percentile};

const DEVICES: u64 = 120;
const ALL: [Knowledge; 3] = [Knowledge::True, Knowledge::Default, Knowledge::Learned];

/// By how much shares are off under each knowledge, where there are two tenants to compare.
fn unfairness(seed: u64, depth: DepthPolicy) -> Option<[f64; 3]> {
    let setting = Setting::draw(seed);
    let [known, default, learned] =
        ALL.map(|knowledge| setting.unfairness(&setting.run(depth, knowledge)));
    if let (Some(known), Some(default), Some(learned)) = (known, default, learned) {
        println!("{seed}: {known:.2} {default:.2} {learned:.2}: {}", setting.describe());
    }
    Some([known?, default?, learned?])
}

/// Prints a table, and returns the three quartiles and the worst tenth of each knowledge.
fn table(depth: DepthPolicy) -> [[f64; 3]; 3] {
    let seeds = FIRST_SEED..FIRST_SEED + devices(DEVICES);
    let all: Vec<[f64; 3]> = seeds.filter_map(|seed| unfairness(seed, depth)).collect();
    println!("{depth:?}, {} devices with two tenants that always ask", all.len());
    println!("| costs | within 10 % | median | worst quarter | worst tenth |");
    let mut rows = [[0.0; 3]; 3];
    for (index, knowledge) in ALL.into_iter().enumerate() {
        let mut one: Vec<f64> = all.iter().map(|three| three[index]).collect();
        let within = one.iter().filter(|ratio| **ratio < 1.1).count();
        let within = 100.0 * within as f64 / one.len() as f64;
        rows[index] = [50, 75, 90].map(|percent| percentile(&mut one, percent));
        let [median, quarter, tenth] = rows[index];
        println!("| {knowledge:?} | {within:.0} % | {median:.2} | {quarter:.2} | {tenth:.2} |");
    }
    rows
}

#[test]
fn learned_costs_give_fairer_shares_than_the_default_on_unknown_devices() {
    for depth in [DepthPolicy::Automatic, DepthPolicy::Requests(32)] {
        let [_, default, learned] = table(depth);
        for (default, learned) in default.into_iter().zip(learned) {
            let gain = (default - 1.0) / (learned - 1.0);
            assert!(gain > 1.5, "{depth:?}: {default:.2} and {learned:.2}");
        }
    }
}
