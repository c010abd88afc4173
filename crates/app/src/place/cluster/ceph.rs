//! A Ceph cluster in its own words: `ceph osd df tree -f json`, or `ceph osd crush dump`.
//!
//! The first tells sizes, use and weights. The second has weights alone, and since a weight of 1
//! customarily stands for a TiB, sizes are taken from them. A server is an OSD; what fails as one
//! are the OSDs below one bucket of a type, such as `host`. Only what is needed is read; whatever
//! else a release prints is passed over.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Described, Server};
use crate::exit::Exit;

/// Part of a weight of 1 that is counted: as in Ceph's maps.
const WEIGHT_ONE: f64 = 65_536.0;

/// Bytes that a weight of 1 stands for.
const WEIGHT_ONE_BYTES: f64 = (1u64 << 40) as f64;

/// An OSD with the number that Ceph gives it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::place) struct Osd {
    pub(in crate::place) number: i64,
    pub(in crate::place) server: Server,
}

/// Either of the two documents.
#[derive(Debug, Deserialize)]
struct Document {
    /// Of `osd df tree`.
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    stray: Vec<Node>,
    /// Of `osd crush dump`.
    #[serde(default)]
    buckets: Vec<Bucket>,
    #[serde(default)]
    devices: Vec<Device>,
}

/// An OSD or a bucket in `osd df tree`.
#[derive(Debug, Deserialize)]
struct Node {
    id: i64,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    children: Vec<i64>,
    #[serde(default)]
    crush_weight: f64,
    #[serde(default)]
    reweight: f64,
    #[serde(default)]
    kb: u64,
    #[serde(default)]
    kb_used: u64,
}

#[derive(Debug, Deserialize)]
struct Bucket {
    id: i64,
    name: String,
    type_name: String,
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    id: i64,
    /// In parts of 65,536.
    weight: u64,
}

#[derive(Debug, Deserialize)]
struct Device {
    id: i64,
    name: String,
}

/// The OSDs of `ceph osd df tree -f json`; `name` is what an error calls it.
pub(in crate::place) fn osds(text: &str, name: &str) -> anyhow::Result<Vec<Osd>> {
    let document: Document = serde_json::from_str(text).map_err(|error| {
        let what = "is not what `ceph osd df tree -f json` prints";
        Exit::Invalid.because(format!("{name} {what}: {error}"))
    })?;
    let osds = of_tree(&document, "host");
    if osds.is_empty() {
        return Err(Exit::Invalid.because(format!("{name} names no OSD")));
    }
    Ok(osds)
}

/// Parses either document; `name` is what an error calls the file.
pub(super) fn parse(text: &str, name: &str, domain_type: &str) -> anyhow::Result<Described> {
    let document: Document = serde_json::from_str(text).map_err(|error| {
        let what = "is neither `ceph osd df tree -f json` nor `ceph osd crush dump`";
        Exit::Invalid.because(format!("{name} {what}: {error}"))
    })?;
    let servers: Vec<Server> = if document.nodes.is_empty() {
        of_crush(&document, domain_type)
    } else {
        of_tree(&document, domain_type).into_iter().map(|osd| osd.server).collect()
    };
    if servers.is_empty() {
        return Err(Exit::Invalid.because(format!(
            "{name} names no OSD; it should be what `ceph osd df tree -f json` or \
             `ceph osd crush dump` prints"
        )));
    }
    Ok(Described { servers })
}

fn of_tree(document: &Document, domain_type: &str) -> Vec<Osd> {
    let nodes = document.nodes.iter();
    let above = Above::new(nodes.map(|node| {
        let bucket = (node.name.as_str(), node.kind.as_str());
        (node.id, bucket, node.children.clone())
    }));
    let mut seen = BTreeSet::new();
    // An OSD that lies in several trees is still one.
    let osds = document.nodes.iter().chain(&document.stray);
    osds.filter(|node| node.kind == "osd" && seen.insert(node.id))
        .map(|node| Osd { number: node.id, server: server(node, &above, domain_type) })
        .collect()
}

fn server(node: &Node, above: &Above<'_>, domain_type: &str) -> Server {
    let capacity_bytes = node.kb.saturating_mul(1024);
    Server {
        name: node.name.clone(),
        capacity_bytes,
        weight: whole(node.crush_weight * node.reweight * WEIGHT_ONE),
        domain: above.domain(node.id, domain_type).unwrap_or(&node.name).to_owned(),
        used_bytes: node.kb_used.saturating_mul(1024).min(capacity_bytes),
    }
}

fn of_crush(document: &Document, domain_type: &str) -> Vec<Server> {
    // Buckets such as `default~hdd` show a part of others once more.
    let buckets = || document.buckets.iter().filter(|bucket| !bucket.name.contains('~'));
    let above = Above::new(buckets().map(|bucket| {
        let items = bucket.items.iter().map(|item| item.id).collect();
        (bucket.id, (bucket.name.as_str(), bucket.type_name.as_str()), items)
    }));
    let items = buckets().flat_map(|bucket| &bucket.items);
    let weights: BTreeMap<i64, u64> =
        items.filter(|item| item.id >= 0).map(|item| (item.id, item.weight)).collect();
    let server = |device: &Device| {
        let weight = *weights.get(&device.id)?;
        Some(Server {
            name: device.name.clone(),
            capacity_bytes: whole(weight as f64 / WEIGHT_ONE * WEIGHT_ONE_BYTES),
            weight,
            domain: above.domain(device.id, domain_type).unwrap_or(&device.name).to_owned(),
            used_bytes: 0,
        })
    };
    document.devices.iter().filter_map(server).collect()
}

