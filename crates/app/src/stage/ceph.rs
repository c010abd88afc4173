//! A real Ceph of one machine: a monitor, a manager and small OSDs, on loopback.
//!
//! ```text
//! monmaptool -> ceph-mon --mkfs -> ceph-mon -> ceph-mgr -> per OSD: osd new, --mkfs, ceph-osd
//! ```
//!
//! It is unmodified, and asks nobody for a password unless it is told to. OSDs keep their objects
//! in memory, and report every second rather than every five, so that little is written between two
//! looks.

mod auth;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use evenkeel_core::time::Span;
use evenkeel_io::child::{ChildProcess, Signal};
use evenkeel_io::rados::{Access, Cluster, Pool, Whom};
use serde_json::{Value, json};

use self::auth::ADMIN;
use super::Stage;
use crate::exit::Exit;

/// What to say where Ceph is missing.
pub const CEPH_MISSING: &str = "Ceph is not installed, and the experiment starts one of its own: \
     `apt install --no-install-recommends ceph-mon ceph-mgr ceph-osd` (Debian, Ubuntu; here also \
     `cargo xtask setup`), `dnf install ceph-mon ceph-mgr ceph-osd` (Fedora)";

/// The programs that are started.
const PROGRAMS: [&str; 5] = ["ceph-mon", "ceph-mgr", "ceph-osd", "monmaptool", "ceph-authtool"];

/// How long all of it may take to be up, on a busy machine.
const UP_WITHIN: Duration = Duration::from_mins(4);

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// OSDs that are made at a time; more would only compete.
const MADE_AT_ONCE: usize = 4;

/// How long a request to it may take.
const PATIENCE: Span = Span::from_secs(60);

/// What a cluster is to be like.
#[derive(Clone, Copy, Debug)]
pub struct CephOptions {
    /// How many OSDs.
    pub osds: u32,
    /// Bytes of each.
    pub osd_bytes: u64,
    /// Part of its capacity at which an OSD counts as full.
    pub full_part: f64,
    /// Whether everybody has to prove who they are.
    pub cephx: bool,
    /// Seconds without a word after which an OSD counts as down; 20 is usual.
    pub grace_seconds: u32,
}

/// A running cluster.
#[derive(Debug)]
pub struct CephCluster {
    /// Before the daemons, and so dropped before them: a process whose client shut down while all
    /// its connections broke has ended with SIGSEGV (librados 16.2.15; once, not reproduced).
    cluster: Arc<Cluster>,
    daemons: Running,
    conf: PathBuf,
    folder: PathBuf,
    cephx: bool,
}

/// The daemons of a cluster, killed when dropped.
#[derive(Debug)]
struct Running {
    osds: BTreeMap<u32, ChildProcess>,
    manager: ChildProcess,
    monitor: ChildProcess,
}

/// Makes sure that Ceph is there; the version it tells.
///
/// # Errors
/// [`Exit::Unreachable`], with the way to install it.
pub fn find_ceph() -> anyhow::Result<String> {
    let mut version = String::new();
    for program in PROGRAMS {
        let output = Command::new(program).arg("--version").output();
        let output = output.map_err(|_| Exit::Unreachable.because(CEPH_MISSING))?;
        String::from_utf8_lossy(&output.stdout).trim().clone_into(&mut version);
    }
    Ok(version)
}

