//! What `evenkeel reproduce choices` shows of virtual clusters.

use std::time::Duration;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::finish;

const LONG: Duration = Duration::from_mins(2);

#[test]
fn two_choices_fill_virtual_clusters() {
    let scratch = Scratch::new();
    let arguments = ["reproduce", "choices", "--quick", "--json", "--plot", "figures"];
    let (status, output) = finish(scratch.path(), EVENKEEL, &arguments, LONG);
    assert_eq!(status.code(), Some(0), "{output}");
    let start = output.find('{').expect("a document after the talk");
    let document: serde_json::Value = serde_json::from_str(&output[start..]).expect("JSON");
    let claims = document["claims"].as_array().expect("claims");
    // Rows beside upmap are there where Ceph's tools are.
    let is_upmap = |id: &str| id.starts_with("upmap-");
    let ids = claims.iter().map(|claim| claim["id"].as_str().expect("an id"));
    assert_eq!(ids.filter(|id| !is_upmap(id)).count(), 78, "{claims:?}");
    assert!(scratch.path().join("figures/choices-space.svg").exists());
}
