//! `[exchange]`: with whom the gate shares devices, and `control` of a backend that is shared.
//!
//! ```toml
//! [exchange]
//! name = "site"                          # alike at all gates
//! listen = "10.0.0.1:10900"              # UDP; also what the others call this gate
//! peers = ["10.0.0.2:10900", "10.0.0.3:10900"]
//! key = "exchange.key"
//!
//! [[backend]]
//! name = "array"                         # alike at all gates
//! upstream = "nbd://10.0.1.1"
//! control = "slack"
//! ```

use std::path::{Path, PathBuf};

use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Discipline, Exchange, Method, Policy};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Diagnostics;
use super::fields::Fields;
use super::places::{Part, Places};
use super::raw::Written;
use super::values;

/// Time between two summaries.
const PERIOD_DEFAULT: Span = Span::from_millis(100);

pub(super) struct RawExchange {
    name: Spanned<String>,
    own: Written<String>,
    listen: Spanned<String>,
    peers: Spanned<Vec<Spanned<String>>>,
    key: Spanned<PathBuf>,
    period: Written<Span>,
    record: Written<PathBuf>,
}

impl RawExchange {
    pub(super) fn read(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Self> {
        let mut fields = Fields::of("[exchange]", value, out)?;
        let name = fields.required("name", values::text, out);
        let own = fields.optional("own", values::text, out);
        let listen = fields.required("listen", values::text, out);
        let peers = fields.required("peers", values::texts, out);
        let key = fields.required("key", values::path, out);
        let period = fields.optional("period", values::duration, out);
        let record = fields.optional("record", values::path, out);
        fields.finish(out);
        Some(Self { name: name?, own, listen: listen?, peers: peers?, key: key?, period, record })
    }
}

/// Who decides the slots of a backend.
pub(super) fn control(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Method> {
    let choices = Method::ALL.map(|method| (method.name(), method));
    values::choice(value, "a controller", &choices, out)
}

/// What a backend that is shared without a word on the controller has.
pub(super) fn settle_control(policy: &mut Policy) {
    for backend in &mut policy.backends {
        let scheduling = &mut backend.scheduling;
        if scheduling.discipline == Discipline::Shared {
            scheduling.control.get_or_insert_default();
        }
    }
}

/// The exchange as it is meant.
pub(super) fn exchange(raw: Written<RawExchange>, places: &mut Places) -> Option<Exchange> {
    let raw = raw?;
    places.note(Part::Exchange, 0, "", raw.span());
    let RawExchange { name, own, listen, peers, key, period, record } = raw.into_inner();
    let own_span = own.as_ref().map_or_else(|| listen.span(), Spanned::span);
    let spans = [
        ("name", Some(name.span())),
        ("own", Some(own_span)),
        ("listen", Some(listen.span())),
        ("peers", Some(peers.span())),
        ("key", Some(key.span())),
        ("period", period.as_ref().map(Spanned::span)),
    ];
    places.note_all(Part::Exchange, 0, spans);
    let listen = listen.into_inner();
    Some(Exchange {
        name: name.into_inner(),
        own: own.map_or_else(|| listen.clone(), Spanned::into_inner),
        listen,
        peers: peers.into_inner().into_iter().map(Spanned::into_inner).collect(),
        key: key.into_inner(),
        period: period.map_or(PERIOD_DEFAULT, Spanned::into_inner),
        record: record.map(Spanned::into_inner),
    })
}

/// The keys of an exchange and their values, as text.
pub(super) fn printed(exchange: &Exchange) -> Vec<(&'static str, String)> {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let path = |path: &Path| quoted(&path.to_string_lossy());
    let peers: Vec<String> = exchange.peers.iter().map(|peer| quoted(peer)).collect();
    let mut keys = vec![
        ("name", quoted(&exchange.name)),
        ("own", quoted(&exchange.own)),
        ("listen", quoted(&exchange.listen)),
        ("peers", format!("[{}]", peers.join(", "))),
        ("key", path(&exchange.key)),
        ("period", quoted(&crate::units::print_duration(exchange.period))),
    ];
    keys.extend(exchange.record.as_ref().map(|file| ("record", path(file))));
    keys
}
