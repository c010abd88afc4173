//! What requests take of a device, behind the flows of a summary now and then.
//!
//! ```text
//! | 0x80 | load | read: fixed | bytes/s | write: fixed | bytes/s | flush |
//!   u8    s        ns                       ns                     ns
//! ```
//!
//! Numbers without a width are varints. Whether the figures are
//! plausible is for [`evenkeel_core::control::array_cost`] to say.

use evenkeel_core::control::array_cost::{ArrayCost, Rate};
use evenkeel_core::control::challenge::ASKS_MAX;
use evenkeel_core::time::Span;

use super::Malformed;
use super::varint::{self, Varints};

/// What it begins with: more than a [proof](super::proof) begins with, which may follow or be there
/// in its place.
const MARK: u8 = 0x80;

const _: () = assert!(ASKS_MAX < MARK as usize, "the first byte tells which of the two it is");

/// No such block takes more bytes.
pub(super) const BYTES_MAX: usize = 1 + varint::BYTES_MAX_32 + 5 * varint::BYTES_MAX_64;

pub(super) fn push(cost: &ArrayCost, out: &mut Vec<u8>) {
    let ArrayCost { load_s, read, write, flush } = cost;
    out.push(MARK);
    let rates = [read.fixed.0, read.rate_bytes, write.fixed.0, write.rate_bytes];
    varint::push(out, u64::from(*load_s));
    rates.into_iter().chain([flush.0]).for_each(|number| varint::push(out, number));
}

/// The costs behind the flows, if they are there.
pub(super) fn read(fields: &mut Varints<'_>) -> Result<Option<ArrayCost>, Malformed> {
    match fields.0.split_first() {
        Some((&MARK, rest)) => fields.0 = rest,
        _ => return Ok(None),
    }
    let load_s = fields.u32("load")?;
    let (read, write) = (rate(fields)?, rate(fields)?);
    let flush = Span(fields.u64("cost of a flush")?);
    Ok(Some(ArrayCost { load_s, read, write, flush }))
}

fn rate(fields: &mut Varints<'_>) -> Result<Rate, Malformed> {
    let fixed = Span(fields.u64("cost of a request")?);
    Ok(Rate { fixed, rate_bytes: fields.u64("cost of a byte")? })
}
