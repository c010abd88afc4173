//! Taking the better candidate, and none that is full.
//!
//! The first candidate is kept unless another one is clearly better. A server at the ceiling is no
//! candidate at all: in Ceph one full server stops the whole pool, so a volume holds a ceiling of
//! its own, below that of its servers.

use std::fmt;

use super::policy::{Better, Policy, View};
use crate::id::ServerId;

/// The part of its capacity to which a server may be filled by default.
pub const CEILING: f64 = 0.93;

/// Nothing can be placed: each candidate has a server at its ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoRoom {
    /// A server that is in the way, the fullest of the candidate with most room.
    pub server: ServerId,
    /// The part of it that would be in use.
    pub used_part: f64,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, used_part } = self;
        write!(
            f,
            "no candidate has room; server {} would be {:.1} % full",
            server.0,
            used_part * 100.0
        )
    }
}

impl std::error::Error for NoRoom {}

/// The position of the candidate to take. There is at least one.
///
/// # Errors
/// Every candidate has a server that would be filled beyond `ceiling`, a part of its capacity.
pub fn choose<'a>(
    policy: &dyn Policy,
    view: &View<'_>,
    candidates: impl Iterator<Item = &'a [ServerId]>,
    ceiling: f64,
) -> Result<usize, NoRoom> {
    let mut kept: Option<(usize, &[ServerId])> = None;
    let mut no_room: Option<NoRoom> = None;
    for (position, servers) in candidates.enumerate() {
        if most_used(view, servers) > ceiling {
            let fullest = fullest(view, servers);
            no_room =
                Some(no_room.filter(|one| one.used_part <= fullest.used_part).unwrap_or(fullest));
            continue;
        }
        let is_better =
            |(_, kept): (_, &[ServerId])| policy.compare(view, kept, servers) == Better::Other;
        if kept.is_none_or(is_better) {
            kept = Some((position, servers));
        }
    }
    match (kept, no_room) {
        (Some((position, _)), _) => Ok(position),
        (None, Some(no_room)) => Err(no_room),
        (None, None) => panic!("an object has at least one candidate"),
    }
}

/// The used part of the fullest, which has to be known for every candidate.
fn most_used(view: &View<'_>, servers: &[ServerId]) -> f64 {
    let parts = servers.iter().map(|&server| view.loads.used_part(server, view.size_bytes));
    parts.fold(0.0, f64::max)
}

/// The fullest, for the rare error.
fn fullest(view: &View<'_>, servers: &[ServerId]) -> NoRoom {
    let part =
        |&server| NoRoom { server, used_part: view.loads.used_part(server, view.size_bytes) };
    let parts = servers.iter().map(part);
    parts.max_by(|one, other| one.used_part.total_cmp(&other.used_part)).expect("sets have servers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::loads::Metrics;
    use crate::place::policy::space::Space;
    use crate::place::policy::testing::loads;

    fn choice(used: [u64; 3], ceiling: f64) -> Result<usize, NoRoom> {
        let report =
            |used_bytes| Metrics { used_bytes, capacity_bytes: 1000, ..Metrics::default() };
        let loads = loads(&used.map(report));
        let view = View { loads: &loads, size_bytes: 10 };
        let sets: Vec<Vec<ServerId>> = (0..3).map(|server| vec![ServerId(server)]).collect();
        choose(&Space::with_margin(0.01), &view, sets.iter().map(Vec::as_slice), ceiling)
    }

    #[test]
    fn the_first_is_kept_unless_another_is_clearly_better() {
        assert_eq!(choice([105, 100, 100], CEILING), Ok(0));
        assert_eq!(choice([120, 100, 105], CEILING), Ok(1));
        assert_eq!(choice([120, 105, 90], CEILING), Ok(2));
    }

    #[test]
    fn a_full_server_is_no_candidate_and_none_left_is_an_error_that_names_one() {
        assert_eq!(choice([925, 990, 919], CEILING), Ok(2));
        let error = choice([985, 940, 960], CEILING).unwrap_err();
        assert_eq!(error, NoRoom { server: ServerId(1), used_part: 0.95 });
        assert_eq!(error.to_string(), "no candidate has room; server 1 would be 95.0 % full");
    }
}