/// The buckets above each bucket or OSD.
struct Above<'a> {
    parents: BTreeMap<i64, i64>,
    /// Name and type.
    buckets: BTreeMap<i64, (&'a str, &'a str)>,
}

impl<'a> Above<'a> {
    fn new(nodes: impl Iterator<Item = (i64, (&'a str, &'a str), Vec<i64>)>) -> Self {
        let (mut parents, mut buckets) = (BTreeMap::new(), BTreeMap::new());
        for (id, bucket, children) in nodes {
            buckets.insert(id, bucket);
            for child in children {
                parents.entry(child).or_insert(id);
            }
        }
        Self { parents, buckets }
    }

    /// The name of the nearest bucket of a type.
    fn domain(&self, id: i64, domain_type: &str) -> Option<&'a str> {
        let up = |id: &i64| self.parents.get(id).copied();
        // A document may claim that two buckets contain each other; a tree is never so high.
        let path = std::iter::successors(Some(id), up).take(64);
        let buckets = path.filter_map(|id| self.buckets.get(&id));
        buckets.filter(|(_, kind)| *kind == domain_type).map(|(name, _)| *name).next()
    }
}

/// The nearest whole number; zero for what is none.
fn whole(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = value.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = r#"{"nodes": [
        {"id": -1, "name": "default", "type": "root", "children": [-3, -5], "reweight": -1},
        {"id": -3, "name": "rack-a", "type": "rack", "children": [-2], "kb": 1},
        {"id": -2, "name": "alpha", "type": "host", "children": [1, 0]},
        {"id": 0, "name": "osd.0", "type": "osd", "crush_weight": 2, "reweight": 0.5,
         "kb": 2048, "kb_used": 1024, "pgs": 17, "status": "up"},
        {"id": 1, "name": "osd.1", "type": "osd", "crush_weight": 1, "reweight": 1, "kb": 1024},
        {"id": -5, "name": "beta", "type": "host", "children": [2]},
        {"id": 2, "name": "osd.2", "type": "osd", "crush_weight": 1, "reweight": 1, "kb": 1024},
        {"id": 2, "name": "osd.2", "type": "osd", "crush_weight": 1, "reweight": 1, "kb": 1024}
        ], "stray": [], "summary": {"total_kb": 4096}}"#;

    fn domains(text: &str, kind: &str) -> Vec<(String, String)> {
        let servers = parse(text, "x", kind).unwrap().servers;
        servers.into_iter().map(|one| (one.name, one.domain)).collect()
    }

    fn pair(name: &str, domain: &str) -> (String, String) {
        (name.to_owned(), domain.to_owned())
    }

    #[test]
    fn a_tree_tells_sizes_use_weights_and_domains() {
        let servers = parse(TREE, "x", "host").unwrap().servers;
        assert_eq!(servers.len(), 3, "osd.2 is in it twice");
        let first = &servers[0];
        assert_eq!((first.capacity_bytes, first.used_bytes), (2 << 20, 1 << 20));
        assert_eq!((first.weight, first.domain.as_str()), (65_536, "alpha"));
        let racks = domains(TREE, "rack");
        let expected = [("osd.0", "rack-a"), ("osd.1", "rack-a"), ("osd.2", "osd.2")];
        assert_eq!(racks, expected.map(|(name, domain)| pair(name, domain)));
    }

    #[test]
    fn a_crush_map_has_sizes_by_its_weights() {
        let text = r#"{"devices": [{"id": 0, "name": "osd.0"}, {"id": 1, "name": "osd.1"},
            {"id": 2, "name": "device2"}],
            "buckets": [{"id": -1, "name": "default", "type_name": "root",
              "items": [{"id": -2, "weight": 98304, "pos": 0}]},
             {"id": -2, "name": "alpha", "type_name": "host",
              "items": [{"id": 0, "weight": 65536, "pos": 0}, {"id": 1, "weight": 32768}]},
             {"id": -3, "name": "alpha~hdd", "type_name": "host",
              "items": [{"id": 2, "weight": 65536, "pos": 0}]}], "rules": []}"#;
        let servers = parse(text, "x", "host").unwrap().servers;
        assert_eq!(servers.len(), 2, "what no bucket holds is out of use");
        assert_eq!(servers.iter().map(|one| one.capacity_bytes).sum::<u64>(), 3 << 39);
        assert_eq!(servers[1].domain, "alpha");
    }

    #[test]
    fn other_documents_are_refused_with_what_would_be_right() {
        for text in ["{}", "{\"nodes\": 3}", "{\"nodes\": []", "{\"tenants\": []}"] {
            let error = parse(text, "df.json", "host").unwrap_err();
            assert_eq!(Exit::of(&error), Exit::Invalid);
            assert!(error.to_string().contains("ceph osd df tree"), "{error}");
        }
    }

    #[test]
    fn buckets_that_contain_each_other_end_the_search() {
        let text = r#"{"nodes": [{"id": -1, "name": "a", "type": "root", "children": [-2]},
            {"id": -2, "name": "b", "type": "root", "children": [-1, 0]},
            {"id": 0, "name": "osd.0", "type": "osd", "kb": 4}]}"#;
        assert_eq!(domains(text, "host"), [pair("osd.0", "osd.0")]);
    }
}
