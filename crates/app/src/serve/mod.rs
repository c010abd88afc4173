//! `evenkeel serve`: runs a gate until it is told to stop.
//!
//! ```text
//! policy file --> Gate (data path, its own threads)
//!                   ^ handle
//! this thread: control socket, metrics, signals
//!   SIGHUP          reload the file; a bad one changes nothing
//!   SIGTERM, SIGINT stop taking connections, answer what is in flight, end with 0
//! ```

mod banner;
mod embedded;
mod notes;
mod notify;
mod origin;

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_io::etcd::{Key, Text};
use evenkeel_io::gate::{DriveKind, Gate, Options};
use evenkeel_io::record::Flight;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;

use crate::config::{self, LoadError, Parsed};
use crate::control::change::ModeName;
use crate::control::running::Announced;
use crate::control::socket::ControlSocket;
use crate::control::{self, Control};
use crate::emulate;
use crate::exit::Exit;
use crate::terminal;
use crate::trace::record;
use banner::Places;
use notes::Notes;
use origin::Begin;

/// Where metrics are served unless the command line says otherwise.
const METRICS_DEFAULT: &str = "127.0.0.1:9809";

/// Connections that may wait to be accepted on it. Beyond them a client tries again after a second,
/// so that it is far more than somebody opens while this thread is busy.
const METRICS_BACKLOG: i32 = 1024;

/// The folder of the embedded store unless the command line says otherwise.
pub(crate) const DATA_DEFAULT: &str = "./evenkeel-data";

/// How long requests in flight may take to be answered when the gate stops.
const GRACE: Span = Span::from_secs(10);

/// Arguments of `evenkeel serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel serve                          a store in ./evenkeel-data, two tenants
  evenkeel serve policy.toml
  evenkeel serve policy.toml --mode observe
  evenkeel serve --metrics off --log json 2> evenkeel.log
  evenkeel serve policy.toml --record day.ektrace.zst
  evenkeel serve --policy-from etcd://10.0.0.9:2379/evenkeel/policy

SIGHUP reads the policy file again; SIGTERM and SIGINT stop the gate and end with 0.")]
pub struct Args {
    /// The policy file [default: policy.toml in the data folder, written there at the first start].
    policy: Option<PathBuf>,
    /// Take the policy from a key of etcd, such as `etcd://10.0.0.9:2379/evenkeel/policy`, and
    /// reload when it changes. The policy file is then a copy, for a start while etcd is away.
    #[arg(long, value_name = "URI")]
    policy_from: Option<String>,
    /// Overrides the file's mode, at every reload too.
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// The folder for the embedded store and the control socket.
    #[arg(long, value_name = "DIR", default_value = DATA_DEFAULT)]
    data: PathBuf,
    /// The control socket [default: control.sock in the data folder].
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Where /metrics is served, read only; `off` for nowhere [default: 127.0.0.1:9809, or a free
    /// port if that is taken].
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// Record every request as a trace, in the native format; .gz or .zst packs it. A file that is
    /// there is kept, and the recording takes a free name beside it.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Threads of the data path [default: one per core of the machine].
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroUsize>,
}

/// Runs the subcommand until a signal ends it.
///
/// # Errors
/// A policy that is not valid, an address that is taken, a device that cannot be opened.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mode = args.mode.map(Mode::from);
    let Source { file, policy, elsewhere } = source(args, mode, &runtime)?;
    // Before anybody can reach the gate: a signal that nobody awaits would end it.
    let signals = runtime.block_on(async { Signals::new() })?;
    let socket_path = args.control.clone().unwrap_or_else(|| args.data.join("control.sock"));
    let socket = ControlSocket::bind(&socket_path)?;
    let _announced = Announced::new(&socket_path);
    let metrics = metrics_listener(args.metrics.as_deref())?;
    let metrics_address = metrics.as_ref().map(TcpListener::local_addr).transpose()?;

    let cores = args.cores.or_else(|| std::thread::available_parallelism().ok());
    let cores = cores.map_or(1, NonZeroUsize::get);
    let recorder = args.record.as_deref().map(record::start).transpose()?;
    let options = Options {
        cores,
        drive: DriveKind::default(),
        drive_models: emulate::model,
        recorder: recorder.clone(),
        flight: Some(Flight::start(config::recorded)?),
        state: Some(args.data.clone()),
    };
    let gate = Gate::start(policy.clone(), &options)?;
    let followed =
        elsewhere.map(|(key, begin)| runtime.block_on(async { origin::follow(key, begin, &file) }));
    let (remote, changes) = followed.unzip();
    let control = Control::with_remote(gate.handle(), file.clone(), mode, remote);
    let places = Places {
        policy: &file,
        control: &socket_path,
        metrics: metrics_address,
        control_is_usual: args.control.is_none() && args.data == Path::new(DATA_DEFAULT),
    };
    terminal::say(&banner::banner(&policy, places));

    let notes = Notes::open(args.data.clone());
    let served = runtime.block_on(operate(&control, &socket, metrics, signals, changes, notes));
    // Connections of the control plane hold handles of the gate; they go first. What hangs in the
    // data folder is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(socket);
    gate.stop(GRACE);
    if let Some(recorder) = recorder {
        terminal::say(&record::summary(&recorder.report()));
    }
    served?;
    Ok(Exit::Success)
}

/// Where the policy came from, and what it says.
struct Source {
    file: PathBuf,
    policy: Policy,
    elsewhere: Option<(Key, Begin)>,
}