impl CephCluster {
    /// Starts one, and waits until all of it is up.
    ///
    /// # Errors
    /// If something does not start; what it said is part of the error.
    pub fn start(stage: &Stage, name: &str, options: &CephOptions) -> anyhow::Result<Self> {
        let folder = stage.path(name);
        for part in ["run", "log", "mon", "mgr"] {
            std::fs::create_dir_all(folder.join(part)).context("cannot write to the stage")?;
        }
        let conf = folder.join("ceph.conf");
        let addresses = free_addresses()?;
        let fsid = fresh_uuid()?;
        std::fs::write(&conf, configuration(&folder, &fsid, &addresses, options))
            .context("cannot write to the stage")?;
        let daemon = Daemons { folder: &folder, conf: &conf };
        let map = folder.join("monmap");
        let mut make = Command::new("monmaptool");
        make.args(["--create", "--fsid", &fsid, "--addv", "a", &addresses]).arg(&map);
        finish("monmaptool", &mut make)?;
        let mut make = daemon.command("ceph-mon", "a");
        make.args(["--mkfs", "--monmap"]).arg(&map);
        if options.cephx {
            make.arg("--keyring").arg(auth::first_keys(&folder)?);
        }
        finish("ceph-mon --mkfs", &mut make)?;
        let monitor = daemon.start("ceph-mon", "a")?;
        let access = Access { patience: PATIENCE, ..access(conf.clone()) };
        let cluster = Cluster::connect(&access)?;
        if options.cephx {
            let caps = ["mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"];
            auth::user(&cluster, "mgr.x", &caps, &folder.join("mgr/keyring"))?;
        }
        let manager = daemon.start("ceph-mgr", "x")?;
        let ids: Vec<u32> = (0..options.osds).collect();
        let osds = daemon.start_osds(&cluster, &ids, options.cephx)?;
        let daemons = Running { osds, manager, monitor };
        let staged = Self { cluster, daemons, conf, folder, cephx: options.cephx };
        staged.wait_until_up()?;
        // It would move groups about while they are counted.
        staged.ask(Whom::Manager, &json!({"prefix": "balancer off"}))?;
        Ok(staged)
    }

    fn wait_until_up(&self) -> anyhow::Result<()> {
        self.wait_until("OSDs are up", || {
            let stat = self.ask(Whom::Monitor, &json!({"prefix": "osd stat"}))?;
            let count = self.daemons.osds.len();
            let up = stat["num_up_osds"].as_u64() == Some(count as u64);
            let uses = self.cluster.osd_uses();
            Ok(up && uses.is_ok_and(|uses| uses.len() == count))
        })
    }

    /// One more OSD; its number. Waits until it is up; data may still be on its way to it.
    ///
    /// # Errors
    /// If it does not start.
    pub fn join(&mut self) -> anyhow::Result<u32> {
        let id = self.daemons.osds.keys().next_back().map_or(0, |last| last + 1);
        let daemon = Daemons { folder: &self.folder, conf: &self.conf };
        self.daemons.osds.extend(daemon.start_osds(&self.cluster, &[id], self.cephx)?);
        self.wait_until_up()?;
        Ok(id)
    }

    /// Makes a user who may do so much, such as `["mon", "profile rbd"]`; the file with its secret.
    ///
    /// # Errors
    /// If the cluster says no.
    pub fn user(&self, name: &str, caps: &[&str]) -> anyhow::Result<PathBuf> {
        let keyring = self.folder.join(format!("{name}.keyring"));
        auth::user(&self.cluster, &format!("client.{name}"), caps, &keyring)?;
        Ok(keyring)
    }

    /// Sends a signal to an OSD; one that ends is forgotten.
    pub fn signal_osd(&mut self, id: u32, signal: Signal) {
        let Some(osd) = self.daemons.osds.get(&id) else { return };
        osd.signal(signal);
        if signal == Signal::KILL {
            self.daemons.osds.remove(&id);
        }
    }

