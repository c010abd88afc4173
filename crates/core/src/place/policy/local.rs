//! A primary in the client's own rack: reads then cross no switch between racks.

use super::{Better, Policy, View, by_cost};
use crate::id::ServerId;
use crate::place::cluster::{DomainId, Member};

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Local {
    /// By [`ServerId`].
    is_here: Vec<bool>,
}

impl Local {
    /// The policy of a client in a domain.
    pub fn new(members: &[Member], here: DomainId) -> Self {
        let rows = members.iter().map(|member| member.server.index() + 1).max().unwrap_or(0);
        let mut is_here = vec![false; rows];
        for member in members {
            is_here[member.server.index()] = member.domain == here;
        }
        Self { is_here }
    }

    fn distance(&self, servers: &[ServerId]) -> f64 {
        let is_here = self.is_here.get(servers[0].index()).copied().unwrap_or(false);
        f64::from(u8::from(!is_here))
    }
}

impl Policy for Local {
    fn compare(&self, _: &View<'_>, kept: &[ServerId], other: &[ServerId]) -> Better {
        by_cost(self.distance(kept), self.distance(other), 0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::zero_or_one;
    use super::*;
    use crate::place::loads::Loads;

    #[test]
    fn the_near_one_is_better_and_two_far_ones_are_even() {
        let member = |server| Member {
            server: ServerId(server),
            capacity_bytes: 1,
            domain: DomainId(server),
        };
        let members = [member(0), member(1), member(2)];
        let of = |here| Local::new(&members, DomainId(here));
        let outcomes = [0, 1, 2].map(|here| zero_or_one(&of(here), &Loads::new(3)));
        assert_eq!(outcomes, [Better::Kept, Better::Other, Better::Even]);
    }
}