fn source(args: &Args, mode: Option<Mode>, runtime: &Runtime) -> anyhow::Result<Source> {
    let Some(uri) = &args.policy_from else {
        let file = policy_file(args)?;
        let policy = load(&file, mode)?;
        if args.policy.is_none() {
            embedded::prepare(&args.data, &policy)?;
        }
        return Ok(Source { file, policy, elsewhere: None });
    };
    let key = Key::parse(uri).map_err(|error| Exit::Usage.because(error))?;
    let file = args.policy.clone().unwrap_or_else(|| args.data.join("policy.toml"));
    if args.policy.is_none() {
        make_data_folder(&args.data)?;
    }
    let begin = runtime.block_on(origin::begin(&key, &file, mode))?;
    Ok(Source { file, policy: begin.policy.clone(), elsewhere: Some((key, begin)) })
}

fn make_data_folder(data: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(data)
        .with_context(|| format!("cannot make the data folder {}", data.display()))
}

/// The policy file that is meant. The embedded one is written if it is not there.
fn policy_file(args: &Args) -> anyhow::Result<PathBuf> {
    if let Some(file) = &args.policy {
        return Ok(file.clone());
    }
    let data = &args.data;
    make_data_folder(data)?;
    let file = data.join("policy.toml");
    if !file.exists() {
        embedded::refuse_old_disks(data)?;
    }
    match fs::File::create_new(&file) {
        Ok(mut created) => io::Write::write_all(&mut created, config::DEFAULT.as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).context(format!("cannot write {}", file.display())),
    }
    Ok(file)
}

fn load(file: &Path, mode: Option<Mode>) -> anyhow::Result<Policy> {
    let parsed = config::load(file).map_err(|error| Exit::Invalid.because(error))?;
    accept(parsed, &file.display().to_string(), mode)
}

/// The policy, if it is valid; what was found in it is said.
fn accept(parsed: Parsed, name: &str, mode: Option<Mode>) -> anyhow::Result<Policy> {
    let findings = parsed.diagnostics.render(terminal::colour_on_stderr());
    if !findings.is_empty() {
        terminal::say(findings.trim_end());
    }
    let Some(mut policy) = parsed.policy else {
        let count = parsed.diagnostics.found().len();
        let message = format!("{name} is not valid ({count} findings above)");
        return Err(Exit::Invalid.because(message));
    };
    policy.mode = mode.unwrap_or(policy.mode);
    Ok(policy)
}

/// Binds the address for metrics. The default gives way to whoever has it; a chosen one does not.
fn metrics_listener(chosen: Option<&str>) -> anyhow::Result<Option<TcpListener>> {
    if chosen == Some("off") {
        return Ok(None);
    }
    let text = chosen.unwrap_or(METRICS_DEFAULT);
    let address: SocketAddr = text.parse().map_err(|_| {
        Exit::Usage
            .because(format!("`{text}` is no address: write it like {METRICS_DEFAULT}, or `off`"))
    })?;
    let listener = match TcpListener::bind(address) {
        Ok(listener) => listener,
        Err(error) if chosen.is_none() && error.kind() == io::ErrorKind::AddrInUse => {
            let free = TcpListener::bind(SocketAddr::new(address.ip(), 0))?;
            terminal::say(&format!("{address} is taken; metrics are at {}", free.local_addr()?));
            free
        }
        Err(error) => {
            let message = format!(
                "cannot serve metrics at {address}: {error}; choose another address with \
                 `--metrics`, or `--metrics off`"
            );
            return Err(Exit::Runtime.because(message));
        }
    };
    rustix::net::listen(&listener, METRICS_BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}

/// The signals that a gate obeys.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// Serves the control plane and obeys signals until one of them ends the gate.
async fn operate(
    control: &Arc<Control>,
    socket: &ControlSocket,
    metrics: Option<TcpListener>,
    mut signals: Signals,
    mut changes: Option<UnboundedReceiver<Text>>,
    mut notes: Notes,
) -> anyhow::Result<()> {
    let operator = control::operator(Arc::clone(control));
    tokio::spawn(control::serve_operator(socket.listener()?, operator));
    if let Some(listener) = metrics {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::spawn(control::serve_public(listener, control::public(Arc::clone(control))));
    }
    tell("READY=1");
    let mut minutes = tokio::time::interval(notes::EVERY);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = minutes.tick() => notes.keep(control.gate()).await,
            _ = signals.hangup.recv() => reload(control).await,
            Some(text) = next(changes.as_mut()) => {
                if control.remote().is_some_and(|remote| origin::take(text, remote)) {
                    reload(control).await;
                }
            }
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
        }
    }
    notes.keep(control.gate()).await;
    tracing::info!("stopping: answering what is in flight");
    tell("STOPPING=1");
    Ok(())
}

/// The next change of a policy that lies elsewhere; none comes of one that does not.
async fn next(changes: Option<&mut UnboundedReceiver<Text>>) -> Option<Text> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

async fn reload(control: &Control) {
    match control.reload().await {
        Ok(found) if found.found().is_empty() => tracing::info!("policy reloaded"),
        Ok(found) => tracing::warn!("policy reloaded, with warnings:\n{found}"),
        Err(control::ApplyError::Load(LoadError::Invalid(found))) => {
            tracing::error!("policy not reloaded, the old one stays:\n{found}");
        }
        Err(error) => tracing::error!("policy not reloaded, the old one stays: {error}"),
    }
}

fn tell(state: &str) {
    if let Err(error) = notify::notify(state) {
        tracing::warn!("cannot tell the service manager {state}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_metrics_address_is_refused_only_if_it_was_chosen() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = metrics_listener(Some(&address)).unwrap_err().to_string();
        assert!(error.contains("--metrics"), "{error}");
        assert!(metrics_listener(Some("off")).unwrap().is_none());
        assert_eq!(Exit::of(&metrics_listener(Some("9809")).unwrap_err()), Exit::Usage);
        assert!(metrics_listener(None).unwrap().is_some());
    }
}
