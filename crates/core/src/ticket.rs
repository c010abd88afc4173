//! What a scheduler may see of a request; the payload stays with the driver.

use crate::id::TenantId;

/// What a request does to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Bytes from the device.
    Read,
    /// Bytes to the device.
    Write,
    /// Makes acknowledged writes durable; carries no bytes.
    Flush,
    /// Discards a range.
    Trim,
    /// Asks for a range to be brought into the server's cache.
    Cache,
    /// Writes zeroes without sending them.
    WriteZeroes,
}

impl Kind {
    /// Every kind, in the order of [`Kind::index`].
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Flush, Self::Trim, Self::Cache, Self::WriteZeroes];

    /// A dense index for tables by kind.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name used in metrics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::Cache => "cache",
            Self::WriteZeroes => "write_zeroes",
        }
    }
}

/// Service that a request takes from a device, in nanoseconds of device time.
///
/// Under the cost model "1 per request" every request costs [`Cost::ONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(pub u64);

impl Cost {
    /// The cost of any request under "1 per request": one microsecond of notional device time.
    pub const ONE: Self = Self(1_000);
}

/// One schedulable unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Who asks.
    pub tenant: TenantId,
    /// What for.
    pub kind: Kind,
    /// The owner's handle, unique among live tickets; a scheduler returns it untouched.
    pub slot: u32,
    /// Bytes of the device that the request affects (the effect length of TRIM and `WRITE_ZEROES`).
    pub size_bytes: u64,
    /// Service it takes here.
    pub cost: Cost,
    /// Service that the tenant received at other servers of the domain since its previous request
    /// here, as counted by [`crate::sched::dsfq::Coordinator`]; zero for a domain of one server.
    pub cost_elsewhere: Cost,
}
