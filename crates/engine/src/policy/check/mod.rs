//! What cannot hold, found before it is put in force.
//!
//! [`Policy::check`] reads a policy as data and says what is wrong with it: an **error** where the
//! gate could not do what the policy says, a **warning** where it could but the operator can hardly
//! have meant it. A problem names the item and field, so that the app can point at the line, and
//! the remedy. Nothing outside the policy is looked at: whether a file exists or a server answers
//! shows when the gate starts.
//!
//! One file for each kind of item: `listeners`, `backends` (with groups), `stores`, `volumes` (of
//! tiers), `exports`, `tenants`, `promises` over all of them, and the `exchange` with other gates;
//! the bounds on memory are here.

mod access;
mod backends;
mod ceph;
mod exchange;
mod exports;
mod listeners;
mod measured;
mod preferences;
mod promises;
mod stores;
mod tenants;
mod volumes;

use evenkeel_core::bytes::Bytes;

use super::{Memory, Mode, Policy};

/// The largest payload of one request that clients may send, which one tenant's memory must hold.
pub const MAXIMAL_REQUEST_BYTES: u64 = 32 << 20;

/// Something wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The other place, of two that contradict each other.
    pub also: Option<Place>,
    /// Whether the policy can be put in force all the same.
    pub severity: Severity,
    /// What is wrong, with the offending value.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The policy works, though hardly as meant.
    Warning,
    /// The policy cannot be put in force.
    Error,
}

/// The item and field that a problem is about. An index is a position in the policy's own list; a
/// field is a path of field names below that item, such as `"share.limit.rate_iops"` or
/// `"scheduling.depth"`, and empty for the item as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The policy as a whole, or one of its own fields.
    Policy {
        /// Its field.
        field: &'static str,
    },
    /// An element of [`Policy::listeners`].
    Listener {
        /// Its position.
        index: usize,
        /// Its field.
        field: &'static str,
    },
    /// An element of [`Policy::backends`].
    Backend {
        /// Its position.
        index: usize,
        /// Its field.
        field: &'static str,
    },
    /// An element of [`Policy::groups`].
    Group {
        /// Its position.
        index: usize,
        /// Its field.
        field: &'static str,
    },
    /// An element of [`Policy::exports`].
    Export {
        /// Its position.
        index: usize,
        /// Its field.
        field: &'static str,
    },
    /// An element of [`Policy::tenants`].
    Tenant {
        /// Its position.
        index: usize,
        /// Its field.
        field: &'static str,
    },
    /// One of a tenant's matches.
    Match {
        /// The tenant's position.
        tenant: usize,
        /// The position in its list of matches.
        index: usize,
    },
    /// One of the members of a volume.
    Member {
        /// The position of the volume among the backends.
        backend: usize,
        /// The position in its list of members.
        index: usize,
    },
    /// [`Policy::exchange`].
    Exchange {
        /// Its field.
        field: &'static str,
    },
    /// [`Policy::memory`].
    Memory {
        /// Its field.
        field: &'static str,
    },
}

impl Policy {
    /// Everything that is wrong with the policy, in the order of its parts; it can be put in force
    /// if none of it is a [`Severity::Error`]. O(policy log policy), but for matches, of which each
    /// is held against every export.
    pub fn check(&self) -> Vec<Problem> {
        let mut found = Findings::default();
        check_whole(self, &mut found);
        listeners::check(self, &mut found);
        backends::check(self, &mut found);
        volumes::check(self, &mut found);
        exports::check(self, &mut found);
        tenants::check(self, &mut found);
        access::check(self, &mut found);
        promises::check(self, &mut found);
        exchange::check(self, &mut found);
        check_memory(&self.memory, &mut found);
        found.problems
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Problem>,
}

impl Findings {
    fn error(&mut self, place: Place, message: impl Into<String>, remedy: impl Into<String>) {
        self.push(Severity::Error, place, None, message.into(), remedy.into());
    }

    fn error_at_both(
        &mut self,
        place: Place,
        also: Place,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.push(Severity::Error, place, Some(also), message.into(), remedy.into());
    }

    fn warning(&mut self, place: Place, message: impl Into<String>, remedy: impl Into<String>) {
        self.push(Severity::Warning, place, None, message.into(), remedy.into());
    }

    fn warning_at_both(
        &mut self,
        place: Place,
        also: Place,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.push(Severity::Warning, place, Some(also), message.into(), remedy.into());
    }

    fn push(
        &mut self,
        severity: Severity,
        place: Place,
        also: Option<Place>,
        message: String,
        remedy: String,
    ) {
        self.problems.push(Problem { place, also, severity, message, remedy });
    }
}

fn check_whole(policy: &Policy, found: &mut Findings) {
    if policy.mode == Mode::Enforce && policy.tenants.len() < 2 {
        found.warning(
            Place::Policy { field: "mode" },
            "mode enforce with fewer than two tenants: there is nobody to share with",
            "declare the tenants, or use mode observe until you know them",
        );
    }
}

fn check_memory(memory: &Memory, found: &mut Findings) {
    let place = |field| Place::Memory { field };
    if memory.per_tenant_bytes < MAXIMAL_REQUEST_BYTES {
        found.error(
            place("per_tenant_bytes"),
            format!(
                "{} per tenant cannot hold one request of the largest size",
                Bytes(memory.per_tenant_bytes)
            ),
            "allow at least 32 MiB",
        );
    }
    if memory.total_bytes < memory.per_tenant_bytes {
        found.error(
            place("total_bytes"),
            format!(
                "the total of {} is less than the {} that one tenant may hold",
                Bytes(memory.total_bytes),
                Bytes(memory.per_tenant_bytes)
            ),
            "raise the total, best to several times the bound per tenant",
        );
    }
    if memory.total_bytes < 2 * MAXIMAL_REQUEST_BYTES {
        found.error(
            place("total_bytes"),
            format!(
                "{} cannot hold one request of the largest size beside what is kept to finish one",
                Bytes(memory.total_bytes)
            ),
            "allow at least 64 MiB",
        );
    }
    if memory.connections == 0 {
        found.error(place("connections"), "no connection is allowed", "allow at least one");
    }
}

/// Reports names that are used twice, empty or unprintable, over the names of one kind of item.
fn check_names<'a>(
    what: &str,
    names: impl Iterator<Item = &'a str>,
    may_be_empty: bool,
    place: impl Fn(usize) -> Place,
    found: &mut Findings,
) {
    let mut first_use = std::collections::BTreeMap::new();
    for (index, name) in names.enumerate() {
        if name.is_empty() && !may_be_empty {
            found.error(place(index), format!("a {what} without a name"), "name it");
        } else if name.chars().any(char::is_control) {
            found.error(
                place(index),
                format!("the name {name:?} holds control characters"),
                "use printable characters",
            );
        }
        if let Some(first) = first_use.insert(name, index) {
            found.error(
                place(index),
                format!("{what} {name:?} is declared twice, first as number {}", first + 1),
                "rename or remove one of them",
            );
        }
    }
}

/// The names that exist, for the remedy of a reference that dangles.
fn known<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<_> = names.collect();
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    match names.len() {
        0 => "declare one; there is none yet".to_string(),
        1..=SHOWN => format!("use one of {}", shown.join(", ")),
        more => format!("use one of {}, and {} more", shown.join(", "), more - SHOWN),
    }
}
