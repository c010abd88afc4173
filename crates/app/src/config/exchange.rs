//! `[exchange]`: with whom the gate shares devices, and `control` of a backend that is shared.
//!
//! ```toml
//! [exchange]
//! name = "site"                          # alike at all gates
//! listen = "10.0.0.1:10900"              # UDP; also what the others call this gate
//! peers = ["10.0.0.2:10900", "10.0.0.3:10900"]    # or `nats` with `own`, in place of the two
//! key = "exchange.key"
//!
//! [[backend]]
//! name = "vault"
//! upstream = "nbd://10.0.1.1"            # the same at all gates, or `array` is
//! control = "automatic"                  # the default
//! ```

use std::ops::Range;
use std::path::{Path, PathBuf};

use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Control, Depth, Exchange, Meeting, Method, Policy};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Diagnostics;
use super::fields::Fields;
use super::places::{Part, Places};
use super::raw::{RawBackend, Written};
use super::values;
use crate::built::Feature;

/// Time between two summaries. Both ways a pair of gates that tell of one tenant each come to less
/// than a kilobyte per second with it.
const PERIOD_DEFAULT: Span = Span::from_millis(200);

pub(super) struct RawExchange {
    name: Spanned<String>,
    own: Written<String>,
    listen: Written<String>,
    peers: Written<Texts>,
    nats: Written<Texts>,
    etcd: Written<Texts>,
    key: Spanned<PathBuf>,
    period: Written<Span>,
    record: Written<PathBuf>,
}

type Texts = Vec<Spanned<String>>;

