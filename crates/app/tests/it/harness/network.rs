//! A small network of namespaces: hosts around a router, over which real kernels speak real TCP.
//!
//! ```text
//! host "a"        10.77.1.2 ---+
//! host "b"        10.77.2.2 ---+ router: forwards, or drops what the test says
//! host "servers"  10.77.3.2 ---+
//! ```
//!
//! A break is made in the router, which drops what comes from a host and what goes to it: the
//! host's kernel sees no lost carrier, it just hears nothing, and sends again until it does. The
//! addresses exist in these namespaces alone, and the namespaces go with the value.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::process::Process;
use super::skip;

/// The start of the names of our namespaces; the id of the process that made them follows.
const PREFIX: &str = "evenkeel-";

/// Drops what comes from and goes to the addresses of two sets: hosts that are away for a while,
/// and hosts that somebody has fenced off.
const RULES: &str = "
table ip router {
  set away { type ipv4_addr; }
  set fenced { type ipv4_addr; }
  chain forward {
    type filter hook forward priority 0;
    ip saddr @away drop
    ip daddr @away drop
    ip saddr @fenced drop
    ip daddr @fenced drop
  }
}
";

/// Why there can be no network here, if there can be none.
pub(crate) fn cannot_network() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".into());
    }
    if let Some(why) = skip::missing(&["ip", "nft", "nsenter"]) {
        return Some(why);
    }
    let error = Network::try_new(&["probe"]).err()?;
    Some(format!("no network namespaces here: {error}"))
}

/// Ends the test, aloud, unless networks can be made here.
macro_rules! needs_network {
    () => {
        if let Some(why) = $crate::harness::network::cannot_network() {
            $crate::harness::skip::tell(&why);
            return;
        }
    };
}
pub(crate) use needs_network;

/// Hosts and the router between them.
pub(crate) struct Network {
    router: Host,
    hosts: Vec<Host>,
}

/// A namespace and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    namespace: String,
    pub(crate) address: Ipv4Addr,
}

impl Network {
    /// One host for each name, at most nine.
    pub(crate) fn new(names: &[&str]) -> Self {
        Self::try_new(names).expect("namespaces were possible a moment ago")
    }

    fn try_new(names: &[&str]) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        remove_what_the_dead_left();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let namespace = |name: &str| format!("{PREFIX}{}-{number}-{name}", std::process::id());
        let host = |(name, subnet): (&&str, u8)| Host {
            namespace: namespace(name),
            address: Ipv4Addr::new(10, 77, subnet, 2),
        };
        let router = Host { namespace: namespace("router"), address: Ipv4Addr::UNSPECIFIED };
        let network = Self { router, hosts: names.iter().zip(1..=9).map(host).collect() };
        network.build().map(|()| network)
    }

    fn build(&self) -> Result<(), String> {
        let router = &self.router.namespace;
        let mut links = vec![format!("netns add {router}\n")];
        let mut router_side = vec!["link set lo up\n".to_owned()];
        for host in &self.hosts {
            let Host { namespace, address } = host;
            let [.., subnet, _] = address.octets();
            let far = format!("peer name eth0 netns {namespace}");
            links.push(format!(
                "netns add {namespace}\nlink add h{subnet} netns {router} type veth {far}\n"
            ));
            router_side.push(format!(
                "addr add 10.77.{subnet}.1/24 dev h{subnet}\nlink set h{subnet} up\n"
            ));
        }
        feed(Command::new("ip").args(["-batch", "-"]), &links.concat())?;
        feed(self.router.command("ip").args(["-batch", "-"]), &router_side.concat())?;
        for host in &self.hosts {
            let [.., subnet, _] = host.address.octets();
            let host_side = format!(
                "addr add {}/24 dev eth0\nlink set lo up\nlink set eth0 up\n\
                 route add default via 10.77.{subnet}.1\n",
                host.address
            );
            feed(host.command("ip").args(["-batch", "-"]), &host_side)?;
        }
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        feed(self.router.command("sh").args(["-c", forward]), "")?;
        feed(self.router.command("nft").args(["-f", "-"]), RULES)
    }

    /// The host of this place in the list that the network was made of.
    pub(crate) fn host(&self, place: usize) -> &Host {
        &self.hosts[place]
    }

    /// From now on the router drops what comes from this host and what goes to it.
    pub(crate) fn cut(&self, host: &Host) {
        self.change("add", host);
    }

    /// It forwards again.
    pub(crate) fn heal(&self, host: &Host) {
        self.change("delete", host);
    }

    /// It forwards what comes from hosts that were fenced off.
    pub(crate) fn plug_in(&self) {
        let mut nft = self.router.command("nft");
        feed(nft.args(["flush", "set", "ip", "router", "fenced"]), "").expect("nft");
    }

    fn change(&self, verb: &str, host: &Host) {
        let element = format!("{{ {} }}", host.address);
        let mut nft = self.router.command("nft");
        feed(nft.args([verb, "element", "ip", "router", "away", &element]), "").expect("nft");
    }

    /// What a shell runs so that the router drops for good what `$address` sends and is sent.
    pub(crate) fn fence_line(&self) -> String {
        let [enter, net, end] = self.router.enter();
        format!("{enter} {net} {end} nft add element ip router fenced \"{{ $address }}\"")
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in self.hosts.iter().chain([&self.router]) {
            remove(&host.namespace);
        }
    }
}

