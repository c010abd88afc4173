//! Spread volumes in the policy file: a backend over others, each object of it on the one that was
//! chosen.
//!
//! ```toml
//! [[backend]]
//! name = "pool"
//! choices = ["s1", "s2", "s3", "s4"]   # backends of this file
//! leaving = ["s2"]                     # objects are moved off it
//! prefer = ["local"]                   # what makes a server the better one
//! near = ["s1"]
//! object = "4 MiB"
//! size = "10 TiB"                      # nine tenths of the room if left out
//! candidates = 2
//! ceiling = 0.93
//! ```
//!
//! A server of which only a part is used is a table, as a tier is. What its host tells of memory
//! and processors is a page that the server's backend names:
//! `metrics = "http://10.0.0.21:9100/metrics"`.

use evenkeel_core::place::choose::CEILING;
use evenkeel_engine::policy::{Address, MetricsPage, Preference, Spread};
use evenkeel_engine::spread::Shape;
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Diagnostics;
use super::fields::mismatch;
use super::places::{Part, Places};
use super::print::{Text, quoted, size};
use super::raw::RawBackend;
use super::volume::member_name;
use super::{takeover, values};

/// Bytes of an object that is not given a size.
pub(super) const OBJECT_DEFAULT: u64 = 4 << 20;
/// What objects prefer if nothing is said.
const PREFER_DEFAULT: [Preference; 1] = [Preference::Space];
/// Candidates of each object if none are said.
pub(super) const CANDIDATES_DEFAULT: u32 = 2;

/// The volume that the backend at `index` is.
pub(super) fn volume(
    raw: &mut RawBackend,
    index: usize,
    places: &mut Places,
    out: &mut Diagnostics,
) -> Option<Spread> {
    let servers = raw.choices.take()?.into_inner();
    let takeover = takeover::resolve(raw, out);
    for (position, server) in servers.iter().enumerate() {
        places.note(Part::Member(index), position, "", server.span());
    }
    let leaving = raw.leaving.take().map_or_else(Vec::new, Spanned::into_inner);
    let near = raw.near.take().map_or_else(Vec::new, Spanned::into_inner);
    let prefer = raw.prefer.take().map_or_else(|| PREFER_DEFAULT.into(), Spanned::into_inner);
    let candidates = raw.candidates.take().map_or(CANDIDATES_DEFAULT, Spanned::into_inner);
    Some(Spread {
        servers: servers.into_iter().map(Spanned::into_inner).collect(),
        leaving: leaving.into_iter().map(Spanned::into_inner).collect(),
        prefer,
        near: near.into_iter().map(Spanned::into_inner).collect(),
        shape: Shape {
            object_bytes: raw.object.take().map_or(OBJECT_DEFAULT, Spanned::into_inner),
            size_bytes: raw.size.take().map(Spanned::into_inner),
            candidates: usize::try_from(candidates).unwrap_or(usize::MAX),
        },
        ceiling_milli: raw.ceiling.take().map_or_else(ceiling_default, Spanned::into_inner),
        takeover,
    })
}

/// What objects prefer, as written.
pub(super) fn preferences(
    value: &Spanned<DeValue<'_>>,
    out: &mut Diagnostics,
) -> Option<Vec<Preference>> {
    let DeValue::Array(items) = value.get_ref() else {
        mismatch(value, "a list of preferences", "`[\"local\", \"space\"]`", out);
        return None;
    };
    items.iter().map(|item| preference(item, out)).collect()
}

fn preference(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Preference> {
    if matches!(value.get_ref(), DeValue::String(word) if word == "journal") {
        let message = "no NBD server tells how much of its journal is not yet flushed";
        out.error(value.span(), message, "prefer `latency`, which a long journal shows in");
        return None;
    }
    let choices = Preference::ALL.map(|preference| (preference.name(), preference));
    values::choice(value, "a preference", &choices, out)
}

/// A page with the figures of a host.
pub(super) fn metrics(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<MetricsPage> {
    let written = values::text(value, out)?;
    let page = written.strip_prefix("http://").and_then(|rest| {
        let (address, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
        let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
        let address = if address.contains(':') { address.into() } else { format!("{address}:80") };
        match values::parse_address(&address)? {
            Address::Tcp(address) if is_plain => {
                Some(MetricsPage { address, path: format!("/{path}") })
            }
            _ => None,
        }
    });
    if page.is_none() {
        let remedy = "write it like `http://10.0.0.21:9100/metrics`";
        out.error(value.span(), "this is no page over HTTP", remedy);
    }
    page
}

/// In thousandths.
pub(super) fn ceiling_default() -> u32 {
    // Rounded: 0.93 is no binary fraction.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "930")]
    let milli = (CEILING * 1000.0).round() as u32;
    milli
}

/// Refuses what only the servers can be told.
pub(super) fn misplaced_keys(raw: &RawBackend, out: &mut Diagnostics) {
    super::volume::misplaced_keys(raw, out);
    if let Some(discipline) = &raw.discipline {
        let message = "`discipline` on a spread volume, whose servers order their own requests";
        out.error(discipline.span(), message, "write it on each of the servers");
    }
}

/// The keys as they would be written.
pub(super) fn print(volume: &Spread, text: &mut Text) {
    let servers: Vec<_> = volume.servers.iter().map(member_name).collect();
    text.key("choices", format!("[{}]", servers.join(", ")));
    let list = |names: Vec<String>| format!("[{}]", names.join(", "));
    if !volume.leaving.is_empty() {
        text.key("leaving", list(volume.leaving.iter().map(|name| quoted(name)).collect()));
    }
    let prefer = volume.prefer.iter().map(|preference| quoted(preference.name()));
    text.key("prefer", list(prefer.collect()));
    if !volume.near.is_empty() {
        text.key("near", list(volume.near.iter().map(|name| quoted(name)).collect()));
    }
    text.key("object", size(volume.shape.object_bytes));
    if let Some(bytes) = volume.shape.size_bytes {
        text.key("size", size(bytes));
    }
    text.key("candidates", volume.shape.candidates.to_string());
    let (whole, part) = (volume.ceiling_milli / 1000, volume.ceiling_milli % 1000);
    text.key("ceiling", format!("{whole}.{part:03}"));
    takeover::print(&volume.takeover, text);
}
