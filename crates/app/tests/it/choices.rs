//! What `evenkeel reproduce choices` shows of virtual clusters.

use std::time::Duration;

use crate::harness::Scratch;
use crate::harness::gate::EVENKEEL;
use crate::harness::process::finish;

const LONG: Duration = Duration::from_mins(2);

/// How the names of rows begin, one for each kind of experiment.
const FAMILIES: [&str; 9] =
    ["change", "cpu", "journal", "latency", "local", "memory", "probe", "space", "theory"];

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
    let ids = claims.iter().map(|claim| claim["id"].as_str().expect("an id"));
    let mut families: Vec<_> = ids.filter_map(|id| id.split('-').next()).collect();
    families.retain(|family| *family != "upmap");
    families.sort_unstable();
    families.dedup();
    assert_eq!(families, FAMILIES);
    assert!(scratch.path().join("figures/choices-space.svg").exists());
}
