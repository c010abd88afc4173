//! Which gates count as before one array, and why.
//!
//! By what gates know an array stands in the policy; who else is before it is known to a gate that
//! runs.

use evenkeel_engine::policy::{Backend, Policy};

use super::live::Asked;
use crate::status::{Exchange, Peer, SharedDevice, SharedGroup, Status, SummedSite};

/// What holds of each backend that other gates may share. `status` is of the gate that has this
/// policy, if it runs.
pub(super) fn ask(policy: &Policy, status: Option<&Status>) -> Vec<Asked> {
    let devices = status.and_then(|status| status.exchange.as_ref()).map(|one| &one.devices[..]);
    let backends = policy.exchanged_backends().map(|(_, backend)| backend);
    let exchange = status.and_then(|status| status.exchange.as_ref());
    let groups = exchange.iter().flat_map(|one| &one.groups).filter_map(of_group);
    let peers = exchange.iter().flat_map(|one| &one.peers).filter_map(of_peer);
    let own = exchange.iter().filter_map(|one| of_name(one));
    backends.map(|backend| of(backend, devices)).chain(groups).chain(peers).chain(own).collect()
}

/// Why another gate is not heard, if somebody has to do something about it.
fn of_peer(peer: &Peer) -> Option<Asked> {
    let trouble = format!("it is not heard: {}", peer.refused_because.as_ref()?);
    Some(Asked { what: format!("gate {}", peer.name), trouble: Some(trouble), note: None })
}

/// Another gate that has the name of this one.
fn of_name(exchange: &Exchange) -> Option<Asked> {
    let trouble = "another gate has this name too: give each its own `own`".to_owned();
    exchange.has_duplicate_name.then(|| Asked {
        what: format!("gate {}", exchange.own),
        trouble: Some(trouble),
        note: None,
    })
}

/// What other gates say otherwise of a group whose shares count over them.
fn of_group(group: &SharedGroup) -> Option<Asked> {
    Some(Asked {
        what: format!("group {}", group.name),
        trouble: Some(trouble(&group.disagreements)?),
        note: None,
    })
}

fn trouble(disagreements: &[String]) -> Option<String> {
    (!disagreements.is_empty()).then(|| disagreements.join("; "))
}

fn of(backend: &Backend, devices: Option<&[SharedDevice]>) -> Asked {
    let array = backend.array();
    let known_by = match (&backend.scheduling.array, backend.array_of_all_hosts()) {
        (Some(_), _) => "by `array`",
        (None, Some(_)) => "by the address of its server",
        (None, None) => "by the name of the backend, which others may give to another array",
    };
    let device = devices.and_then(|all| all.iter().find(|one| one.array == array));
    let who = match (devices, device) {
        (None, _) => "who else is before it is known once the gate runs".to_owned(),
        (Some(_), None) => "the gate that runs does not know it: reload its policy".to_owned(),
        (Some(_), Some(device)) => who(device),
    };
    Asked {
        what: format!("backend {}", backend.name),
        trouble: device.and_then(|device| trouble(&device.disagreements)),
        note: Some(format!("array {array}, {known_by}: {who}")),
    }
}

fn who(device: &SharedDevice) -> String {
    if let Some(SummedSite { gates, .. }) = device.sums {
        return format!("divided by {} among {gates} gates", device.control);
    }
    let gates: Vec<&str> = device.gates.iter().map(|gate| gate.name.as_str()).collect();
    if device.is_divided && gates.len() > 1 {
        format!("divided by {} among {}", device.control, gates.join(", "))
    } else {
        "no other gate is heard before it".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::policy::{Control, Method, Scheduling};

    use super::*;
    use crate::status::{Detail, SharingGate};
    use crate::testing::{sample_policy, sample_report};

    fn policy(array: &str) -> Policy {
        let mut policy = sample_policy();
        let scheduling = &policy.backends[0].scheduling;
        policy.backends[0].scheduling = Scheduling {
            array: Some(array.to_owned()),
            control: Control::Automatic,
            ..scheduling.clone()
        };
        policy
    }

    fn status(device: SharedDevice) -> Status {
        let exchange = Exchange { devices: vec![device], ..Exchange::default() };
        let status = Status::new(&sample_report(), &sample_policy(), Detail::Buckets);
        Status { exchange: Some(exchange), ..status }
    }

    #[test]
    fn what_is_one_array_is_said_with_the_reason_and_who_is_before_it() {
        let policy = policy("vault");
        let note = |status: Option<&Status>| ask(&policy, status)[0].note.clone().unwrap();
        assert_eq!(
            note(None),
            "array vault, by `array`: who else is before it is known once the gate runs"
        );
        let gate = |name: &str| SharingGate { name: name.to_owned(), ..SharingGate::default() };
        let mut device = SharedDevice {
            array: "vault".to_owned(),
            control: Method::Shares.name().to_owned(),
            ..SharedDevice::default()
        };
        assert!(note(Some(&status(device.clone()))).ends_with("no other gate is heard before it"));
        device.is_divided = true;
        device.gates = vec![gate("10.0.0.1:10900"), gate("10.0.0.2:10900")];
        let divided = "divided by shares among 10.0.0.1:10900, 10.0.0.2:10900";
        assert!(note(Some(&status(device.clone()))).ends_with(divided));
        device.disagreements = vec!["two gives db a share of 4".to_owned()];
        let trouble = ask(&policy, Some(&status(device)))[0].trouble.clone();
        assert_eq!(trouble.as_deref(), Some("two gives db a share of 4"));
    }

    #[test]
    fn what_is_wrong_between_gates_is_said() {
        let said = "two gives db a share of 4, this gate 3: use one `share`".to_owned();
        let group = SharedGroup {
            name: "all".to_owned(),
            disagreements: vec![said.clone()],
            ..SharedGroup::default()
        };
        let status = status(SharedDevice::default());
        let peer = Peer {
            name: "two".to_owned(),
            refused_because: Some("its clock is off".to_owned()),
            ..Peer::default()
        };
        let exchange = status.exchange.map(|exchange| Exchange {
            own: "one".to_owned(),
            groups: vec![group],
            peers: vec![Peer::default(), peer],
            has_duplicate_name: true,
            ..exchange
        });
        let asked = ask(&policy("vault"), Some(&Status { exchange, ..status }));
        let said_of = |index: usize| {
            let one: &Asked = &asked[index];
            (one.what.as_str(), one.trouble.as_deref())
        };
        assert_eq!(said_of(1), ("group all", Some(said.as_str())));
        assert_eq!(said_of(2), ("gate two", Some("it is not heard: its clock is off")));
        let twice = "another gate has this name too: give each its own `own`";
        assert_eq!(said_of(3), ("gate one", Some(twice)));
    }

    #[test]
    fn an_array_that_the_running_gate_does_not_know_is_said() {
        let device = SharedDevice { array: "other".to_owned(), ..SharedDevice::default() };
        let asked = ask(&policy("vault"), Some(&status(device)));
        assert!(asked[0].note.as_ref().unwrap().contains("reload its policy"), "{asked:?}");
    }
}
