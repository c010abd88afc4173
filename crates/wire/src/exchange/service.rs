//! What a gate has served of each tenant, in one datagram
//! ([`evenkeel_core::control::service`]).
//!
//! ```text
//!  0        2         3       4          8        12
//!  | "ES"   | version | count | group    | host   | incarnation | number | period | total .. | tag
//!    u16      u8        u8      u32        u32      varint        varint   varint              16
//!
//!  total: tenant u64, cost varint
//! ```
//!
//! Behind the totals there may be what the gate's policy says of some tenants (`promises`).
//!
//! The group is the number of the name that servers whose shares count together have. Costs are in
//! units of 1,024 of the gate's own, rounded down: since totals are told and not differences,
//! nothing is lost by that.

use evenkeel_core::control::name::{DeviceId, TenantName};
use evenkeel_core::control::promise::Told;
use evenkeel_core::control::service::{Service, TENANTS_MAX};
use evenkeel_core::control::summary::COST_UNIT;
use evenkeel_core::ticket::Cost;

use super::Malformed;
use super::head::Head;
use super::promises;
use super::varint::{self, Varints};

/// What every such datagram begins with.
pub const MAGIC: u16 = u16::from_be_bytes(*b"ES");

/// One datagram without its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceDatagram {
    /// The group that it is about.
    pub group: DeviceId,
    /// What a gate says.
    pub service: Service,
    /// What its policy says of some tenants; it says so now and then.
    pub told: Option<Told>,
}

/// Appends the body of a datagram.
///
/// # Panics
/// If it tells of more than [`TENANTS_MAX`] tenants.
pub fn encode(datagram: &ServiceDatagram, out: &mut Vec<u8>) {
    let Service { host, incarnation, number, period, totals } = &datagram.service;
    assert!(totals.len() <= TENANTS_MAX, "a datagram is bounded");
    let head = Head { count: totals.len(), is_part: false, device: datagram.group, host: *host };
    head.push(MAGIC, out);
    for field in [incarnation, number, period] {
        varint::push(out, *field);
    }
    for (tenant, total) in totals {
        out.extend(tenant.0.to_be_bytes());
        varint::push(out, total.0 / COST_UNIT);
    }
    if let Some(told) = &datagram.told {
        promises::push(told, out);
    }
}

/// A datagram, and what follows its figures.
pub(super) fn figures(body: &[u8]) -> Result<(ServiceDatagram, Varints<'_>), Malformed> {
    let (head, mut fields) = Head::read(body, MAGIC, TENANTS_MAX)?;
    if head.is_part {
        return Err(Malformed::Field { name: "part" });
    }
    let incarnation = fields.u64("incarnation")?;
    let number = fields.u64("number")?;
    let period = fields.u64("period")?;
    let totals = (0..head.count).map(|_| decode_total(&mut fields)).collect::<Result<_, _>>()?;
    let told = promises::read(&mut fields)?;
    let service = Service { host: head.host, incarnation, number, period, totals };
    Ok((ServiceDatagram { group: head.device, service, told }, fields))
}

fn decode_total(fields: &mut Varints<'_>) -> Result<(TenantName, Cost), Malformed> {
    let tenant = fields.fixed()?;
    let units = fields.u64("total")?;
    let total = units.checked_mul(COST_UNIT).ok_or(Malformed::Field { name: "total" })?;
    Ok((TenantName(u64::from_be_bytes(tenant)), Cost(total)))
}
