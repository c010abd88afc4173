//! `evenkeel prove --load`: two tenants of its own put the shares to the test, within a share that
//! is named beforehand.
//!
//! ```text
//! look --> policy with the two, on trial --> they read, one watches --> policy before --> judge
//!              |                                 |
//!              `- ends by itself, whatever       `- until 10 s are over, a goal is late,
//!                 becomes of this process           or Ctrl-C
//! ```
//!
//! They read, and never write: their exports are read-only, and so are they. They come by a socket
//! of their own beside the gate's control socket, which is there as long as the trial.

mod drive;
mod target;
mod verdict;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use anyhow::Context;
use evenkeel_engine::policy::{Export, PROOF_PREFIX, Policy};
use evenkeel_io::load::{LoadError, probe};
use evenkeel_wire::nbd::uri::{NbdUri, Transport};
use hyper::Method;
use serde::Serialize;

use super::judge::{self, Row, Verdict};
use super::{INTERVAL, WITH_BUCKETS};
use crate::config;
use crate::control::client::Client;
use crate::control::trial::TrialSpec;
use crate::ctl::block_on;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::status::Status;
use crate::{human, terminal};
use drive::{Ended, LENGTH, Load, Measured};
use target::{NAMES, NoTarget, REQUEST_BYTES, Target};

/// How much longer than the load its policy stays in force at most.
const GRACE_SECONDS: f64 = 5.0;

/// Looks before the load: who waits, and whether a goal is late already.
const LOOKS_BEFORE: usize = 3;

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The part of a device that the two may have beside others, above 0 and below 1.
    pub(super) share: f64,
    /// The only backend to put under load.
    pub(super) backend: Option<String>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Proof {
    pub(super) rows: Vec<Row>,
    pub(super) loads: Vec<Loaded>,
    pub(super) watched_seconds: f64,
    pub(super) is_interrupted: bool,
}

/// What became of one backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Loaded {
    pub(super) backend: String,
    /// Whether anything was read.
    pub(super) was_read: bool,
    /// Why not, or why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// The part of the device that was named.
    pub(super) share: f64,
    /// Beside whom the weights of the two make that share.
    pub(super) beside: Vec<String>,
    /// Their weights.
    pub(super) weights: Vec<f64>,
    /// Requests that each kept under way.
    pub(super) outstanding: u32,
    /// Their answers, in so many seconds.
    pub(super) answers: Vec<u64>,
    pub(super) measured_seconds: f64,
}

/// Puts one backend after the other under load.
///
/// # Errors
/// A gate that does not answer or holds nobody to anything, a policy on trial, or nothing that can
/// be put under load.
pub(super) fn prove(client: &Client, wish: &Wish) -> anyhow::Result<Proof> {
    let interrupt = Interrupt::watch()?;
    let policy = super::policy(client)?;
    refuse(&policy, &block_on(client.get("/v1/status"))?)?;
    let is_meant = |name: &str| wish.backend.as_ref().is_none_or(|one| one == name);
    let backends: Vec<_> = policy.backends.iter().filter(|one| is_meant(&one.name)).collect();
    if let (Some(name), true) = (&wish.backend, backends.is_empty()) {
        let names: Vec<_> = policy.backends.iter().map(|one| one.name.as_str()).collect();
        let names = names.join(", ");
        return Err(Exit::Usage.because(format!("there is no backend `{name}`: choose of {names}")));
    }
    let mut proof =
        Proof { rows: Vec::new(), loads: Vec::new(), watched_seconds: 0.0, is_interrupted: false };
    for backend in backends {
        let documents = look(client, &interrupt)?;
        if interrupt.is_set() {
            proof.is_interrupted = true;
            break;
        }
        let latest = documents.last().expect("there are some");
        match Target::new(&policy, latest, backend, wish.share) {
            Ok(target) => {
                let session = Session { client, policy: &policy, interrupt: &interrupt };
                session.add(&mut proof, &target, wish.share, &documents)?;
            }
            Err(no) => proof.add_without(&backend.name, no),
        }
    }
    let is_nothing = proof.rows.is_empty() && !proof.is_interrupted;
    if is_nothing {
        let why = proof
            .loads
            .iter()
            .filter_map(|one| Some(format!("\n  {}: {}", one.backend, one.why.as_ref()?)));
        let why: String = why.collect();
        return Err(Exit::Failed.because(format!("no backend could be put under load:{why}")));
    }
    Ok(proof)
}

