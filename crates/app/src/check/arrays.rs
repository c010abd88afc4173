//! Which gates count as before one array, and why.
//!
//! By what gates know an array stands in the policy; who else is before it is known to a gate that
//! runs.

use evenkeel_engine::policy::{Backend, Policy};

use super::live::Asked;
use crate::status::{SharedDevice, Status};

/// What holds of each backend that other gates may share. `status` is of the gate that has this
/// policy, if it runs.
pub(super) fn ask(policy: &Policy, status: Option<&Status>) -> Vec<Asked> {
    let devices = status.and_then(|status| status.exchange.as_ref()).map(|one| &one.devices[..]);
    let backends = policy.exchanged_backends().map(|(_, backend)| backend);
    backends.map(|backend| of(backend, devices)).collect()
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
    let disagreements = device.map(|device| device.disagreements.join("; ")).unwrap_or_default();
    Asked {
        what: format!("backend {}", backend.name),
        trouble: Some(disagreements).filter(|text| !text.is_empty()),
        note: Some(format!("array {array}, {known_by}: {who}")),
    }
}

fn who(device: &SharedDevice) -> String {
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
    use crate::status::{Detail, Exchange, SharingGate};
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
    fn an_array_that_the_running_gate_does_not_know_is_said() {
        let device = SharedDevice { array: "other".to_owned(), ..SharedDevice::default() };
        let asked = ask(&policy("vault"), Some(&status(device)));
        assert!(asked[0].note.as_ref().unwrap().contains("reload its policy"), "{asked:?}");
    }
}
