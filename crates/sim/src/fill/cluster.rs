//! Clusters to fill.

use evenkeel_core::id::ServerId;
use evenkeel_core::place::cluster::{DomainId, Member};

/// Servers of one size, so many to a failure domain.
pub fn even(servers: u32, per_domain: u32, capacity_bytes: u64) -> Vec<Member> {
    mixed(servers, per_domain, &[capacity_bytes])
}

/// Servers of several sizes in turn, so many to a failure domain.
pub fn mixed(servers: u32, per_domain: u32, capacities_bytes: &[u64]) -> Vec<Member> {
    let sizes = capacities_bytes.iter().cycle();
    let member = |(server, &capacity_bytes): (u32, &u64)| Member {
        server: ServerId(server),
        capacity_bytes,
        domain: DomainId(server / per_domain),
    };
    (0..servers).zip(sizes).map(member).collect()
}

/// The part of each server that is in use; servers without capacity are left out.
pub fn used_parts(members: &[Member], used_bytes: &[u64]) -> Vec<f64> {
    let with_room = members.iter().filter(|member| member.capacity_bytes > 0);
    let part =
        |member: &Member| used_bytes[member.server.index()] as f64 / member.capacity_bytes as f64;
    with_room.map(part).collect()
}
