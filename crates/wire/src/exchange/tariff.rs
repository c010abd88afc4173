//! What requests take of a device, behind the flows of a summary now and then.
//!
//! ```text
//! | kind = 1 | load | read: fixed | bytes/s | write: fixed | bytes/s | flush |
//!     u8      s        ns                       ns                     ns
//! ```
//!
//! Without it nothing follows. Numbers without a width are varints. Whether the figures are
//! plausible is for [`evenkeel_core::control::tariff`] to say.

use evenkeel_core::control::tariff::{Rate, Tariff};
use evenkeel_core::time::Span;

use super::Malformed;
use super::varint::{self, Varints};

/// The kind of what follows.
const KIND: u8 = 1;

/// No tariff takes more bytes.
pub(super) const BYTES_MAX: usize = 1 + varint::BYTES_MAX_32 + 5 * varint::BYTES_MAX_64;

pub(super) fn push(tariff: &Tariff, out: &mut Vec<u8>) {
    let Tariff { load_s, read, write, flush } = tariff;
    out.push(KIND);
    let rates = [read.fixed.0, read.rate_bytes, write.fixed.0, write.rate_bytes];
    varint::push(out, u64::from(*load_s));
    rates.into_iter().chain([flush.0]).for_each(|number| varint::push(out, number));
}

/// What is left of a body: a tariff, or nothing.
pub(super) fn read(fields: &mut Varints<'_>) -> Result<Option<Tariff>, Malformed> {
    let Some((&kind, rest)) = fields.0.split_first() else { return Ok(None) };
    if kind != KIND {
        return Err(Malformed::Trailing);
    }
    fields.0 = rest;
    let load_s = fields.u32("load")?;
    let (read, write) = (rate(fields)?, rate(fields)?);
    let flush = Span(fields.u64("cost of a flush")?);
    Ok(Some(Tariff { load_s, read, write, flush }))
}

fn rate(fields: &mut Varints<'_>) -> Result<Rate, Malformed> {
    let fixed = Span(fields.u64("cost of a request")?);
    Ok(Rate { fixed, rate_bytes: fields.u64("cost of a byte")? })
}
