//! Whose connection is it: from what a client shows to a tenant.
//!
//! A tenant lists what its connections look like. Of all tenants with a match that fits, the
//! strongest kind of identity wins, for a client proves a TLS name, chooses an export, and merely
//! comes from an address:
//!
//! ```text
//! TLS name  >  export  >  listener  >  peer address          the kind first,
//! "db-7"    >  "db-*"  >  "*"       /24  >  /8               then the more specific pattern,
//! the tenant that the policy names first                     then the order of the file
//! ```
//!
//! Addresses are compared as 128-bit numbers, IPv4 in its IPv4-mapped place (`::ffff:a.b.c.d`), so
//! that a client of a dual-stack socket is the same client. `10.0.0.0/8` is thus a prefix of 104
//! bits, and `::/0` holds every address there is.

use std::net::IpAddr;

use super::{Match, Tenant};

/// What a connection shows of itself once its export is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity<'a> {
    /// Names in the client's certificate, verified; empty without mutual TLS.
    pub tls_names: &'a [String],
    /// The export's name.
    pub export: &'a str,
    /// The listener's name.
    pub listener: &'a str,
    /// The client's address; none on a unix socket.
    pub peer: Option<IpAddr>,
}

/// The tenant that a connection belongs to, as an index; none if no tenant's match fits, and the
/// connection is the [default tenant's](super::DEFAULT_TENANT). O(matches).
pub fn identify(tenants: &[Tenant], identity: &Identity<'_>) -> Option<usize> {
    identify_by(tenants, identity, |_| true)
}

/// The same by some of the matches alone.
pub(super) fn identify_by(
    tenants: &[Tenant],
    identity: &Identity<'_>,
    counts: impl Fn(&Match) -> bool,
) -> Option<usize> {
    let mut best: Option<(Strength, usize)> = None;
    for (index, tenant) in tenants.iter().enumerate() {
        let counted = tenant.matches.iter().filter(|one| counts(one));
        let strongest = counted.filter_map(|one| strength(one, identity)).max();
        if let Some(strength) = strongest
            && best.is_none_or(|(so_far, _)| strength > so_far)
        {
            best = Some((strength, index));
        }
    }
    best.map(|(_, index)| index)
}

/// How much a fitting match says; compared in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Strength {
    kind: u8,
    /// The pattern has no wildcard.
    is_exact: bool,
    /// Characters or address bits that are fixed.
    fixed: usize,
}

fn strength(one: &Match, identity: &Identity<'_>) -> Option<Strength> {
    match one {
        Match::TlsName(pattern) => {
            // Host names have no case, and certificates are inconsistent about it.
            let pattern = pattern.to_ascii_lowercase();
            let mut names = identity.tls_names.iter();
            let fits = names.any(|name| fits(&pattern, &name.to_ascii_lowercase()));
            fits.then(|| pattern_strength(4, &pattern))
        }
        Match::Export(pattern) => {
            fits(pattern, identity.export).then(|| pattern_strength(3, pattern))
        }
        Match::Listener(name) => {
            (name == identity.listener).then_some(Strength { kind: 2, is_exact: true, fixed: 0 })
        }
        Match::Peer { network, prefix } => {
            let network = Network::new(*network, *prefix);
            let fits = identity.peer.is_some_and(|peer| network.holds(peer));
            fits.then_some(Strength { kind: 1, is_exact: true, fixed: network.prefix as usize })
        }
    }
}

fn pattern_strength(kind: u8, pattern: &str) -> Strength {
    let fixed = pattern.chars().filter(|&c| c != '*').count();
    Strength { kind, is_exact: !pattern.contains('*'), fixed }
}

