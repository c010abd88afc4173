//! What a policy says of some tenants, behind the flows of a summary now and then.
//!
//! ```text
//! | 0x81 | count | tenant | length | name  | kinds | share | target .. | floor .. | limit .. | ..
//!   u8     u8      u32      u8       UTF-8   u8
//!
//!  count:  of tenants, and 128 more if a round through all of them begins
//!  kinds:  that of the target as in a flow, 8 more with a floor, 16 more with a limit
//!  floor:  requests, bytes per second; so is the limit
//! ```
//!
//! Numbers without a width are varints, and the share is in thousandths. A longer name than
//! [`NAME_BYTES_MAX`] is empty here. Nothing is computed from these figures, so that any are as
//! good as others.

use evenkeel_core::control::name::TenantNumber;
use evenkeel_core::control::promise::{NAME_BYTES_MAX, Promise, Rates, TOLD_MAX, Told};

use super::varint::{self, Varints};
use super::{Malformed, decode_target, encode_target, kind};

/// What it begins with: neither a [proof](super::proof) nor [costs](super::array_cost) do.
const MARK: u8 = 0x81;

/// Added to the count where a round begins.
const BEGINS: u8 = 0x80;

const _: () = assert!(TOLD_MAX < BEGINS as usize, "the count has room beside the mark");

/// Added to the kind of a target.
const WITH_FLOOR: u8 = 8;
const WITH_LIMIT: u8 = 16;

/// Of a tenant: its number, its name, three short numbers, its share, a target and four rates.
const PROMISE_BYTES_MAX: usize =
    4 + 1 + NAME_BYTES_MAX + 1 + 2 * varint::BYTES_MAX_32 + 6 * varint::BYTES_MAX_64;

/// No such block takes more bytes.
pub(super) const BYTES_MAX: usize = 2 + TOLD_MAX * PROMISE_BYTES_MAX;

/// # Panics
/// If it tells of no tenant, of more than [`TOLD_MAX`], or of a longer name.
pub(super) fn push(told: &Told, out: &mut Vec<u8>) {
    let count = told.promises.len();
    assert!((1..=TOLD_MAX).contains(&count), "a datagram is bounded");
    out.push(MARK);
    let count = u8::try_from(count).expect("few");
    out.push(count + if told.begins { BEGINS } else { 0 });
    for promise in &told.promises {
        push_promise(promise, out);
    }
}

fn push_promise(promise: &Promise, out: &mut Vec<u8>) {
    let Promise { tenant, name, weight_milli, target, floor, limit } = promise;
    assert!(name.len() <= NAME_BYTES_MAX, "a datagram is bounded");
    out.extend(tenant.0.to_be_bytes());
    out.push(u8::try_from(name.len()).expect("short"));
    out.extend(name.as_bytes());
    let none = Rates::default();
    let kinds = [(floor, WITH_FLOOR), (limit, WITH_LIMIT)];
    let more: u8 = kinds.iter().filter(|(rates, _)| **rates != none).map(|(_, kind)| kind).sum();
    out.push(target.as_ref().map_or(0, kind) + more);
    varint::push(out, u64::from(*weight_milli));
    if let Some(target) = target {
        encode_target(target, out);
    }
    for rates in [floor, limit].into_iter().filter(|rates| **rates != none) {
        varint::push(out, rates.requests);
        varint::push(out, rates.bytes);
    }
}

/// Reads the policy of tenants behind the flows, if it is there.
pub(super) fn read(fields: &mut Varints<'_>) -> Result<Option<Told>, Malformed> {
    match fields.0.split_first() {
        Some((&MARK, rest)) => fields.0 = rest,
        _ => return Ok(None),
    }
    let [first] = fields.fixed()?;
    let count = usize::from(first & !BEGINS);
    if !(1..=TOLD_MAX).contains(&count) {
        return Err(Malformed::Field { name: "number of promises" });
    }
    let promises = (0..count).map(|_| read_promise(fields)).collect::<Result<_, _>>()?;
    Ok(Some(Told { begins: first & BEGINS != 0, promises }))
}

fn read_promise(fields: &mut Varints<'_>) -> Result<Promise, Malformed> {
    let tenant = TenantNumber(u32::from_be_bytes(fields.fixed()?));
    let name = read_name(fields)?;
    let [kinds] = fields.fixed()?;
    let unknown = Malformed::Field { name: "kinds of promises" };
    if kinds >= 2 * WITH_LIMIT {
        return Err(unknown);
    }
    let weight_milli = fields.u32("share")?;
    let target = decode_target(kinds % WITH_FLOOR, fields)?;
    let mut rates = |is_there| if is_there { read_rates(fields) } else { Ok(Rates::default()) };
    let floor = rates(kinds & WITH_FLOOR != 0)?;
    let limit = rates(kinds & WITH_LIMIT != 0)?;
    Ok(Promise { tenant, name, weight_milli, target, floor, limit })
}

/// A name that can be shown: valid, short, and without control characters.
fn read_name(fields: &mut Varints<'_>) -> Result<String, Malformed> {
    let bad = || Malformed::Field { name: "name of a tenant" };
    let [length] = fields.fixed()?.map(usize::from);
    if length > NAME_BYTES_MAX {
        return Err(bad());
    }
    let (name, rest) = fields.0.split_at_checked(length).ok_or(Malformed::Short)?;
    fields.0 = rest;
    let name = str::from_utf8(name).map_err(|_| bad())?;
    if name.chars().any(char::is_control) { Err(bad()) } else { Ok(name.to_owned()) }
}

fn read_rates(fields: &mut Varints<'_>) -> Result<Rates, Malformed> {
    let name = "rate of a promise";
    let rates = Rates { requests: fields.u64(name)?, bytes: fields.u64(name)? };
    // None at all is left out.
    if rates == Rates::default() { Err(Malformed::Field { name }) } else { Ok(rates) }
}
