//! Which discipline a backend has when nobody says so: the one that keeps what is promised to the
//! tenants that can come to it.
//!
//! ```text
//! a floor                  mclock
//! a latency goal           edf       (a floor and a goal at one backend: no discipline keeps both)
//! neither                  sfq
//! a controller is named    shared    (with other gates)
//! a tiered volume          baa, which keeps floors; with goals alone, edf
//! ```
//!
//! A tier has no discipline of its own: it has the volume's, or sfq where the volume orders the
//! requests of all its tiers together.

use super::{Backend, Discipline, Policy, Reach, Tenant};

impl Policy {
    /// The discipline of a backend for which none is named.
    pub fn default_discipline(&self, backend: usize, reach: &Reach) -> Discipline {
        if self.backends[backend].scheduling.control.method().is_some() {
            return Discipline::Shared;
        }
        let comers = || reach.tenants(backend).iter().map(|&tenant| &self.tenants[tenant]);
        let has_floor = comers().any(Tenant::has_floor);
        let has_goal = comers().any(Tenant::has_goal);
        match (has_floor, has_goal) {
            (false, true) => Discipline::Edf,
            _ if self.backends[backend].volume().is_some() => Discipline::Baa,
            (true, _) => Discipline::Mclock,
            (false, false) => Discipline::Sfq,
        }
    }

    /// Whether each backend has the discipline that it would have if none were named.
    pub fn has_default_discipline(&self) -> Vec<bool> {
        let reach = self.reach();
        let is_default = |(index, backend): (usize, &Backend)| {
            backend.scheduling.discipline == self.default_discipline(index, &reach)
        };
        self.backends.iter().enumerate().map(is_default).collect()
    }

    /// Gives the backends for which none is named their discipline, and tiers that of their
    /// volume.
    pub fn settle_disciplines(&mut self, is_unnamed: impl Fn(usize) -> bool) {
        let reach = self.reach();
        for index in (0..self.backends.len()).filter(|&index| is_unnamed(index)) {
            self.backends[index].scheduling.discipline = self.default_discipline(index, &reach);
        }
        let of_tiers: Vec<(usize, Discipline)> = self
            .volumes()
            .flat_map(|(backend, volume)| {
                let discipline = tier_discipline(backend.scheduling.discipline);
                let tiers = volume.tiers.iter().filter_map(|tier| self.position_of(&tier.backend));
                tiers.map(move |tier| (tier, discipline))
            })
            .collect();
        for (tier, discipline) in of_tiers {
            self.backends[tier].scheduling.discipline = discipline;
        }
    }
}

/// The discipline of each tier of a volume.
pub(super) fn tier_discipline(volume: Discipline) -> Discipline {
    if volume.spans_tiers() { Discipline::Sfq } else { volume }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::{Floor, Share};
    use evenkeel_core::time::Span;

    use super::super::{Member, Moves, Scheduling, Source, Takeover, Tiered};
    use super::*;

    fn backend(name: &str, source: Source) -> Backend {
        Backend { name: name.into(), source, scheduling: Scheduling::default() }
    }

    /// Two tiers and their volume, and a tenant of everything. No listeners: everybody comes
    /// everywhere.
    fn tiered(share: Share) -> Policy {
        let tier =
            |name: &str| Member { backend: name.into(), device: String::new(), size_bytes: None };
        let tiers = vec![tier("a"), tier("b")];
        let takeover = Takeover::default();
        let volume = Tiered { tiers, extent_bytes: 1 << 20, moves: Moves::Off, takeover };
        Policy {
            backends: vec![
                backend("a", Source::Memory),
                backend("b", Source::Memory),
                backend("v", Source::Tiered(volume)),
                backend("c", Source::Memory),
            ],
            tenants: vec![Tenant { name: "t".into(), matches: vec![], read_only: false, share }],
            ..Policy::default()
        }
    }

    /// Of a tier, the volume, and a backend that is in none.
    fn settled(share: Share) -> [Discipline; 3] {
        let mut policy = tiered(share);
        policy.settle_disciplines(|_| true);
        [0, 2, 3].map(|backend| policy.backends[backend].scheduling.discipline)
    }

    #[test]
    fn the_discipline_follows_what_is_promised_to_those_who_come() {
        use Discipline::{Baa, Edf, Mclock, Sfq};
        let floor = Floor { rate_iops: 5, rate_bytes: 0 };
        let latency_goal = Span::from_millis(5);
        assert_eq!(settled(Share::default()), [Sfq, Baa, Sfq]);
        assert_eq!(settled(Share { floor, ..Share::default() }), [Sfq, Baa, Mclock]);
        assert_eq!(settled(Share { latency_goal, ..Share::default() }), [Edf, Edf, Edf]);
        assert_eq!(settled(Share { floor, latency_goal, ..Share::default() }), [Sfq, Baa, Mclock]);
    }

    #[test]
    fn what_is_named_stays_and_tiers_follow_their_volume() {
        use Discipline::{Fifo, Mclock};
        let mut policy = tiered(Share::default());
        policy.backends[2].scheduling.discipline = Mclock;
        policy.backends[3].scheduling.discipline = Fifo;
        policy.settle_disciplines(|_| false);
        let now = policy.backends.iter().map(|backend| backend.scheduling.discipline);
        assert_eq!(now.collect::<Vec<_>>(), [Mclock, Mclock, Mclock, Fifo]);
        assert_eq!(policy.has_default_discipline(), [false, false, false, false]);
    }
}
