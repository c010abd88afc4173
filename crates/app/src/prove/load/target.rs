//! Which backends two tenants of `prove` can put under load, and how little they may weigh.
//!
//! The gate gives each of those who wait its weight over the sum of theirs. So the two are given
//! the part of what is left that makes their share the one that was named:
//!
//! ```text
//! share 5 %   db 4 and backup 1 wait          the two weigh 5 x 0.05 / 0.95 = 0.263 together
//!             nobody waits, db 4 connected    the two weigh 4 x 0.05 / 0.95 = 0.210 together
//! ```
//!
//! Where nobody waits yet, it is the lightest of those who are there that counts: whoever comes to
//! wait has the rest.

use std::path::{Path, PathBuf};

use evenkeel_core::sched::Share;
use evenkeel_engine::policy::{
    Address, Backend, DEFAULT_TENANT, Depth, Discipline, Export, Listener, Match, Policy, Source,
    Tenant,
};

use crate::status::{Domain, Status};

/// The names of the two tenants and of their exports; of [`PROOF_PREFIX`].
///
/// [`PROOF_PREFIX`]: evenkeel_engine::policy::PROOF_PREFIX
pub(super) const NAMES: [&str; 2] = ["evenkeel-prove-1", "evenkeel-prove-2"];

/// The listener that the two come by, and its socket.
pub(super) const LISTENER: &str = "evenkeel-prove-listener";

/// So many times as much as the second is due the first.
pub(super) const RATIO: u32 = 3;

/// A tenant waits if it has requests waiting for so great a part of a second.
const WAITS_MIN: f64 = 0.5;

/// Requests that each of the two keeps under way, at least and at most.
const OUTSTANDING: std::ops::RangeInclusive<u64> = 32..=256;

/// The size of the requests, unless the export takes only larger ones.
pub(super) const REQUEST_BYTES: u32 = 4096;

/// A backend that can be put under load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) backend: String,
    pub(super) domain: String,
    /// What is read, by its name at the backend.
    pub(super) source: Option<String>,
    /// Requests that each of the two keeps under way.
    pub(super) outstanding: u32,
    /// Weights in thousandths.
    pub(super) weights_milli: [u32; 2],
    /// Those whose weight the share was reckoned with.
    pub(super) beside: Vec<String>,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NoTarget {
    /// The two cannot be put there.
    Unfit(String),
    /// There is no need: nothing is kept there.
    Broken(String),
}

impl Target {
    /// What the two can do to this backend under the policy in force.
    ///
    /// # Errors
    /// [`NoTarget`].
    pub(super) fn new(
        policy: &Policy,
        status: &Status,
        backend: &Backend,
        share: f64,
    ) -> Result<Self, NoTarget> {
        let domain = suits(policy, status, backend)?;
        let source = source(policy, status, backend)?;
        let base = Base::new(policy, status, backend, domain);
        let weights_milli = weights(base.weight_milli, share).ok_or_else(|| {
            let names = base.tenants.join(", ");
            NoTarget::Unfit(format!(
                "the share of {names} is so small that the part of it cannot be written in \
                 thousandths: multiply all shares by the same number, or name more with \
                 `--load-share`"
            ))
        })?;
        let depth = domain.servers.first().map_or(0, |server| server.depth);
        let is_bytes = matches!(backend.scheduling.depth, Depth::Bytes(_));
        let units = if is_bytes { depth / u64::from(REQUEST_BYTES) } else { depth };
        let outstanding = (units * 2).clamp(*OUTSTANDING.start(), *OUTSTANDING.end());
        Ok(Self {
            backend: backend.name.clone(),
            domain: domain.name.clone(),
            source,
            outstanding: u32::try_from(outstanding).expect("it was bounded"),
            weights_milli,
            beside: base.tenants,
        })
    }

