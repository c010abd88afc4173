//! What `evenkeel reproduce baa` shows without any process beside it.

use std::time::Duration;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::finish;

const LONG: Duration = Duration::from_mins(2);

#[test]
fn the_fluid_figures_of_baa_come_out() {
    let scratch = Scratch::new();
    let arguments = ["reproduce", "baa", "--only", "fluid", "--quick", "--json"];
    let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, LONG);
    assert_eq!(status.code(), Some(0), "{output}");
    let start = output.find('{').expect("a document after the talk");
    let document: serde_json::Value = serde_json::from_str(&output[start..]).expect("JSON");
    let claims = document["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 30, "{claims:?}");
    let misprints: Vec<_> =
        claims.iter().filter(|claim| claim["id"].to_string().contains("misprint")).collect();
    assert_eq!(misprints.len(), 2, "the slides' misprint is shown");
}
