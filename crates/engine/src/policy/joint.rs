//! What holds at a backend once another gate is heard before the same array.
//!
//! ```text
//!   alone                  another gate is heard           alone again
//!   depth, cost, unit  ->  slots by share over all gates   ->  depth, cost, unit
//!   found here             (begins with what was found)        found here
//! ```
//!
//! A gate cannot find these figures while others use the array: what it sees of the array follows
//! from what they do as well. So what it found alone is where they begin together.

use evenkeel_core::time::Span;

use super::{Control, Depth, Discipline, Method, Policy, Scheduling};
use crate::cost::CostModel;
use crate::policy::{Backend, Sharing};
use crate::report::ServerReport;

/// The depth with which gates begin together where none had found one: each begins before it has
/// heard how many they are, and the array may be slow.
pub(crate) const SLOTS_FIRST: u32 = 4;

/// What a gate knows of an array when it begins to divide it with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// Requests that it may have there until the first decision, and where the search for the
    /// depth of all gates begins; at least 1.
    pub depth: u32,
    /// The largest unit that requests are cut into, in bytes; a power of two.
    pub unit_bytes: u64,
}

impl Joint {
    /// What was found at a server while the gate was alone.
    pub fn found(server: &ServerReport) -> Self {
        Self {
            depth: server.depth_found.unwrap_or(SLOTS_FIRST).max(1),
            unit_bytes: server.unit_bytes,
        }
    }

    /// How requests are queued together with the other gates, by what the policy says for this one
    /// alone. Requests cost what the gates agree on, or else what the policy says.
    #[must_use]
    pub fn scheduling(&self, alone: &Scheduling) -> Scheduling {
        let is_unit_found = alone.is_unit_found;
        Scheduling {
            discipline: Discipline::Shared,
            control: Control::By(Method::Shares),
            depth: Depth::Requests(self.depth),
            hold: Span::ZERO,
            unit_bytes: if is_unit_found {
                self.unit_bytes.min(alone.unit_bytes)
            } else {
                alone.unit_bytes
            },
            is_unit_found: false,
            ..alone.clone()
        }
    }
}

impl Scheduling {
    /// Whether it is divided with other gates now.
    pub fn is_shared(&self) -> bool {
        self.discipline == Discipline::Shared
    }

    /// The same with the costs that the gates before the array have agreed on, unless the policy
    /// says what requests cost.
    #[must_use]
    pub fn with_cost_of_array(self, agreed: CostModel) -> Self {
        let cost = if self.is_cost_learned { agreed } else { self.cost };
        Self { cost, ..self }
    }
}

impl Policy {
    /// Whether this gate can divide a backend with others as soon as it hears them: they know it by
    /// the same name, nothing else orders its requests together with those of another backend, and
    /// this gate takes part in an exchange.
    pub fn can_join(&self, backend: &Backend) -> bool {
        let name = &backend.name;
        let group = self.groups.iter().find(|group| group.backends.contains(name));
        self.exchange.is_some()
            && backend.array_of_all_hosts().is_some()
            && self.volume_of(name).is_none()
            && backend.members().is_empty()
            && group.is_none_or(|group| group.sharing == Sharing::Local)
    }

    /// The backends that this gate divides with others now, or will once it hears any.
    pub fn exchanged_backends(&self) -> impl Iterator<Item = (usize, &Backend)> {
        let is_exchanged = |backend: &Backend| {
            let scheduling = &backend.scheduling;
            scheduling.is_shared() || scheduling.control == Control::Automatic
        };
        self.backends.iter().enumerate().filter(move |(_, backend)| is_exchanged(backend))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Address, Exchange, Group, Meeting, NbdServer, Source, Upstream};
    use super::*;

    fn policy(address: Address) -> Policy {
        let upstream = Upstream {
            address,
            connections: 1,
            tls: None,
            passthrough: false,
            allow: None,
            writes_survive_restart: false,
            patience: Span::ZERO,
            late: None,
            request_timeout: Span::from_secs(1),
            server: NbdServer::Other,
            metrics: None,
        };
        let backend = Backend {
            name: "vault".into(),
            source: Source::Upstream(upstream),
            scheduling: Scheduling::default(),
        };
        let exchange = Exchange {
            name: "site".into(),
            own: "10.0.0.1:10900".into(),
            meeting: Meeting::Nats { servers: Vec::new() },
            key: "key".into(),
            period: Span::from_millis(200),
            record: None,
        };
        Policy { backends: vec![backend], exchange: Some(exchange), ..Policy::default() }
    }

    fn can_join(policy: &Policy) -> bool {
        policy.can_join(&policy.backends[0])
    }

    #[test]
    fn an_array_is_known_to_all_hosts_by_an_address_that_is_the_same_on_each() {
        let tcp = |address: &str| policy(Address::Tcp(address.into()));
        for address in ["10.0.1.1:10809", "[2001:db8::1]:10809", "vault.example:10809"] {
            assert!(can_join(&tcp(address)), "{address}");
        }
        for address in ["127.0.0.1:10809", "[::1]:10809", "localhost:10809", "0.0.0.0:1"] {
            assert!(!can_join(&tcp(address)), "{address}");
        }
        let mut socket = policy(Address::Unix("/run/nbd.sock".into()));
        assert!(!can_join(&socket));
        socket.backends[0].scheduling.array = Some("vault".into());
        assert!(can_join(&socket));
    }

    #[test]
    fn what_is_ordered_with_other_servers_is_not_divided_with_other_gates() {
        let mut policy = policy(Address::Tcp("10.0.1.1:10809".into()));
        let group = Group {
            name: "all".into(),
            backends: vec!["vault".into()],
            sharing: Sharing::Total,
            is_exchanged: true,
        };
        policy.groups.push(group);
        assert!(!can_join(&policy));
        policy.groups[0].sharing = Sharing::Local;
        assert!(can_join(&policy));
        policy.exchange = None;
        assert!(!can_join(&policy));
    }

    #[test]
    fn gates_begin_together_with_what_was_found_alone_and_what_is_written_stays() {
        let joint = Joint { depth: 12, unit_bytes: 1 << 16 };
        let found = Scheduling {
            discipline: Discipline::Edf,
            depth: Depth::Automatic,
            is_cost_learned: true,
            is_unit_found: true,
            control: Control::Automatic,
            ..Scheduling::default()
        };
        let together = joint.scheduling(&found);
        assert!(together.is_shared() && together.control == Control::By(Method::Shares));
        assert_eq!((together.depth, together.unit_bytes), (Depth::Requests(12), 1 << 16));
        let agreed = CostModel::PerRequest;
        assert_eq!(together.with_cost_of_array(agreed).cost, agreed);
        let written = Scheduling { is_cost_learned: false, is_unit_found: false, ..found };
        let together = joint.scheduling(&written).with_cost_of_array(agreed);
        assert_eq!((together.cost, together.unit_bytes), (written.cost, written.unit_bytes));
    }
}