    /// The policy with the two tenants, each with an export of its own, and a listener for them.
    pub(super) fn policy(&self, before: &Policy, socket: &Path) -> Policy {
        let mut policy = before.clone();
        policy.listeners.push(Listener {
            name: LISTENER.to_owned(),
            address: Address::Unix(socket.to_path_buf()),
            tls: None,
        });
        for (name, weight_milli) in NAMES.into_iter().zip(self.weights_milli) {
            policy.exports.push(Export {
                name: name.to_owned(),
                backend: self.backend.clone(),
                source: self.source.clone(),
                offset_bytes: 0,
                size_bytes: None,
                read_only: true,
                allow: None,
                description: None,
            });
            policy.tenants.push(Tenant {
                name: name.to_owned(),
                matches: vec![Match::Export(name.to_owned())],
                read_only: true,
                share: Share { weight_milli, ..Share::default() },
            });
        }
        policy
    }

    /// The part of the device that is the two's while these tenants wait beside them; none where
    /// nobody waits.
    pub(super) fn part_beside(&self, waiting: &[&crate::status::Tenant]) -> Option<f64> {
        let others: f64 = waiting.iter().map(|tenant| tenant.share).sum();
        let own = f64::from(self.weights_milli.iter().sum::<u32>()) / 1000.0;
        (!waiting.is_empty()).then(|| own / (own + others))
    }
}

/// Where the listener's socket is to be: beside the gate's control socket, in a folder that the
/// gate can write.
pub(super) fn socket_beside(control: &Path) -> PathBuf {
    let absolute = std::path::absolute(control).unwrap_or_else(|_| control.to_path_buf());
    absolute.with_file_name("evenkeel-prove.sock")
}

/// The tenants that have requests waiting in a domain, but the two.
pub(super) fn waiting(domain: &Domain) -> Vec<&crate::status::Tenant> {
    let others = domain.tenants.iter().filter(|one| !NAMES.contains(&one.name.as_str()));
    others.filter(|tenant| tenant.window.backlogged >= WAITS_MIN).collect()
}

/// The domain of a backend whose shares two tenants can put to the test.
fn suits<'a>(
    policy: &Policy,
    status: &'a Status,
    backend: &Backend,
) -> Result<&'a Domain, NoTarget> {
    let unfit = |why: &str| Err(NoTarget::Unfit(why.to_owned()));
    let name = &backend.name;
    let discipline = backend.scheduling.discipline;
    if backend.is_volume() {
        return unfit("it is a volume over several backends");
    }
    if let Some(volume) = policy.volume_of(name) {
        return unfit(&format!("it is a part of the volume {}", volume.name));
    }
    if let Some(group) = policy.groups.iter().find(|one| one.backends.contains(name)) {
        return unfit(&format!("shares count over all backends of the group {}", group.name));
    }
    if discipline.spans_tiers() || discipline == Discipline::Shared {
        let why = format!("by discipline {} weights alone do not say", discipline.name());
        return unfit(&format!("{why} what a tenant is due"));
    }
    if discipline == Discipline::Fifo {
        return Err(NoTarget::Broken(
            "discipline fifo serves by arrival: nobody has a share, and nothing would hold the \
             load back; leave `discipline` out"
                .to_owned(),
        ));
    }
    if backend.source == Source::Memory {
        return unfit("it is memory of the gate, which nobody waits for");
    }
    // One that nobody has used yet is not up either, and has no trouble.
    let state = status.backends.iter().find(|one| one.name == *name && !one.up);
    if let Some(trouble) = state.and_then(|one| one.trouble.as_ref()) {
        return unfit(&format!("it is away: {trouble}"));
    }
    let mut domains = status.domains.iter();
    match domains.find(|one| one.servers.iter().any(|server| server.name == *name)) {
        Some(domain) if domain.servers.len() == 1 => Ok(domain),
        Some(_) => unfit("its requests are ordered together with those of other backends"),
        None => unfit("the gate does not serve it yet"),
    }
}

