//! With whom a gate shares devices, or the shares of its tenants: gates that tell each other once a
//! period what they do. See [`evenkeel_core::control`].

use std::collections::BTreeSet;
use std::path::PathBuf;

use evenkeel_core::control::member::Rules;
use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::HostId;
use evenkeel_core::time::Span;

use super::{Backend, Control, Depth, Group, Method, Policy, Scheduling};
use crate::cost::CostModel;

/// The latency that PARDA holds a device at where nothing else is said: the default of the product
/// that it became.
const PARDA_THRESHOLD: Span = Span::from_millis(30);

/// How this gate takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What the gates that share devices have in common; others do not hear each other.
    pub name: String,
    /// How the others call this gate in their lists of peers.
    pub own: String,
    /// How it meets them.
    pub meeting: Meeting,
    /// A file with the key that all of them have.
    pub key: PathBuf,
    /// Time between two summaries under [`Method::Shares`] and [`Method::Slack`].
    pub period: Span,
    /// A file for what is decided from what, if that is to be recorded.
    pub record: Option<PathBuf>,
}

/// How gates of an exchange find each other, and what carries their words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// Each sends its words to all others of a list.
    Listed {
        /// Where words come in, as `host:port` of UDP.
        listen: String,
        /// The gates, as `host:port`. This one may be among them and is no peer of itself.
        peers: Vec<String>,
    },
    /// A NATS server passes words on. Whoever is heard there, with the key, takes part.
    Nats {
        /// URIs of servers of one cluster: `nats://host:port`, or `tls://host:port`.
        servers: Vec<String>,
    },
    /// Each sends its words to all others that are on a list in etcd, where it puts itself.
    Etcd {
        /// Where words come in, as `host:port` of UDP.
        listen: String,
        /// Servers of one cluster, as `http://host:port`.
        servers: Vec<String>,
    },
}

impl Meeting {
    /// Where words come in over UDP, if they do.
    pub fn listen(&self) -> Option<&str> {
        match self {
            Self::Listed { listen, .. } | Self::Etcd { listen, .. } => Some(listen),
            Self::Nats { .. } => None,
        }
    }
}

impl Exchange {
    /// This gate.
    pub fn host(&self) -> HostId {
        HostId::named(&self.own)
    }

    /// The other gates that the policy lists, each once; none if it lists none.
    pub fn others(&self) -> Option<BTreeSet<&str>> {
        let Meeting::Listed { peers, .. } = &self.meeting else { return None };
        Some(peers.iter().map(String::as_str).filter(|peer| *peer != self.own).collect())
    }

    /// The numbers of these gates and of this one, in order.
    pub fn members<'a>(&self, others: impl IntoIterator<Item = &'a str>) -> Vec<HostId> {
        let mut members: Vec<HostId> = others.into_iter().map(HostId::named).collect();
        members.push(self.host());
        members.sort_unstable();
        members.dedup();
        members
    }

    /// The number by which gates know the device that they call so ([`Backend::array`]).
    pub fn device(&self, array: &str) -> DeviceId {
        DeviceId::named(&self.name, array)
    }

    /// The number by which gates know a group of servers with these costs: gates that count in
    /// different units do not hear each other.
    pub fn group(&self, group: &Group, cost: CostModel) -> DeviceId {
        let unit = match cost {
            CostModel::PerRequest => "requests",
            CostModel::Linear { .. } => "device time",
        };
        DeviceId::named(&self.name, &format!("group {} in {unit}", group.name))
    }

    /// By what the slots of a backend are decided; none if it is not shared.
    pub fn rules(&self, scheduling: &Scheduling) -> Option<Rules> {
        let method = match scheduling.control {
            Control::Automatic => Method::Shares,
            Control::By(method) if scheduling.is_shared() => method,
            Control::By(_) | Control::Alone => return None,
        };
        let threshold = match scheduling.depth {
            Depth::Adaptive { read_goal, .. } => read_goal,
            Depth::Requests(_) | Depth::Bytes(_) | Depth::Automatic => PARDA_THRESHOLD,
        };
        let depth = scheduling.static_depth();
        Some(Rules { method, period: self.period, depth, threshold })
    }
}

impl Policy {
    /// The groups whose shares count over other gates too, each with the costs of its servers.
    pub fn exchanged_groups(&self) -> impl Iterator<Item = (&Group, CostModel)> {
        self.groups.iter().filter(|group| group.is_exchanged).filter_map(|group| {
            let first = group.backends.first()?;
            let backend = self.backends.iter().find(|backend| backend.name == *first)?;
            Some((group, backend.scheduling.cost))
        })
    }

    /// The backends that this gate shares with others.
    pub fn shared_backends(&self) -> impl Iterator<Item = (usize, &Backend)> {
        let is_shared = |backend: &Backend| backend.scheduling.is_shared();
        self.backends.iter().enumerate().filter(move |(_, backend)| is_shared(backend))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_counts_the_same_members_from_its_own_list() {
        let gate = |own: &str, peers: &[&str]| Exchange {
            name: "site".into(),
            own: own.into(),
            meeting: Meeting::Listed {
                listen: own.into(),
                peers: peers.iter().map(ToString::to_string).collect(),
            },
            key: "key".into(),
            period: Span::from_millis(100),
            record: None,
        };
        let [a, b, c] = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"];
        let one = gate(a, &[b, c]);
        let other = gate(c, &[c, a, b, b]);
        let others = |gate: &Exchange| gate.others().unwrap().len();
        assert_eq!((others(&one), others(&other)), (2, 2));
        assert_eq!(one.members(one.others().unwrap()), other.members([a, b]));
        assert_eq!(one.device("array"), other.device("array"));
    }
}
