//! Names as numbers: what gates call each other, and the device that they share, in a few bytes.
//!
//! Every host makes a name's number alike, whatever its list of peers: no host hands numbers out,
//! and whoever comes or goes changes nobody else's. The number is the FNV-1a hash of the name
//! (Fowler, Noll and Vo, 1991), 32 bits of it for hosts and devices. Two of those may get the same
//! number, one pair of a hundred names in a million lists; whoever lists names has to look, and one
//! of the two is then renamed.

use super::summary::HostId;
use super::sums::RESERVED;

/// A device that hosts share, as the number of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// A tenant, as the number of its name before a device that hosts share. Of a thousand names two
/// have the same number with one list in ten thousand; then the two are taken for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantNumber(pub u32);

/// A tenant, as the number of its name: gates count their tenants each in an order of its own. 64
/// bits, since nobody has a list of all tenants of all gates to look for two alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantName(pub u64);

const OFFSET_BASIS: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;
const OFFSET_BASIS_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;

fn fnv1a(hash: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

impl HostId {
    /// The host of this name. The greatest numbers are those of sums ([`super::sums`]); a name
    /// that would have one of them has one a little smaller.
    pub fn named(name: &str) -> Self {
        let hash = fnv1a(OFFSET_BASIS, name.as_bytes());
        Self(if hash > u32::MAX - RESERVED { hash - RESERVED } else { hash })
    }
}

impl DeviceId {
    /// The device of this name, in the exchange of that name.
    pub fn named(exchange: &str, device: &str) -> Self {
        // No text has this byte, so that no other pair of names reads the same.
        let hash = fnv1a(fnv1a(OFFSET_BASIS, exchange.as_bytes()), &[0xff]);
        Self(fnv1a(hash, device.as_bytes()))
    }
}

impl TenantNumber {
    /// Several tenants of one host, told of as one.
    pub const SEVERAL: Self = Self(0);

    /// The tenant of this name.
    pub fn named(name: &str) -> Self {
        Self(fnv1a(OFFSET_BASIS, name.as_bytes()).max(1))
    }
}

impl TenantName {
    /// The tenant of this name.
    pub fn named(name: &str) -> Self {
        let next = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME_64);
        Self(name.bytes().fold(OFFSET_BASIS_64, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_hash() {
        assert_eq!(HostId::named(""), HostId(0x811c_9dc5));
        assert_eq!(HostId::named("a"), HostId(0xe40c_292c));
        assert_eq!(HostId::named("foobar"), HostId(0xbf9c_f968));
        assert_eq!(TenantName::named("a"), TenantName(0xaf63_dc4c_8601_ec8c));
        assert_eq!(TenantName::named("foobar"), TenantName(0x8594_4171_f739_67e8));
    }

    #[test]
    fn the_border_between_exchange_and_device_counts() {
        assert_ne!(DeviceId::named("site", "array"), DeviceId::named("sitea", "rray"));
        assert_ne!(DeviceId::named("one", "array"), DeviceId::named("two", "array"));
    }
}