impl RawExchange {
    pub(super) fn read(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Self> {
        let mut fields = Fields::of("[exchange]", value, out)?;
        let name = fields.required("name", values::text, out);
        let own = fields.optional("own", values::text, out);
        let listen = fields.optional("listen", values::text, out);
        let peers = fields.optional("peers", values::texts, out);
        let nats = fields.optional("nats", values::texts, out);
        let etcd = fields.optional("etcd", values::texts, out);
        let key = fields.required("key", values::path, out);
        let period = fields.optional("period", values::duration, out);
        let record = fields.optional("record", values::path, out);
        fields.finish(out);
        Some(Self { name: name?, own, listen, peers, nats, etcd, key: key?, period, record })
    }

    /// How the gates meet, and what this one is called.
    fn meeting(&mut self, at: Range<usize>, out: &mut Diagnostics) -> Option<(String, Meeting)> {
        let texts = |texts: Texts| texts.into_iter().map(Spanned::into_inner).collect();
        match (self.peers.take(), self.nats.take(), self.etcd.take()) {
            (Some(peers), None, None) => {
                let (own, listen) = self.address(peers.span(), out)?;
                Some((own, Meeting::Listed { listen, peers: texts(peers.into_inner()) }))
            }
            (None, Some(nats), None) => {
                require(Feature::Nats, nats.span(), out);
                if let Some(listen) = &self.listen {
                    let remedy = "remove `listen`";
                    out.error(listen.span(), "words over NATS need no address here", remedy);
                }
                if self.own.is_none() {
                    let remedy = "write `own`, a name that no other gate of the exchange has";
                    out.error(nats.span(), "a gate without a name", remedy);
                }
                let own = self.own.take()?.into_inner();
                Some((own, Meeting::Nats { servers: texts(nats.into_inner()) }))
            }
            (None, None, Some(etcd)) => {
                require(Feature::Etcd, etcd.span(), out);
                let (own, listen) = self.address(etcd.span(), out)?;
                Some((own, Meeting::Etcd { listen, servers: texts(etcd.into_inner()) }))
            }
            (None, None, None) => {
                let remedy = "list `peers`, or name the servers of `nats` or `etcd`";
                out.error(at, "an exchange that meets nobody", remedy);
                None
            }
            (peers, nats, etcd) => {
                let last = etcd.or(nats).or(peers).expect("at least two of them");
                let message = "gates meet in one way: by `peers`, over `nats` or by `etcd`";
                out.error(last.span(), message, "keep one of them");
                None
            }
        }
    }

    /// What the others call this gate, and where it listens.
    fn address(&mut self, at: Range<usize>, out: &mut Diagnostics) -> Option<(String, String)> {
        let Some(listen) = self.listen.take().map(Spanned::into_inner) else {
            let remedy = "write `listen`, the UDP address at which the others reach it";
            out.error(at, "a gate that listens nowhere", remedy);
            return None;
        };
        let own = self.own.take().map_or_else(|| listen.clone(), Spanned::into_inner);
        Some((own, listen))
    }
}

/// Says so if this was built without a feature that the policy asks for.
fn require(feature: Feature, at: Range<usize>, out: &mut Diagnostics) {
    if !feature.is_built() {
        out.error(at, feature.lack(), format!("{}, or list `peers`", feature.remedy()));
    }
}

/// Who decides the slots of a backend, as it is written.
pub(super) fn control(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Control> {
    let methods = Method::ALL.map(|method| (method.name(), Control::By(method)));
    let mut choices = vec![("automatic", Control::Automatic), ("none", Control::Alone)];
    choices.extend(methods);
    values::choice(value, "a controller", &choices, out)
}

/// The same where nothing is written: who chooses a discipline or a depth has chosen how this gate
/// queues, and goes on so.
pub(super) fn usual_control(raw: &RawBackend) -> Control {
    let depth = raw.depth.as_ref().map(|written| *written.get_ref());
    let is_depth_chosen = depth.is_some_and(|depth| depth != Depth::Automatic);
    if raw.discipline.is_some() || is_depth_chosen { Control::Alone } else { Control::Automatic }
}

/// Settles who decides the slots of backends that do not say, once it is known with whom they can
/// be shared. `written` are those that do.
pub(super) fn settle_control(policy: &mut Policy, written: &[bool]) {
    let can_join: Vec<bool> = policy.backends.iter().map(|one| policy.can_join(one)).collect();
    for (index, backend) in policy.backends.iter_mut().enumerate() {
        let scheduling = &mut backend.scheduling;
        if scheduling.is_shared() {
            let method = scheduling.control.method().unwrap_or_default();
            scheduling.control = Control::By(method);
        } else if !can_join[index] && !written[index] {
            scheduling.control = Control::Alone;
        }
    }
}

/// The exchange as it is meant.
pub(super) fn exchange(
    raw: Written<RawExchange>,
    out: &mut Diagnostics,
    places: &mut Places,
) -> Option<Exchange> {
    let raw = raw?;
    let at = raw.span();
    places.note(Part::Exchange, 0, "", at.clone());
    let mut raw = raw.into_inner();
    let span = |written: &Option<Spanned<String>>| written.as_ref().map(Spanned::span);
    let spans = [
        ("name", Some(raw.name.span())),
        ("own", span(&raw.own).or_else(|| span(&raw.listen))),
        ("listen", span(&raw.listen)),
        ("peers", raw.peers.as_ref().map(Spanned::span)),
        ("nats", raw.nats.as_ref().map(Spanned::span)),
        ("etcd", raw.etcd.as_ref().map(Spanned::span)),
        ("key", Some(raw.key.span())),
        ("period", raw.period.as_ref().map(Spanned::span)),
    ];
    places.note_all(Part::Exchange, 0, spans);
    let (own, meeting) = raw.meeting(at, out)?;
    Some(Exchange {
        name: raw.name.into_inner(),
        own,
        meeting,
        key: raw.key.into_inner(),
        period: raw.period.map_or(PERIOD_DEFAULT, Spanned::into_inner),
        record: raw.record.map(Spanned::into_inner),
    })
}

/// What a gate in virtual time leaves out of a policy: the other gates. None if it has none.
pub(crate) fn taken_alone(policy: &Policy) -> Option<String> {
    let backends = policy.shared_backends().map(|(_, backend)| &backend.name);
    let groups = policy.exchanged_groups().map(|(group, _)| &group.name);
    let names: Vec<String> = backends.chain(groups).map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("warning: other gates are left out; taken for this one's alone: {names}")
    })
}

/// The keys of an exchange and their values, as text.
pub(super) fn printed(exchange: &Exchange) -> Vec<(&'static str, String)> {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let path = |path: &Path| quoted(&path.to_string_lossy());
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        format!("[{}]", texts.join(", "))
    };
    let mut keys = vec![("name", quoted(&exchange.name)), ("own", quoted(&exchange.own))];
    match &exchange.meeting {
        Meeting::Listed { listen, peers } => {
            keys.extend([("listen", quoted(listen)), ("peers", list(peers))]);
        }
        Meeting::Nats { servers } => keys.push(("nats", list(servers))),
        Meeting::Etcd { listen, servers } => {
            keys.extend([("listen", quoted(listen)), ("etcd", list(servers))]);
        }
    }
    keys.extend([
        ("key", path(&exchange.key)),
        ("period", quoted(&crate::units::print_duration(exchange.period))),
    ]);
    keys.extend(exchange.record.as_ref().map(|file| ("record", path(file))));
    keys
}
