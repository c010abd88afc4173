//! Spread volumes, family by family.

use evenkeel_engine::policy::Policy;
use evenkeel_engine::report::{DomainReport, SpreadReport};

use super::table as metric;
use super::text::Document;
use crate::status::domain_name;

/// Writes what is known of the volumes that are spread over servers.
pub(super) fn render(document: &mut Document, domains: &[DomainReport], policy: &Policy) {
    let volumes: Vec<(&DomainReport, &SpreadReport)> =
        domains.iter().filter_map(|domain| Some((domain, domain.spread.as_ref()?))).collect();
    let mut objects = document.family(&metric::SPREAD_OBJECTS);
    for (domain, volume) in &volumes {
        for server in &volume.servers {
            let backend = &domain.servers[server.server.index()].name;
            objects.count(&[domain_name(domain, policy), backend], u64::from(server.used_slots));
        }
    }
    let mut lost = document.family(&metric::SPREAD_LOST);
    for (domain, volume) in &volumes {
        lost.count(&[domain_name(domain, policy)], u64::from(volume.lost));
    }
    let changes = volumes
        .iter()
        .map(|(domain, volume)| (domain_name(domain, policy), volume.change.unwrap_or_default()));
    let changes: Vec<_> = changes.collect();
    let mut to_move = document.family(&metric::SPREAD_TO_MOVE);
    for (domain, change) in &changes {
        to_move.count(&[domain], u64::from(change.to_move));
    }
    let mut moved = document.family(&metric::SPREAD_MOVED);
    for (domain, change) in &changes {
        moved.count(&[domain], change.moved);
    }
}