    /// Kills the only manager, and starts another in its place, which knows nothing yet.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart_manager(&mut self) -> anyhow::Result<()> {
        self.daemons.manager.kill();
        let daemon = Daemons { folder: &self.folder, conf: &self.conf };
        self.daemons.manager = daemon.start("ceph-mgr", "x")?;
        Ok(())
    }

    /// Sends a signal to the only monitor.
    pub fn signal_monitor(&self, signal: Signal) {
        self.daemons.monitor.signal(signal);
    }

    /// Makes a pool and waits until all its groups are served.
    ///
    /// # Errors
    /// If the cluster says no.
    pub fn make_pool(&self, name: &str, groups: u32, copies: u32) -> anyhow::Result<Pool> {
        let create = json!({
            "prefix": "osd pool create", "pool": name, "pg_num": groups, "pgp_num": groups,
            "size": copies,
        });
        self.ask(Whom::Monitor, &create)?;
        // A pool of this name may have been deleted before.
        self.cluster.wait_for_latest_map()?;
        let pool = Pool::open(&self.cluster, name)?;
        self.wait_until_served(&pool, groups)?;
        Ok(pool)
    }

    /// Waits until a pool has so many groups, and each is served by as many OSDs as it should be,
    /// with all that belongs on them.
    ///
    /// # Errors
    /// If that takes too long, or nobody answers.
    pub fn wait_until_served(&self, pool: &Pool, groups: u32) -> anyhow::Result<()> {
        let dump = json!({"prefix": "pg dump", "dumpcontents": ["pgs_brief"]});
        let of_pool = format!("{}.", pool.id());
        self.wait_until("groups are served", || {
            let status = self.cluster.pool_status(pool.id())?;
            let is_whole = |set: &Vec<_>| set.len() == status.copies as usize;
            let serving = status.serving();
            let dump = self.ask(Whom::Manager, &dump)?;
            let rows = dump["pg_stats"].as_array().context("the manager tells of groups")?;
            let ours = |row: &&Value| row["pgid"].as_str().unwrap_or("").starts_with(&of_pool);
            let clean = rows.iter().filter(ours).filter(|row| row["state"] == "active+clean");
            let count = groups as usize;
            Ok(serving.len() == count && serving.iter().all(is_whole) && clean.count() == count)
        })
    }

    /// A connection to it.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Its configuration file, by which others find it.
    pub fn conf(&self) -> &std::path::Path {
        &self.conf
    }

    /// Where the cluster itself puts an object: its group, and the OSDs that act for it.
    ///
    /// # Errors
    /// If the monitors do not tell.
    pub fn place_of(&self, pool: &str, object: &str) -> anyhow::Result<Value> {
        self.ask(Whom::Monitor, &json!({"prefix": "osd map", "pool": pool, "object": object}))
    }

    /// Asks monitors or the manager, as the `ceph` command would; the answer.
    ///
    /// # Errors
    /// If nobody answers, or the answer is no.
    pub fn ask(&self, whom: Whom, command: &Value) -> anyhow::Result<Value> {
        let mut command = command.clone();
        command["format"] = "json".into();
        let answer = self.cluster.command(whom, &command.to_string())?;
        if answer.trim_ascii().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).context("the cluster's answer is no JSON")
    }

    /// Waits until something is so.
    ///
    /// # Errors
    /// If it is not after minutes, or cannot be told.
    pub fn wait_until(
        &self,
        what: &str,
        mut is_so: impl FnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + UP_WITHIN;
        while !is_so()? {
            if Instant::now() >= deadline {
                let logs = self.folder.join("log");
                bail!(
                    "Ceph: not so within {UP_WITHIN:?}: {what}; its logs are in {}",
                    logs.display()
                );
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody needs what they hold. An OSD that is asked to end first says goodbye to a monitor,
        // which takes seconds.
        self.osds.values_mut().for_each(ChildProcess::kill);
        self.manager.kill();
        self.monitor.kill();
    }
}

/// How its daemons are started.
struct Daemons<'a> {
    folder: &'a std::path::Path,
    conf: &'a std::path::Path,
}