/// What makes it pointless, or dangerous.
fn refuse(policy: &Policy, status: &Status) -> anyhow::Result<()> {
    if status.mode != "enforce" {
        return Err(Exit::Failed.because(format!(
            "mode {} holds nobody to anything, so that no load is put on: `evenkeel ctl mode \
             enforce` does",
            status.mode
        )));
    }
    if let Some(left) = status.trial_left_seconds {
        return Err(Exit::Runtime.because(format!(
            "a policy is on trial for another {left:.0} s: `evenkeel ctl confirm` keeps it, \
             `evenkeel ctl revert` takes it back; then prove"
        )));
    }
    let listeners = policy.listeners.iter().map(|one| &one.name);
    let exports = policy.exports.iter().map(|one| &one.name);
    let mut names = listeners.chain(exports).chain(policy.tenants.iter().map(|one| &one.name));
    match names.find(|name| name.starts_with(PROOF_PREFIX)) {
        Some(name) => Err(Exit::Invalid.because(format!(
            "the policy has `{name}`, and names with {PROOF_PREFIX} are for `prove --load`: \
             rename it"
        ))),
        None => Ok(()),
    }
}

/// What the gate says over two seconds.
fn look(client: &Client, interrupt: &Interrupt) -> anyhow::Result<Vec<Status>> {
    let mut documents = Vec::new();
    while documents.len() < LOOKS_BEFORE && !interrupt.is_set() {
        if !documents.is_empty() {
            thread::sleep(INTERVAL);
        }
        documents.push(block_on(client.get(WITH_BUCKETS))?);
    }
    Ok(documents)
}

impl Proof {
    /// What was seen of a backend, judged.
    fn add(&mut self, target: &Target, share: f64, trial: &Policy, watched: Watched) {
        let Watched { documents, measured, ended } = watched;
        let mut rows = judge::all(trial, &documents);
        rows.retain(|row| row.domain == target.domain);
        let why = match ended {
            Ended::Time => None,
            Ended::Interrupted => {
                self.is_interrupted = true;
                Some("interrupted".to_owned())
            }
            Ended::Late(row) => {
                let why = format!("{} of {} was late: {}", row.promise, row.tenant, row.figure);
                let is_same = |one: &Row| {
                    (&one.domain, &one.tenant, &one.promise)
                        == (&row.domain, &row.tenant, &row.promise)
                };
                rows.retain(|one| !is_same(one));
                rows.push(row);
                Some(why)
            }
            Ended::Otherwise(why) => Some(why),
        };
        if let Some(why) = &why {
            terminal::say(&format!("ended early: {why}"));
        }
        self.rows.extend(verdict::rows(target, &measured, &documents));
        self.rows.extend(rows);
        if let [first, .., last] = documents.as_slice() {
            self.watched_seconds += last.uptime_seconds - first.uptime_seconds;
        }
        self.loads.push(Loaded {
            backend: target.backend.clone(),
            was_read: true,
            why,
            share,
            beside: target.beside.clone(),
            weights: target.weights_milli.map(|milli| f64::from(milli) / 1000.0).to_vec(),
            outstanding: target.outstanding,
            answers: measured.answers.to_vec(),
            measured_seconds: measured.seconds,
        });
    }

    /// A backend that is not put under load.
    fn add_without(&mut self, backend: &str, no: NoTarget) {
        let why = match no {
            NoTarget::Unfit(why) => why,
            NoTarget::Broken(why) => {
                self.rows.push(Row {
                    domain: backend.to_owned(),
                    tenant: "everybody".to_owned(),
                    promise: "shares".to_owned(),
                    verdict: Verdict::NotKept,
                    figure: why.clone(),
                });
                why
            }
        };
        terminal::say(&format!("no load on {backend}: {why}"));
        self.loads.push(Loaded {
            backend: backend.to_owned(),
            why: Some(why),
            ..Loaded::default()
        });
    }
}

/// What was seen of one backend.
struct Watched {
    documents: Vec<Status>,
    measured: Measured,
    ended: Ended,
}

/// What all loads of one command have in common.
struct Session<'a> {
    client: &'a Client,
    policy: &'a Policy,
    interrupt: &'a Interrupt,
}

