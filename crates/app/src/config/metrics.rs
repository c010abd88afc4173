//! `[metrics]`: by which names the TCP port of metrics and status may be asked.
//!
//! ```toml
//! [metrics]
//! hosts = ["gate.example"]     # beside `localhost` and every address, which need no mention
//! ```

use evenkeel_engine::policy::Metrics;
use evenkeel_wire::http::Host;
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Diagnostics;
use super::fields::Fields;
use super::raw::Written;
use super::values;

/// The name that every machine has for itself.
pub(crate) const OWN_NAME: Host<'static> = Host::Name("localhost");

pub(super) struct RawMetrics {
    hosts: Written<Vec<Spanned<String>>>,
}

impl RawMetrics {
    pub(super) fn read(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Self> {
        let mut fields = Fields::of("[metrics]", value, out)?;
        let hosts = fields.optional("hosts", values::texts, out);
        fields.finish(out);
        Some(Self { hosts })
    }
}

/// The port as it is meant.
pub(super) fn metrics(raw: Written<RawMetrics>, out: &mut Diagnostics) -> Metrics {
    let written = raw.and_then(|raw| raw.into_inner().hosts);
    let written = written.map_or_else(Vec::new, Spanned::into_inner);
    Metrics { hosts: written.iter().filter_map(|text| host(text, out)).collect() }
}

fn host(written: &Spanned<String>, out: &mut Diagnostics) -> Option<String> {
    let text = written.get_ref();
    match Host::parse(text) {
        Some(host @ Host::Name(name)) if !host.is(OWN_NAME) => return Some(name.to_owned()),
        Some(_) => {
            let message = format!("`{text}` is answered without being listed");
            out.warning(written.span(), message, "remove it; only other names need to be here");
        }
        None => {
            let message = format!("`{text}` is not the name of a host");
            let remedy = "write the name alone, such as `gate.example`: without scheme, port, \
                          path or `*`";
            out.error(written.span(), message, remedy);
        }
    }
    None
}