/// Whether `text` has the form of `pattern`, in which `*` stands for any run of characters, the
/// empty one included. O(pattern * text) at worst.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star turns out not to fit: the star eats one more.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after_star, eaten)) = retry {
            p = after_star;
            t = eaten + 1;
            retry = Some((after_star, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// A network in the common 128-bit address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    bits: u128,
    /// Leading bits that count, 0 to 128.
    pub(crate) prefix: u32,
}

impl Network {
    /// The network of `prefix` bits around an address, whose further bits are ignored. A prefix
    /// longer than the address stands for the address itself.
    pub(crate) fn new(address: IpAddr, prefix: u8) -> Self {
        let prefix = match address {
            IpAddr::V4(_) => 96 + u32::from(prefix.min(32)),
            IpAddr::V6(_) => u32::from(prefix.min(128)),
        };
        Self { bits: address_bits(address) & mask(prefix), prefix }
    }

    /// Whether an address lies in it.
    pub(crate) fn holds(self, address: IpAddr) -> bool {
        address_bits(address) & mask(self.prefix) == self.bits
    }

    /// Its first address.
    pub(crate) fn address(self) -> IpAddr {
        IpAddr::V6(self.bits.into())
    }

    /// Whether the address that it was written with has bits beyond the prefix.
    pub(crate) fn cuts(self, address: IpAddr) -> bool {
        address_bits(address) != self.bits
    }
}

fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The first `prefix` of 128 bits. A shift by all 128 bits has no value, hence the care.
fn mask(prefix: u32) -> u128 {
    u128::MAX.checked_shl(128 - prefix).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::sched::Share;

    use super::*;

    fn tenant(matches: Vec<Match>) -> Tenant {
        Tenant { name: String::new(), matches, read_only: false, share: Share::default() }
    }

    fn peer(network: &str, prefix: u8) -> Match {
        Match::Peer { network: network.parse().unwrap(), prefix }
    }

    fn from(address: &str) -> Identity<'static> {
        Identity { peer: Some(address.parse().unwrap()), export: "disk", ..Identity::default() }
    }

    #[test]
    fn the_strongest_kind_of_identity_wins_whatever_the_order() {
        let names = vec!["DB.example".to_string()];
        let identity = Identity { tls_names: &names, listener: "lan", ..from("10.1.2.3") };
        let by_strength = [
            Match::TlsName("db.*".into()),
            Match::Export("disk".into()),
            Match::Listener("lan".into()),
            peer("10.1.2.3", 32),
        ];
        for strongest in 0..by_strength.len() {
            let mut tenants: Vec<_> =
                by_strength[strongest..].iter().map(|one| tenant(vec![one.clone()])).collect();
            assert_eq!(identify(&tenants, &identity), Some(0));
            tenants.reverse();
            assert_eq!(identify(&tenants, &identity), Some(tenants.len() - 1));
        }
    }

    #[test]
    fn the_more_specific_pattern_wins_and_the_first_of_equals() {
        let patterns = ["*", "d*", "di*k", "disk", "disk"];
        let tenants = patterns.map(|pattern| tenant(vec![Match::Export(pattern.into())]));
        assert_eq!(identify(&tenants, &from("::1")), Some(3));
        assert_eq!(identify(&tenants[..3], &from("::1")), Some(2));
        let networks = [peer("10.0.0.0", 8), peer("10.1.0.0", 16), peer("::", 0)];
        let tenants = networks.map(|one| tenant(vec![one]));
        assert_eq!(identify(&tenants, &from("10.1.9.9")), Some(1));
        assert_eq!(identify(&tenants, &from("2001:db8::1")), Some(2));
        assert_eq!(identify(&tenants[..2], &from("11.1.9.9")), None, "the default tenant's");
    }

    #[test]
    fn a_mapped_address_is_the_same_client() {
        let tenants = [tenant(vec![peer("10.0.0.0", 8)])];
        assert_eq!(identify(&tenants, &from("::ffff:10.9.9.9")), Some(0));
        assert_eq!(identify(&tenants, &from("::10.9.9.9")), None, "compatible is not mapped");
        let tenants = [tenant(vec![peer("::ffff:10.0.0.0", 104)])];
        assert_eq!(identify(&tenants, &from("10.255.0.1")), Some(0));
        assert_eq!(identify(&tenants, &from("11.0.0.1")), None);
    }

    #[test]
    fn a_prefix_of_no_bits_and_of_all_bits() {
        assert!(Network::new("::".parse().unwrap(), 0).holds("255.255.255.255".parse().unwrap()));
        let any_v4 = Network::new("0.0.0.0".parse().unwrap(), 0);
        assert!(any_v4.holds("8.8.8.8".parse().unwrap()));
        assert!(!any_v4.holds("2001:db8::1".parse().unwrap()));
        let one = Network::new("fe80::1".parse().unwrap(), 128);
        assert!(one.holds("fe80::1".parse().unwrap()) && !one.holds("fe80::2".parse().unwrap()));
    }
}
