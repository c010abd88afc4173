//! What a gate says when it is ready: where it listens, and lines to paste that connect real
//! clients to it. None of them writes: what is served may be somebody's data.

use std::net::SocketAddr;
use std::path::Path;

use evenkeel_engine::policy::{Address, Policy};

use crate::config::mode_name;
use crate::version;

/// Where the operator finds things.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// The policy file.
    pub(super) policy: &'a Path,
    /// The control socket.
    pub(super) control: &'a Path,
    /// The read-only HTTP address, if there is one.
    pub(super) metrics: Option<SocketAddr>,
    /// Whether `evenkeel top` finds the control socket by itself.
    pub(super) control_is_usual: bool,
}

/// The lines.
pub(super) fn banner(policy: &Policy, places: Places<'_>) -> String {
    let mut text = format!(
        "evenkeel {} is ready: mode {}, policy {}\n\n",
        version::VERSION,
        mode_name(policy.mode),
        places.policy.display(),
    );
    let listeners: Vec<_> =
        policy.listeners.iter().map(|listener| listener.address.clone()).collect();
    for address in &listeners {
        text += &format!("  listening  {}\n", uri(address, ""));
    }
    text += &format!("  control    {}\n", places.control.display());
    if let Some(address) = places.metrics {
        text += &format!("  metrics    http://{address}/metrics\n");
        if !address.ip().is_loopback() && policy.metrics.hosts.is_empty() {
            text +=
                "             by address only; names take `hosts` in `[metrics]` of the policy\n";
        }
    }
    if let (Some(address), Some(export)) = (listeners.first(), policy.exports.first()) {
        text += &connect(&uri(address, &export.name), &export.name);
    }
    text += &look(places);
    text
}

fn connect(uri: &str, export: &str) -> String {
    let file: String = export.chars().filter(char::is_ascii_alphanumeric).collect();
    format!(
        "
Connect to export {export}:
  qemu-img info {uri}
  qemu-io -r -f raw -c 'read -v 0 512' '{uri}'
  qemu-system-x86_64 -m 1G -drive 'file={uri},format=raw,if=virtio'
  fio --name={file} --ioengine=nbd --uri='{uri}' --rw=randread --bs=4k --iodepth=32 --runtime=10
  mkdir -p /tmp/{file} && nbdfuse /tmp/{file} '{uri}' &   # then use /tmp/{file}/nbd
"
    )
}

fn look(places: Places<'_>) -> String {
    let option = if places.control_is_usual {
        String::new()
    } else {
        format!(" --control {}", places.control.display())
    };
    let mut text = format!(
        "
See who uses what, and who waits because of whom:
  evenkeel top{option}
  evenkeel ctl status{option}
"
    );
    if let Some(address) = places.metrics {
        text += &format!("  curl http://{address}/metrics\n");
    }
    text += &format!(
        "
Change shares: edit {}, then
  evenkeel ctl reload{option}
",
        places.policy.display()
    );
    text
}

/// The NBD URI of an export at an address. Wildcard addresses are shown as this host.
fn uri(address: &Address, export: &str) -> String {
    let export = crate::control::client::segment(export);
    match address {
        Address::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
        Address::Tcp(host) => {
            let local = host
                .strip_prefix("0.0.0.0:")
                .or_else(|| host.strip_prefix("[::]:"))
                .map(|port| format!("127.0.0.1:{port}"));
            format!("nbd://{}/{export}", local.as_ref().unwrap_or(host))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_policy;

    #[test]
    fn every_kind_of_client_gets_a_line_to_paste() {
        let places = Places {
            policy: Path::new("./evenkeel-data/policy.toml"),
            control: Path::new("./evenkeel-data/control.sock"),
            metrics: Some("127.0.0.1:9809".parse().unwrap()),
            control_is_usual: true,
        };
        let text = banner(&sample_policy(), places);
        crate::terminal::assert_document("crates/app/testdata/banner.txt", &text);
        for tool in ["qemu-img", "qemu-io", "qemu-system", "fio", "nbdfuse", "curl", "top"] {
            assert!(text.contains(tool), "{tool}");
        }
        assert!(!text.contains("write") && !text.contains("randrw"), "it may be somebody's data");
    }

    #[test]
    fn where_others_can_reach_the_metrics_it_is_said_that_names_have_to_be_listed() {
        let text = |address: &str, hosts: &[&str]| {
            let mut policy = sample_policy();
            policy.metrics.hosts = hosts.iter().map(|&host| host.to_owned()).collect();
            let places = Places {
                policy: Path::new("policy.toml"),
                control: Path::new("control.sock"),
                metrics: Some(address.parse().unwrap()),
                control_is_usual: false,
            };
            banner(&policy, places)
        };
        assert!(text("0.0.0.0:9809", &[]).contains("`hosts` in `[metrics]`"));
        assert!(!text("0.0.0.0:9809", &["gate.example"]).contains("`hosts`"));
        assert!(!text("[::1]:9809", &[]).contains("`hosts`"));
    }

    #[test]
    fn a_wildcard_address_is_shown_as_one_that_can_be_connected_to() {
        let shown = |host: &str| uri(&Address::Tcp(host.to_owned()), "a b");
        assert_eq!(shown("0.0.0.0:10809"), "nbd://127.0.0.1:10809/a%20b");
        assert_eq!(shown("array:1"), "nbd://array:1/a%20b");
    }
}