impl Host {
    /// Starts a program on this host; its id is the program's own.
    pub(crate) fn start(&self, folder: &Path, program: &str, arguments: &[&str]) -> Process {
        Process::start_by(&self.enter(), folder, program, arguments)
    }

    /// A further address of this host, at the same link.
    pub(crate) fn add_address(&self, last: u8) -> Ipv4Addr {
        let [a, b, c, _] = self.address.octets();
        let address = Ipv4Addr::new(a, b, c, last);
        let line = ["addr", "add", &format!("{address}/24"), "dev", "eth0"];
        feed(self.command("ip").args(line), "").expect("an address");
        address
    }

    /// Lets this host's TCP try again every second at least, however long nobody has answered,
    /// where the kernel can be told so (Linux 6.15): what a break has held back comes soon after
    /// it, or never.
    pub(crate) fn retry_every_second(&self) {
        let path = "/proc/sys/net/ipv4/tcp_rto_max_ms";
        let line = format!("if [ -e {path} ]; then echo 1000 > {path}; fi");
        feed(self.command("sh").args(["-c", &line]), "").expect("a setting of TCP");
    }

    fn command(&self, program: &str) -> Command {
        let [enter, net, end] = self.enter();
        let mut command = Command::new(enter);
        command.args([&net, &end]).arg(program);
        command
    }

    /// The words before a program's that run it here. nsenter keeps its process id.
    fn enter(&self) -> [String; 3] {
        ["nsenter".into(), format!("--net=/run/netns/{}", self.namespace), "--".into()]
    }
}

/// Runs a command with this input; what it says if it fails.
fn feed(command: &mut Command, input: &str) -> Result<(), String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    let told = |error: std::io::Error| format!("{command:?}: {error}");
    let mut child = child.map_err(told)?;
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(told)?;
    if output.status.success() {
        return written.unwrap_or(Ok(())).map_err(told);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn remove(namespace: &str) {
    // One that was never made, or is gone already, is as good as removed.
    let deleted = Command::new("ip").args(["netns", "delete", namespace]).output();
    drop(deleted);
}

/// Removes namespaces of test processes that were killed before they could.
fn remove_what_the_dead_left() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let id = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let is_dead = |id: &str| !Path::new("/proc").join(id).exists();
        if id.is_some_and(is_dead) {
            remove(&name);
        }
    }
}
