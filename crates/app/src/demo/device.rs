//! The slow disk: a gate on memory, with one tenant whose limits are the disk's speed.
//!
//! It serves in the order of arrival, as a disk does that knows of no tenants.

use evenkeel_wire::nbd::uri::NbdUri;

use crate::stage::{GateProcess, Stage};

/// The emulated speed, in bytes per second.
pub(super) const RATE_BYTES: u64 = 40 << 20;

/// For people. The disk must never be taken for a real one.
pub(super) const DESCRIPTION: &str = "emulated: 40 MiB/s, 2000 requests a second";

/// The exports, one for each tenant: parts of one disk.
pub(super) const EXPORTS: [&str; 2] = ["database", "backup"];

const POLICY: &str = r#"
mode = "enforce"

[[backend]]
name = "disk"
memory = true

[[export]]
name = "database"
size = "256 MiB"

[[export]]
name = "backup"
size = "256 MiB"

[[tenant]]
name = "everybody"
match = { export = "*" }
limit = ["40 MiB/s", "2k iops"]
burst = ["256 KiB", "16 requests"]
"#;

/// The running disk.
#[derive(Debug)]
pub(super) struct Disk {
    gate: GateProcess,
}

impl Disk {
    /// Starts it.
    pub(super) fn start(stage: &Stage) -> anyhow::Result<Self> {
        Ok(Self { gate: GateProcess::start(stage, "disk", POLICY)? })
    }

    /// Where it is.
    pub(super) fn uri(&self) -> anyhow::Result<NbdUri> {
        self.gate.uri("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_valid_and_says_what_the_description_says() {
        let listen = "listen = [\"unix:/tmp/disk.sock\"]\n";
        let policy = crate::config::parse(&(listen.to_owned() + POLICY), "disk").unwrap();
        let names: Vec<_> = policy.exports.iter().map(|export| export.name.as_str()).collect();
        assert_eq!(names, EXPORTS);
        assert!(
            POLICY.contains(&crate::units::print_rate(crate::units::Amount::Bytes(RATE_BYTES)))
        );
        assert!(DESCRIPTION.contains("40 MiB/s"));
    }
}