/// The largest of what is known to be there, so that caches hold the least of it. What no export
/// has is never touched: some sources make what is asked for.
fn source(policy: &Policy, status: &Status, backend: &Backend) -> Result<Option<String>, NoTarget> {
    let is_named =
        matches!(backend.source, Source::Upstream(_) | Source::Directory { .. } | Source::Store(_));
    let size = |name: &str| {
        let mut open = status.exports.iter().filter(|one| one.backend == backend.name);
        open.find(|one| one.name == name).map_or(0, |one| one.size_bytes)
    };
    let declared = policy.exports.iter().filter(|one| one.backend == backend.name);
    let largest = declared.max_by_key(|one| size(&one.name));
    if let Some(export) = largest {
        let name = export.source.clone().or_else(|| match backend.source {
            Source::Store(_) => None,
            _ => Some(export.name.clone()),
        });
        return Ok(name.filter(|_| is_named));
    }
    let passed = status.exports.iter().filter(|one| one.backend == backend.name);
    let largest = passed.filter(|one| one.size_bytes > 0).max_by_key(|one| one.size_bytes);
    // On a listener that asks for certificates, a name that an export stands on is not passed
    // through any more: clients would be refused.
    let is_withheld = policy.listeners.iter().any(Listener::is_protected);
    match largest {
        Some(export) if !is_withheld => Ok(Some(export.name.clone())),
        Some(_) => Err(NoTarget::Unfit(
            "what it passes through cannot be read beside clients with certificates: declare an \
             export of it"
                .to_owned(),
        )),
        None => Err(NoTarget::Unfit("no export of it is declared or in use".to_owned())),
    }
}

/// Beside whom the share is reckoned.
#[derive(Debug)]
struct Base {
    tenants: Vec<String>,
    weight_milli: u64,
}

impl Base {
    fn new(policy: &Policy, status: &Status, backend: &Backend, domain: &Domain) -> Self {
        let weight = |name: &str| {
            let declared = policy.tenants.iter().find(|one| one.name == name);
            u64::from(declared.map_or_else(Share::default, |one| one.share).weight_milli)
        };
        let waiting: Vec<String> = waiting(domain).iter().map(|one| one.name.clone()).collect();
        if !waiting.is_empty() {
            let weight_milli = waiting.iter().map(|name| weight(name)).sum();
            return Self { tenants: waiting, weight_milli };
        }
        let exports = status.exports.iter().filter(|one| one.backend == backend.name);
        let connected: Vec<&String> = exports.flat_map(|one| one.connections.keys()).collect();
        let comers = || {
            let position = policy.backends.iter().position(|one| one.name == backend.name);
            let reach = policy.reach();
            let positions = position.map_or(&[][..], |position| reach.tenants(position)).to_vec();
            let named = positions.into_iter().map(|index| policy.tenants[index].name.clone());
            named.chain([DEFAULT_TENANT.to_owned()]).collect::<Vec<_>>()
        };
        let present: Vec<String> = match connected.as_slice() {
            [] => comers(),
            some => some.iter().map(|name| (*name).clone()).collect(),
        };
        let lightest = present.into_iter().min_by_key(|name| weight(name));
        let lightest = lightest.expect("the default tenant can come, or somebody is connected");
        Self { weight_milli: weight(&lightest), tenants: vec![lightest] }
    }
}