impl Session<'_> {
    /// Puts one backend under load, and judges.
    fn add(
        &self,
        proof: &mut Proof,
        target: &Target,
        share: f64,
        before: &[Status],
    ) -> anyhow::Result<()> {
        let (first, last) = (&before[0], before.last().expect("there are some"));
        if let Some(row) = judge::late(self.policy, [first, first], last) {
            let why = format!("{} of {} is late already: {}", row.promise, row.tenant, row.figure);
            proof.add_without(&target.backend, NoTarget::Unfit(why));
            proof.rows.push(row);
            return Ok(());
        }
        say_what_comes(target, share);
        let trial = target.policy(self.policy, &target::socket_beside(self.client.socket()));
        let outcome = self.on_trial(target, share, &trial);
        // Whatever has happened: nothing of it stays.
        let ended_well = self.end();
        if let (Err(error), Err(_)) = (&ended_well, &outcome) {
            terminal::say(&format!("evenkeel: {error:#}"));
        }
        let outcome = outcome?;
        ended_well?;
        match outcome {
            Ok(watched) => proof.add(target, share, &trial, watched),
            Err(why) => proof.add_without(&target.backend, NoTarget::Unfit(why)),
        }
        Ok(())
    }

    /// Puts the policy in force, reads, and watches. Or says why the two cannot read.
    fn on_trial(
        &self,
        target: &Target,
        share: f64,
        trial: &Policy,
    ) -> anyhow::Result<Result<Watched, String>> {
        let spec = TrialSpec {
            text: config::print(trial),
            name: "the policy of `prove --load`".to_owned(),
            confirm_within_seconds: LENGTH.as_secs_f64() + GRACE_SECONDS,
            temporary: true,
        };
        let body = serde_json::to_value(spec)?;
        block_on(self.client.ask(Method::PUT, "/v1/policy", Some(&body)))
            .context("the gate does not take the policy with two more tenants")?;
        let socket = target::socket_beside(self.client.socket());
        refuse_open_to_all(&socket)?;
        let uris = uris(&socket)?;
        let offer = match probe(&uris[0]) {
            Ok(offer) => offer,
            Err(error) => return Ok(Err(cannot_read(&error))),
        };
        let request_bytes = offer.request_bytes_min.max(REQUEST_BYTES);
        if offer.size_bytes < u64::from(request_bytes) {
            return Ok(Err("its largest export has no room for a request".to_owned()));
        }
        let load = Load::start(target, uris, request_bytes)?;
        let watched = drive::watch(self.client, (trial, target, share), &load, self.interrupt);
        load.stop();
        let (documents, ended) = watched?;
        Ok(match load.finish() {
            Ok(measured) => Ok(Watched { documents, measured, ended }),
            Err(error) => Err(cannot_read(&error)),
        })
    }

    /// Brings the policy before back, and makes sure of it. A trial of somebody else is left alone.
    fn end(&self) -> anyhow::Result<()> {
        let mut in_force = super::policy(self.client)?;
        let mut why = String::new();
        if has_proof(&in_force) {
            let reverted = block_on(self.client.ask(Method::POST, "/v1/policy/revert", None));
            why = reverted.err().map_or_else(String::new, |error| format!(" ({error:#})"));
            in_force = super::policy(self.client)?;
        }
        if has_proof(&in_force) {
            return Err(Exit::Runtime.because(format!(
                "the gate cannot take the policy with the two tenants back{why}; it tries again \
                 by itself, and `evenkeel ctl reload` puts the policy file in force"
            )));
        }
        if in_force != *self.policy {
            let what = "somebody changed the policy meanwhile, and nothing is judged";
            return Err(Exit::Runtime.because(what));
        }
        Ok(())
    }
}

/// Whether it is a policy of `prove --load`.
fn has_proof(policy: &Policy) -> bool {
    policy.exports.iter().any(Export::is_for_proof)
}

fn say_what_comes(target: &Target, share: f64) {
    let Target { backend, source, outstanding, beside, .. } = target;
    let read = source.as_ref().map_or_else(String::new, |name| format!(" (its export {name:?})"));
    terminal::say(&format!(
        "two tenants read from {backend}{read} at random for {} s, {outstanding} requests at once \
         each, with {} of it beside {}; nothing is written",
        LENGTH.as_secs(),
        human::percent(share),
        beside.join(" and ")
    ));
}

/// Who connects there may open every export, as on any listener that asks for no certificate.
fn refuse_open_to_all(socket: &Path) -> anyhow::Result<()> {
    let found = std::fs::symlink_metadata(socket)
        .with_context(|| format!("the gate has put no socket at {}", socket.display()))?;
    if found.permissions().mode() & 0o002 == 0 {
        return Ok(());
    }
    Err(Exit::Runtime.because(format!(
        "every user of this machine could connect to {}: start the gate with a umask of 022",
        socket.display()
    )))
}

fn uris(socket: &Path) -> anyhow::Result<[NbdUri; 2]> {
    let path = socket.to_str().context("the path of the control socket is no text")?;
    Ok(NAMES.map(|name| NbdUri {
        transport: Transport::Unix { socket: path.to_owned() },
        tls: false,
        export: name.to_owned(),
        tls_hostname: None,
        tls_certificates: None,
    }))
}

fn cannot_read(error: &LoadError) -> String {
    format!("it cannot be read, and nothing is judged: {error}")
}