impl Daemons<'_> {
    fn command(&self, program: &str, id: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.conf).args(["-i", id]);
        command
    }

    fn start(&self, program: &str, id: &str) -> anyhow::Result<ChildProcess> {
        let log = self.folder.join("log").join(format!("{program}.{id}.out"));
        let file = std::fs::File::create(&log).context("cannot write to the stage")?;
        let mut command = self.command(program, id);
        command.arg("-f").stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        ChildProcess::spawn(&mut command).with_context(|| format!("cannot start {program}"))
    }

    fn start_osds(
        &self,
        cluster: &Cluster,
        ids: &[u32],
        cephx: bool,
    ) -> anyhow::Result<BTreeMap<u32, ChildProcess>> {
        let mut running = BTreeMap::new();
        for batch in ids.chunks(MADE_AT_ONCE) {
            let mut making = Vec::new();
            for osd in batch {
                let uuid = fresh_uuid()?;
                let new = json!({"prefix": "osd new", "uuid": &uuid, "id": osd}).to_string();
                cluster.command(Whom::Monitor, &new)?;
                let folder = self.folder.join(format!("osd{osd}"));
                std::fs::create_dir_all(&folder)?;
                if cephx {
                    let caps =
                        ["mon", "allow profile osd", "mgr", "allow profile osd", "osd", "allow *"];
                    let keyring = folder.join("keyring");
                    auth::user(cluster, &format!("osd.{osd}"), &caps, &keyring)?;
                }
                let mut make = self.command("ceph-osd", &osd.to_string());
                make.args(["--mkfs", "--osd-uuid", &uuid]);
                making.push(make.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?);
            }
            for child in making {
                let output = child.wait_with_output()?;
                if !output.status.success() {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    return Err(Exit::Runtime.because(format!("ceph-osd --mkfs failed: {said}")));
                }
            }
            for osd in batch {
                running.insert(*osd, self.start("ceph-osd", &osd.to_string())?);
            }
        }
        Ok(running)
    }
}

/// How a cluster is reached whose configuration says all.
fn access(conf: PathBuf) -> Access {
    Access {
        conf: Some(conf),
        monitors: None,
        user: "admin".to_owned(),
        keyring: None,
        key: None,
        patience: PATIENCE,
    }
}

/// Two addresses of a monitor that nobody uses at the moment, in its own notation.
fn free_addresses() -> anyhow::Result<String> {
    let ports = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let mut text = String::from("[");
    for (version, listener) in ["v2", "v1"].iter().zip(&ports) {
        let comma = if *version == "v1" { "," } else { "" };
        let _ = write!(text, "{comma}{version}:{}", listener.local_addr()?);
    }
    Ok(text + "]")
}

fn fresh_uuid() -> anyhow::Result<String> {
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    Ok(uuid.context("the system makes no random numbers")?.trim().to_owned())
}

/// Runs a program to its end.
fn finish(name: &str, command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Exit::Runtime.because(format!("{name} failed: {}", said.trim())))
}

fn configuration(
    folder: &std::path::Path,
    fsid: &str,
    addresses: &str,
    options: &CephOptions,
) -> String {
    let CephOptions { osd_bytes, full_part, cephx, grace_seconds, .. } = *options;
    let beat = f64::from(grace_seconds) / 4.0;
    let auth = if cephx { "cephx" } else { "none" };
    let root = folder.display();
    // Warnings come in order, below what counts as full; the last is where an OSD protects itself.
    let near = full_part - 0.01;
    let last = full_part + (1.0 - full_part) * 0.75;
    format!(
        "[global]
fsid = {fsid}
mon host = {addresses}
public addr = 127.0.0.1
auth cluster required = {auth}
auth service required = {auth}
auth client required = {auth}
run dir = {root}/run
admin socket = {root}/run/$name.$pid.asok
pid file = {root}/run/$name.pid
log file = {root}/log/$name.log
mon data = {root}/mon
mon data avail warn = 2
mon osd min down reporters = 1
mon osd adjust heartbeat grace = false
mon data avail crit = 1
mon allow pool size one = true
mon allow pool delete = true
mon osd nearfull ratio = {near}
mon osd backfillfull ratio = {near}
mon osd full ratio = {full_part}
mgr data = {root}/mgr
mgr initial modules = balancer
mgr stats period = 1
osd data = {root}/osd$id
osd pool default min size = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd crush initial weight = 1
osd failsafe full ratio = {last}
osd mon report interval = 1
osd heartbeat grace = {grace_seconds}
osd heartbeat interval = {beat}
osd objectstore = memstore
osd memory target = 939524096
osd op num shards = 2
osd class update on start = false
osd max object name len = 256
memstore device bytes = {osd_bytes}

[mgr]
keyring = {root}/mgr/keyring

[osd]
keyring = {root}/osd$id/keyring

[client]
keyring = {root}/{ADMIN}
"
    )
}
