//! What the unit tests of the schedulers share.

use crate::id::TenantId;
use crate::ticket::{Cost, Kind, Ticket};

/// A 4 KiB read at the cost of one request.
pub(crate) fn ticket(tenant: u32, slot: u32) -> Ticket {
    Ticket {
        tenant: TenantId(tenant),
        kind: Kind::Read,
        slot,
        size_bytes: 4096,
        cost: Cost::ONE,
        cost_elsewhere: Cost(0),
    }
}