/// The weights of the two that give them this share together beside so much; none if they cannot
/// be written.
fn weights(beside_milli: u64, share: f64) -> Option<[u32; 2]> {
    let both = beside_milli as f64 * share / (1.0 - share);
    let lesser = (both / f64::from(RATIO + 1)).floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    let lesser = (1.0..=1e8).contains(&lesser).then_some(lesser as u32)?;
    Some([lesser * RATIO, lesser])
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::policy::PROOF_PREFIX;

    use super::*;
    use crate::config;
    use crate::status::{Export as Seen, Server, Tenant as Account, Window};

    const POLICY: &str = "mode = \"enforce\"\nlisten = [\"unix:/gate.sock\"]\n\
        [[backend]]\nname = \"array\"\nupstream = \"nbd://10.0.0.9\"\n\
        [[export]]\nname = \"db\"\n[[export]]\nname = \"backup\"\nsource = \"b\"\n\
        [[tenant]]\nname = \"db\"\nshare = 4\nmatch = { export = \"db\" }\n\
        [[tenant]]\nname = \"backup\"\nmatch = { export = \"backup\" }\n";

    fn status(backlogged: f64) -> Status {
        let account = |name: &str, share, backlogged| Account {
            name: name.to_owned(),
            share,
            window: Window { backlogged, ..Window::default() },
            ..Account::default()
        };
        let servers = vec![Server { name: "array".to_owned(), depth: 20, ..Server::default() }];
        let tenants = vec![account("db", 4.0, backlogged), account("backup", 1.0, backlogged)];
        let domain = Domain { name: "array".to_owned(), tenants, servers, ..Domain::default() };
        let seen = |name: &str, size_bytes, tenants: &[&str]| Seen {
            name: name.to_owned(),
            backend: "array".to_owned(),
            size_bytes,
            connections: tenants.iter().map(|name| ((*name).to_owned(), 1)).collect(),
            ..Seen::default()
        };
        let exports = vec![seen("db", 64 << 20, &["db"]), seen("backup", 128 << 20, &[])];
        Status { domains: vec![domain], exports, ..Status::default() }
    }

    fn target(text: &str, status: &Status) -> Result<Target, NoTarget> {
        let policy = config::parse(text, "p").unwrap_or_else(|found| panic!("{found}"));
        Target::new(&policy, status, &policy.backends[0], 0.05)
    }

    #[test]
    fn the_two_have_the_share_that_was_named_and_three_to_one_of_it() {
        let found = target(POLICY, &status(1.0)).unwrap();
        assert_eq!(found.beside, ["db", "backup"]);
        assert_eq!(found.weights_milli, [195, 65], "5 x 0.05 / 0.95, in quarters");
        assert_eq!((found.outstanding, found.source.as_deref()), (40, Some("b")));
        let status = status(1.0);
        let part = found.part_beside(&waiting(&status.domains[0])).unwrap();
        assert!((0.045..=0.05).contains(&part), "{part}");
    }

    #[test]
    fn while_nobody_waits_the_lightest_of_those_who_are_there_counts() {
        let mut status = status(0.0);
        assert_eq!(target(POLICY, &status).unwrap().beside, ["db"], "it is connected");
        status.exports[0].connections.clear();
        let found = target(POLICY, &status).unwrap();
        assert_eq!(found.weights_milli, [39, 13], "anybody may come: {:?}", found.beside);
    }

    #[test]
    fn the_policy_with_the_two_is_valid_and_lets_them_read_alone() {
        let before = config::parse(POLICY, "p").unwrap();
        let found = target(POLICY, &status(1.0)).unwrap();
        let policy = found.policy(&before, Path::new("/run/evenkeel-prove.sock"));
        assert_eq!(config::parse(&config::print(&policy), "printed"), Ok(policy.clone()));
        let own = |name: &str| name.starts_with(PROOF_PREFIX);
        let exports = policy.exports.iter().filter(|one| own(&one.name));
        let tenants = policy.tenants.iter().filter(|one| own(&one.name));
        assert!(exports.clone().all(|one| one.read_only) && exports.count() == 2);
        assert!(tenants.clone().all(|one| one.read_only) && tenants.count() == 2);
    }

    #[test]
    fn what_cannot_be_put_under_load_says_why() {
        let refused = |from: &str, to: &str| match target(&POLICY.replace(from, to), &status(1.0))
            .unwrap_err()
        {
            NoTarget::Unfit(why) => why,
            NoTarget::Broken(why) => format!("broken: {why}"),
        };
        let upstream = "upstream = \"nbd://10.0.0.9\"\n";
        let fifo = format!("{upstream}discipline = \"fifo\"\n");
        assert!(refused(upstream, &fifo).starts_with("broken: discipline fifo"));
        let mut away = status(1.0);
        away.backends.push(crate::status::Backend {
            name: "array".to_owned(),
            trouble: Some("refused".to_owned()),
            ..crate::status::Backend::default()
        });
        let away = target(POLICY, &away).unwrap_err();
        assert_eq!(away, NoTarget::Unfit("it is away: refused".to_owned()));
        let mut unknown = status(1.0);
        unknown.domains.clear();
        assert!(target(POLICY, &unknown).is_err());
    }

    #[test]
    fn a_share_too_small_to_be_written_is_none() {
        assert_eq!(weights(60, 0.05), None);
        assert_eq!(weights(1000, 0.05), Some([39, 13]));
        assert_eq!(weights(1_000_000_000, 0.5), None);
    }
}
