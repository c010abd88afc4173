//! What `evenkeel reproduce baa` shows without any process beside it.

use std::time::Duration;

use serde_json::Value;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::finish;
use crate::harness::skip::could_not_judge;

const LONG: Duration = Duration::from_mins(4);

/// The claims of one part, none of which may fail.
fn claims(part: &str) -> Vec<Value> {
    let scratch = Scratch::new();
    let arguments = ["reproduce", "baa", "--only", part, "--quick", "--json"];
    let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, LONG);
    // One row takes the time of the machine; that one may be out of this machine's reach.
    assert!(status.success() || could_not_judge(status, &output), "{output}");
    let start = output.find('{').expect("a document after the talk");
    let document: Value = serde_json::from_str(&output[start..]).expect("JSON");
    document["claims"].as_array().expect("claims").clone()
}

fn with_id(claims: &[Value], part: &str) -> usize {
    claims.iter().filter(|claim| claim["id"].as_str().is_some_and(|id| id.contains(part))).count()
}

#[test]
fn the_fluid_figures_of_baa_come_out() {
    let claims = claims("fluid");
    assert_eq!(claims.len(), 30, "{claims:?}");
    assert_eq!(with_id(&claims, "misprint"), 2, "the slides' misprint is shown");
}

#[test]
fn the_experiments_of_baa_come_out_in_virtual_time() {
    let claims = claims("simulated");
    assert_eq!(claims.len(), 19, "{claims:?}");
    let attained = claims.iter().filter(|claim| claim["verdict"] == "attained").count();
    assert_eq!((with_id(&claims, "linux"), attained), (3, 2), "{claims:?}");
}
