//! What `evenkeel reproduce gecko` shows of the chained log.

use std::time::Duration;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::finish;

const LONG: Duration = Duration::from_mins(10);

#[test]
fn a_chain_is_ahead_of_a_striped_log_beside_readers() {
    let scratch = Scratch::new();
    let arguments =
        ["reproduce", "gecko", "--only", "readers", "--quick", "--json", "--plot", "figures"];
    let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, LONG);
    assert_eq!(status.code(), Some(0), "{output}");
    let start = output.find('{').expect("a document after the talk");
    let document: serde_json::Value = serde_json::from_str(&output[start..]).expect("JSON");
    let claims = document["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 10, "{claims:?}");
    assert!(scratch.path().join("figures/gecko-readers.svg").exists());
}
