//! A server that has no gate yet: the policy of one that only looks, with each export as a tenant.
//!
//! The server is asked for its exports and left; nothing is read of them. Nobody has seen who uses
//! it, so that there is nothing to forecast: that comes once its clients go through the gate.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use evenkeel_io::load::{self, LoadError, probe};
use evenkeel_wire::nbd::uri::{NbdUri, Transport};
use serde::Serialize;

use crate::config;
use crate::exit::Exit;
use crate::{human, terminal};

/// Each further export is left to the policy's default tenant.
const EXPORTS_MAX: usize = 64;

/// Where the gate listens; where the server has that port, on the next one.
const LISTEN_PORT: u16 = 10809;

/// Of a server.
#[derive(Debug, Serialize)]
struct Report {
    upstream: String,
    exports: Vec<Export>,
    proposal: Proposed,
}

/// What a server says of an export.
#[derive(Debug, Serialize)]
struct Export {
    name: String,
    size_bytes: u64,
    is_read_only: bool,
}

/// The policy.
#[derive(Debug, Serialize)]
struct Proposed {
    text: String,
}

/// Proposes a policy for a gate in front of a server.
pub(super) fn advise(server: &NbdUri, path: Option<&Path>, as_json: bool) -> anyhow::Result<Exit> {
    if server.tls {
        let message = format!(
            "{server} wants TLS, and which certificates the gate is to use has to be in a policy: \
             docs/policy.md shows how an upstream gets them"
        );
        return Err(Exit::Usage.because(message));
    }
    let mut exports = exports(server)?;
    exports.retain(|one| can_be_tenant(server, one));
    let text = policy(server, &exports);
    // What is proposed must be a policy.
    config::parse(&text, "the proposed policy").map_err(|found| Exit::Runtime.because(found))?;
    if let Some(path) = path {
        super::write(path, &text)?;
    }
    if as_json {
        let upstream = server.to_string();
        terminal::json(&Report { upstream, exports, proposal: Proposed { text } })?;
        return Ok(Exit::Success);
    }
    terminal::data(&render(server, &exports, &text))?;
    let file = path.map_or_else(|| "policy.toml".to_owned(), |path| path.display().to_string());
    let write = if path.is_none() { "`--write policy.toml` keeps it; then " } else { "" };
    terminal::say(&format!(
        "{write}`evenkeel serve {file}`, point the clients at the gate instead of at the server, \
         and `evenkeel advise` says what enforcing would bring"
    ));
    Ok(Exit::Success)
}

/// The exports: the one that is named, or those that the server lists.
fn exports(server: &NbdUri) -> anyhow::Result<Vec<Export>> {
    let names = if server.export.is_empty() {
        load::list(server).map_err(unreachable)?
    } else {
        vec![server.export.clone()]
    };
    let mut seen = BTreeSet::new();
    let each = names.into_iter().filter(|name| !name.is_empty() && seen.insert(name.clone()));
    let described = each.take(EXPORTS_MAX).map(|name| {
        let offer = probe(&NbdUri { export: name.clone(), ..server.clone() })?;
        let (size_bytes, is_read_only) = (offer.size_bytes, offer.is_read_only);
        Ok(Export { name, size_bytes, is_read_only })
    });
    described.collect::<Result<_, LoadError>>().map_err(unreachable)
}

/// Whether a policy takes a tenant of that name: some are its own, others hold what nobody can
/// read.
fn can_be_tenant(server: &NbdUri, export: &Export) -> bool {
    config::parse(&policy(server, [export]), "a part of it").is_ok()
}

fn unreachable(error: LoadError) -> anyhow::Error {
    Exit::Unreachable.because(error)
}

/// The policy's text, with what is for people to know beside it.
fn policy<'e>(server: &NbdUri, exports: impl IntoIterator<Item = &'e Export>) -> String {
    let port = match &server.transport {
        Transport::Tcp { port: LISTEN_PORT, .. } => LISTEN_PORT + 1,
        _ => LISTEN_PORT,
    };
    let bare = NbdUri { export: String::new(), ..server.clone() }.to_string();
    let mut text = format!(
        "mode = \"observe\"                      # look first: count and attribute, delay nothing\n\
         listen = [\"127.0.0.1:{port}\"]            # where clients reach the gate\n\n\
         [[backend]]\nname = \"array\"\nupstream = {}\n",
        quoted(&bare)
    );
    if server.export.is_empty() {
        text += "passthrough = true                     # offer whatever the server lists\n";
    } else {
        let name = quoted(&server.export);
        let _ = write!(text, "\n[[export]]\nname = {name}\nbackend = \"array\"\nsource = {name}\n");
    }
    for Export { name, size_bytes, is_read_only } in exports {
        let quoted = quoted(name);
        let size = human::size(*size_bytes as f64);
        let read_only = if *is_read_only { ", read only" } else { "" };
        let _ = write!(
            text,
            "\n[[tenant]]                             # {size}{read_only}\nname = {quoted}\n\
             match = {{ export = {quoted} }}\nshare = 1\n"
        );
    }
    text
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn render(server: &NbdUri, exports: &[Export], policy: &str) -> String {
    let names: Vec<_> = exports
        .iter()
        .map(|export| format!("{} ({})", export.name, human::size(export.size_bytes as f64)))
        .collect();
    let names = if names.is_empty() {
        "no export by name: `evenkeel advise` makes each that is used a tenant later".to_owned()
    } else {
        names.join(", ")
    };
    let mut text = format!("{server} serves {names}\n\nproposed, for a gate that only looks:\n");
    for line in policy.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str) -> Export {
        Export { name: name.to_owned(), size_bytes: 64 << 20, is_read_only: false }
    }

    #[test]
    fn names_that_a_server_makes_up_stay_names() {
        let server: NbdUri = "nbd://10.0.0.5".parse().unwrap();
        let strange = "a\"] # \\u mode = 'enforce'";
        assert!(can_be_tenant(&server, &export(strange)));
        for name in ["a\nmode = \"enforce\"", "\u{7f}"] {
            assert!(!can_be_tenant(&server, &export(name)), "{name}");
        }
        let text = policy(&server, &[export("db"), export(strange)]);
        let policy = config::parse(&text, "a test").unwrap();
        let names: Vec<_> = policy.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        assert_eq!(names, ["db", strange]);
        assert!(text.contains("127.0.0.1:10810"), "the server may be on this machine:\n{text}");
    }
}
