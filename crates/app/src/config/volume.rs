//! Tiered volumes in the policy file: a backend that is made of others.
//!
//! ```toml
//! [[backend]]
//! name = "volume"
//! tiers = ["hdd", "ssd"]          # backends of this file, the slowest first
//! extent = "1 MiB"
//! moves = "heat"
//! lease = "5 s"                   # with `fence`, `takeover` and `late`: how it passes on
//! ```
//!
//! A tier that is not the whole of its backend is a table:
//! `{ backend = "shelf", device = "lun3", size = "2 TiB" }`. How a tier is queued and what its
//! requests cost is said where the backend is declared; which request goes first is said by the
//! volume, for all its tiers.

use std::ops::Range;

use evenkeel_engine::policy::{Member, Moves, Policy, Tiered};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Diagnostics;
use super::fields::{Fields, mismatch};
use super::places::{Part, Places};
use super::print::{quoted, size};
use super::raw::RawBackend;
use super::{takeover, values};

/// Bytes of an extent that is not given a size.
const EXTENT_DEFAULT: u64 = 1 << 20;

/// The tiers as written: one by one, each with its place.
pub(super) fn tiers(
    value: &Spanned<DeValue<'_>>,
    out: &mut Diagnostics,
) -> Option<Vec<Spanned<Member>>> {
    let DeValue::Array(items) = value.get_ref() else {
        mismatch(value, "a list of backends", "`[\"hdd\", \"ssd\"]`, the slowest first", out);
        return None;
    };
    items.iter().map(|item| Some(Spanned::new(item.span(), member(item, out)?))).collect()
}

/// The servers as written.
pub(super) fn servers(
    value: &Spanned<DeValue<'_>>,
    out: &mut Diagnostics,
) -> Option<Vec<Spanned<Member>>> {
    let DeValue::Array(items) = value.get_ref() else {
        mismatch(value, "a list of backends", "`[\"s1\", \"s2\"]`", out);
        return None;
    };
    items.iter().map(|item| Some(Spanned::new(item.span(), member(item, out)?))).collect()
}

/// `"hdd"`, or a table that says which part of the backend.
fn member(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Member> {
    match value.get_ref() {
        DeValue::String(backend) => {
            Some(Member { backend: backend.to_string(), device: String::new(), size_bytes: None })
        }
        DeValue::Table(_) => {
            let mut fields = Fields::of("a member", value, out)?;
            let backend = fields.required("backend", values::text, out);
            let device = fields.optional("device", values::text, out);
            let size = fields.optional("size", values::size, out);
            fields.finish(out);
            Some(Member {
                backend: backend?.into_inner(),
                device: device.map_or_else(String::new, Spanned::into_inner),
                size_bytes: size.map(Spanned::into_inner),
            })
        }
        _ => {
            let examples = "`\"hdd\"` or `{ backend = \"hdd\", size = \"2 TiB\" }`";
            mismatch(value, "a member of a volume", examples, out);
            None
        }
    }
}

/// What decides where an extent lies.
pub(super) fn moves(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Moves> {
    let choices = [("heat", Moves::ByHeat), ("off", Moves::Off)];
    values::choice(value, "a way of moving extents", &choices, out)
}

/// The word for it.
pub(super) fn moves_name(moves: Moves) -> &'static str {
    match moves {
        Moves::Off => "off",
        Moves::ByHeat => "heat",
    }
}

/// A member as it would be written: one that is all of its backend is the backend's name.
pub(super) fn member_name(member: &Member) -> String {
    if member.device.is_empty() && member.size_bytes.is_none() {
        return quoted(&member.backend);
    }
    let mut keys = vec![format!("backend = {}", quoted(&member.backend))];
    if !member.device.is_empty() {
        keys.push(format!("device = {}", quoted(&member.device)));
    }
    keys.extend(member.size_bytes.map(|bytes| format!("size = {}", size(bytes))));
    format!("{{ {} }}", keys.join(", "))
}

/// The volume that the backend at `index` is.
pub(super) fn volume(
    raw: &mut RawBackend,
    index: usize,
    places: &mut Places,
    out: &mut Diagnostics,
) -> Option<Tiered> {
    let tiers = raw.tiers.take()?.into_inner();
    for (position, tier) in tiers.iter().enumerate() {
        places.note(Part::Member(index), position, "", tier.span());
    }
    Some(Tiered {
        tiers: tiers.into_iter().map(Spanned::into_inner).collect(),
        extent_bytes: raw.extent.take().map_or(EXTENT_DEFAULT, Spanned::into_inner),
        moves: raw.moves.take().map_or_else(Moves::default, Spanned::into_inner),
        takeover: takeover::resolve(raw, out),
    })
}

/// Refuses keys that say how a device is queued: a volume is none.
pub(super) fn misplaced_keys(raw: &RawBackend, out: &mut Diagnostics) {
    let of_devices = [
        ("depth", raw.depth.as_ref().map(Spanned::span)),
        ("hold", raw.hold.as_ref().map(Spanned::span)),
        ("unit", raw.unit.as_ref().map(Spanned::span)),
        ("cost", raw.cost.as_ref().map(Spanned::span)),
        ("capacity", raw.capacity.as_ref().map(Spanned::span)),
    ];
    for (key, span) in of_devices {
        if let Some(span) = span {
            let message = format!("`{key}` on a volume, which is no device");
            out.error(span, message, "write it on each of the backends that it is made of");
        }
    }
}

/// Gives each backend that names no discipline the one that keeps its promises, and each tier that
/// of its volume. `written` has the place of each discipline that is named.
pub(super) fn settle_disciplines(
    policy: &mut Policy,
    written: &[Option<Range<usize>>],
    out: &mut Diagnostics,
) {
    for (index, written) in written.iter().enumerate() {
        let name = &policy.backends[index].name;
        let volume = policy.volume_of(name).filter(|one| one.volume().is_some());
        if let (Some(volume), Some(span)) = (volume, written) {
            let message = format!("a discipline on `{name}`, which is a tier of `{}`", volume.name);
            let remedy =
                "remove it, or write it on the volume: it orders the requests of all tiers";
            out.error(span.clone(), message, remedy);
        }
    }
    policy.settle_disciplines(|backend| written[backend].is_none());
}
