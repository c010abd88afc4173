//! What objects of a spread volume prefer: nothing that no server tells.

use super::{Findings, Place};
use crate::policy::{Member, Policy, Preference, Source, Spread};

pub(super) fn check(policy: &Policy, index: usize, volume: &Spread, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    if volume.prefer.is_empty() {
        found.error(
            place("source.prefer"),
            "objects that prefer nothing",
            "write `[\"space\"]`, or leave it out",
        );
    }
    for (at, one) in volume.prefer.iter().enumerate() {
        if volume.prefer[..at].contains(one) {
            found.error(
                place("source.prefer"),
                format!("`{}` twice", one.name()),
                "name each once, the most important first",
            );
        }
    }
    check_near(index, volume, found);
    let of_hosts = volume.prefer.iter().find(|one| one.is_of_hosts());
    for (at, server) in volume.servers.iter().enumerate() {
        let place = Place::Member { backend: index, index: at };
        check_told(policy, server, of_hosts.copied(), place, found);
    }
}

fn check_near(index: usize, volume: &Spread, found: &mut Findings) {
    let place = |field| Place::Backend { index, field };
    let is_server = |name: &String| volume.servers.iter().any(|server| server.backend == *name);
    if let Some(name) = volume.near.iter().find(|name| !is_server(name)) {
        found.error(
            place("source.near"),
            format!("{name:?} is said to be near, and is no server of the volume"),
            "name servers of `choices`",
        );
    }
    let is_asked = volume.prefer.contains(&Preference::Local);
    if is_asked && volume.near.is_empty() {
        found.error(
            place("source.prefer"),
            "objects prefer near servers, and none is said to be near",
            "name those in this gate's rack: `near = [\"s1\"]`",
        );
    }
    if !is_asked && !volume.near.is_empty() {
        found.warning(
            place("source.near"),
            "servers are near, and nothing prefers them",
            "add `prefer = [\"local\"]`, or remove it",
        );
    }
}

/// What is preferred of a server's host, the host has to tell.
fn check_told(
    policy: &Policy,
    server: &Member,
    wanted: Option<Preference>,
    place: Place,
    found: &mut Findings,
) {
    let Some(backend) = policy.position_of(&server.backend) else { return };
    let is_told = match &policy.backends[backend].source {
        Source::Upstream(upstream) => upstream.metrics.is_some(),
        _ => false,
    };
    if let Some(wanted) = wanted.filter(|_| !is_told) {
        found.error(
            place,
            format!(
                "objects prefer servers by `{}`, which nothing tells of {:?}",
                wanted.name(),
                server.backend
            ),
            "give the upstream the `metrics` of a node_exporter on its host, or prefer `latency`",
        );
    }
}
