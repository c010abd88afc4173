//! `evenkeel ctl`: asks and changes a running gate over its control socket.

mod record;
mod scrub;
mod tables;
mod volumes;

use std::future::Future;
use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use evenkeel_core::time::Span;
use hyper::Method;
use serde_json::Value;

use crate::control::change::{ExportSpec, MatchSpec, ModeName, ModeSpec, TenantSpec};
use crate::control::client::{Client, ControlArgs, segment};
use crate::control::resize::SizeSpec;
use crate::control::trial::TrialSpec;
use crate::exit::Exit;
use crate::volumes::args::{Snapshots, Volumes};
use crate::{terminal, units};
use volumes::OfGate;

/// Arguments of `evenkeel ctl`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel ctl status
  evenkeel ctl status --json | jq '.domains[].tenants[] | {name, window}'
  evenkeel ctl policy > now.toml         the policy in force, as a file
  evenkeel ctl reload                    read the policy file again
  evenkeel ctl mode shadow
  evenkeel ctl tenant set db --share 4
  evenkeel ctl tenant set backup --limit '200 MiB/s' --limit '500 iops'
  evenkeel ctl tenant set db --floor '500 iops'
  evenkeel ctl save                      keep that, in the policy file
  evenkeel ctl apply new.toml --confirm-within '60 s'
  evenkeel ctl export add carol --backend disk --size '10 GiB'
  evenkeel ctl export remove carol
  evenkeel ctl record start /var/tmp/hour.ektrace.zst
  evenkeel ctl record stop
  evenkeel ctl record last minutes.ektrace.zst
  evenkeel ctl volume create --size '10 GiB'
  evenkeel ctl snapshot create --volume 0
  evenkeel ctl scrub start --wait
  evenkeel ctl claim db                  the gate that had the volume is gone: open it here

Changes of the policy live until the next reload of the file unless they are saved; volumes and
snapshots are there for good.")]
pub struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Print the gate's answer as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Who uses what, since the gate started.
    Status,
    /// Print the policy in force as a policy file.
    Policy,
    #[command(flatten)]
    Change(Change),
    /// Record every request as a trace, or take what was asked in the last minutes.
    #[command(subcommand)]
    Record(record::RecordAction),
    /// Make, resize, delete and list the volumes of a store, while clients use it.
    #[command(subcommand)]
    Volume(Volumes<OfGate>),
    /// Make, list, delete, clone and roll back to snapshots, while clients use the store.
    #[command(subcommand)]
    Snapshot(Snapshots<OfGate>),
    /// Read everything in a store, and have what is bad on one of its copies written anew, while
    /// clients use it.
    #[command(subcommand)]
    Scrub(scrub::Scrub),
}

/// What is one request to the gate.
#[derive(Debug, Subcommand)]
enum Change {
    /// Read the policy file again and put it in force; no connection is dropped.
    Reload,
    /// Put a policy file in force for a while: unless you confirm it, the policy before comes back.
    #[command(after_help = APPLY_HELP)]
    Apply {
        /// The policy file; its relative paths are taken from the folder of the gate's own.
        file: PathBuf,
        /// How long it waits to be confirmed, up to an hour.
        #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = parse_time)]
        confirm_within: Span,
    },
    /// Keep the policy that is on trial: it is written to the gate's policy file.
    Confirm,
    /// Take the policy that is on trial back at once.
    Revert,
    /// Write the policy in force, with what was changed here, to the gate's policy file.
    Save,
    /// Set how far the gate may go.
    Mode {
        /// The mode.
        mode: ModeName,
    },
    /// Change who shares.
    Tenant {
        #[command(subcommand)]
        action: TenantAction,
    },
    /// Change what clients see.
    Export {
        #[command(subcommand)]
        action: ExportAction,
    },
    /// Give your word on what a volume waits for: `evenkeel ctl status` says what that is.
    #[command(after_help = CLAIM_HELP)]
    Claim {
        /// The volume: a backend of the policy.
        volume: String,
    },
}

const APPLY_HELP: &str = "\
Examples:
  evenkeel ctl apply new.toml --confirm-within '2 min'
  evenkeel prove --watch '1 min' && evenkeel ctl confirm
  evenkeel ctl revert                    or wait: the policy before comes back

Until it is confirmed it is written nowhere: a gate that ends meanwhile starts with the old one.
Other changes are refused meanwhile, and `evenkeel ctl reload` ends the trial.";

fn parse_time(text: &str) -> Result<Span, String> {
    units::parse_duration(text)
        .map_err(|error| format!("{error}; write it like {}", error.examples))
}

const CLAIM_HELP: &str = "\
Examples:
  evenkeel ctl status                    what the volume waits for
  evenkeel ctl claim db                  that is so: open it

A volume waits for a word where the gate cannot know what only you can: that another gate, which
had it and did not let go, is gone for good; or that clients have forgotten what they read before
another gate had it. A wrong word costs data. It counts for this one question, once.";

#[derive(Debug, Subcommand)]
enum TenantAction {
    /// Add a tenant, or change one; what is not said stays.
    Set(TenantSet),
    /// Remove a tenant; its connections go to whoever matches them now.
    Remove {
        /// Its name.
        name: String,
    },
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "options of a command line")]
struct TenantSet {
    /// Its name.
    name: String,
    /// Its weight, with up to three decimals.
    #[arg(long)]
    share: Option<f64>,
    /// A floor, such as '500 iops' or '50 MiB/s'; twice for both.
    #[arg(long, value_name = "RATE")]
    floor: Vec<String>,
    /// Take its floors away.
    #[arg(long, conflicts_with = "floor")]
    no_floor: bool,
    /// A goal for its response time, such as '10 ms'.
    #[arg(long, value_name = "TIME")]
    latency: Option<String>,
    /// Take its latency goal away.
    #[arg(long, conflicts_with = "latency")]
    no_latency: bool,
    /// A limit, such as '200 MiB/s' or '500 iops'; twice for both.
    #[arg(long, value_name = "RATE")]
    limit: Vec<String>,
    /// Take its limits away.
    #[arg(long, conflicts_with = "limit")]
    no_limit: bool,
    /// A burst, such as '4 MiB' or '100 requests'; twice for both.
    #[arg(long, value_name = "AMOUNT")]
    burst: Vec<String>,
    /// Which connections are its own: export=NAME, `tls_name=NAME`, listener=NAME or peer=NETWORK;
    /// any of several.
    #[arg(long = "match", value_name = "KIND=PATTERN", value_parser = parse_match)]
    matches: Vec<MatchSpec>,
    /// Whether its connections may only read.
    #[arg(long, value_name = "true|false")]
    read_only: Option<bool>,
    /// Add the tenant even if no match gives it connections; otherwise it is refused as a likely
    /// typo.
    #[arg(long)]
    add: bool,
}

#[derive(Debug, Subcommand)]
enum ExportAction {
    /// Add an export, or change one; what is not said stays.
    Add(ExportAdd),
    /// Give the volume behind an export another size, while clients use it.
    #[command(after_help = RESIZE_HELP)]
    Resize {
        /// Its name.
        name: String,
        /// The size, such as '2 TiB'.
        size: String,
    },
    /// Remove an export. Its data stays where it is.
    Remove {
        /// Its name.
        name: String,
    },
}

const RESIZE_HELP: &str = "\
Examples:
  evenkeel ctl export resize disk '2 TiB'
  evenkeel ctl save                      keep it in the policy file

Clients that connect from now on see it. A volume grows at once; it shrinks where nothing lies
beyond the new end: discard what is there first. Volumes in Ceph and over servers (`choices`) have a
size of their own; volumes of a store are resized by `evenkeel ctl volume resize`.";

#[derive(Debug, clap::Args)]
struct ExportAdd {
    /// Its name.
    name: String,
    /// The backend that holds it; may be left out where there is one.
    #[arg(long)]
    backend: Option<String>,
    /// Its name there, if not the same.
    #[arg(long)]
    source: Option<String>,
    /// First byte, such as '64 GiB'.
    #[arg(long)]
    offset: Option<String>,
    /// Its size, such as '10 GiB'.
    #[arg(long)]
    size: Option<String>,
    /// Refuse writes.
    #[arg(long)]
    read_only: bool,
    /// A tenant that may open it where clients show certificates; once for each.
    #[arg(long, value_name = "TENANT")]
    allow: Vec<String>,
    /// A line for people who list exports.
    #[arg(long)]
    description: Option<String>,
}

/// Runs the subcommand.
///
/// # Errors
/// A gate that does not answer, or refuses.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let client = args.control.client();
    block_on(async {
        match &args.action {
            Action::Scrub(action) => return scrub::run(&client, action, args.json).await,
            Action::Status => status(&client, args.json).await,
            Action::Record(action) => record::run(&client, action, args.json).await,
            Action::Policy => policy(&client, args.json).await,
            Action::Volume(action) => {
                volumes::run(&client, action.place(), action.wish()?, args.json).await
            }
            Action::Snapshot(action) => {
                volumes::run(&client, action.place(), action.wish()?, args.json).await
            }
            Action::Change(change) => {
                let (method, path, body) = request(change)?;
                let answer = client.ask(method, &path, body.as_ref()).await?;
                report(&answer, args.json)
            }
        }?;
        Ok(Exit::Success)
    })
}

/// Runs a future of the control plane's clients on this thread.
///
/// # Errors
/// The future's own, or no runtime.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

/// What a change is on the wire.
fn request(change: &Change) -> anyhow::Result<(Method, String, Option<Value>)> {
    Ok(match change {
        Change::Reload => (Method::POST, "/v1/reload".to_owned(), None),
        Change::Apply { file, confirm_within } => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let (name, confirm_within_seconds) =
                (file.display().to_string(), confirm_within.as_secs_f64());
            let spec = TrialSpec { text, name, confirm_within_seconds, temporary: false };
            (Method::PUT, "/v1/policy".to_owned(), Some(serde_json::to_value(spec)?))
        }
        Change::Confirm => (Method::POST, "/v1/policy/confirm".to_owned(), None),
        Change::Revert => (Method::POST, "/v1/policy/revert".to_owned(), None),
        Change::Save => (Method::POST, "/v1/policy/save".to_owned(), None),
        Change::Mode { mode } => {
            let body = serde_json::to_value(ModeSpec { mode: *mode })?;
            (Method::PUT, "/v1/mode".to_owned(), Some(body))
        }
        Change::Claim { volume } => (Method::POST, format!("/v1/claims/{}", segment(volume)), None),
        Change::Tenant { action: TenantAction::Set(set) } => {
            let body = serde_json::to_value(set.spec())?;
            (Method::PUT, format!("/v1/tenants/{}", segment(&set.name)), Some(body))
        }
        Change::Tenant { action: TenantAction::Remove { name } } => {
            (Method::DELETE, format!("/v1/tenants/{}", segment(name)), None)
        }
        Change::Export { action: ExportAction::Add(add) } => {
            let body = serde_json::to_value(add.spec())?;
            (Method::PUT, format!("/v1/exports/{}", segment(&add.name)), Some(body))
        }
        Change::Export { action: ExportAction::Resize { name, size } } => {
            let body = serde_json::to_value(SizeSpec { size: size.clone() })?;
            (Method::PUT, format!("/v1/exports/{}/size", segment(name)), Some(body))
        }
        Change::Export { action: ExportAction::Remove { name } } => {
            (Method::DELETE, format!("/v1/exports/{}", segment(name)), None)
        }
    })
}

impl TenantSet {
    fn spec(&self) -> TenantSpec {
        let said = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone());
        TenantSpec {
            share: self.share,
            floor: if self.no_floor { Some(Vec::new()) } else { said(&self.floor) },
            latency: if self.no_latency { Some("0 s".to_owned()) } else { self.latency.clone() },
            limit: if self.no_limit { Some(Vec::new()) } else { said(&self.limit) },
            burst: said(&self.burst),
            matches: (!self.matches.is_empty()).then(|| self.matches.clone()),
            read_only: self.read_only,
            add: self.add,
        }
    }
}

impl ExportAdd {
    fn spec(&self) -> ExportSpec {
        ExportSpec {
            backend: self.backend.clone(),
            source: self.source.clone(),
            offset: self.offset.clone(),
            size: self.size.clone(),
            read_only: self.read_only.then_some(true),
            allow: (!self.allow.is_empty()).then(|| self.allow.clone()),
            description: self.description.clone(),
        }
    }
}

fn parse_match(text: &str) -> Result<MatchSpec, String> {
    let (kind, pattern) = text.split_once('=').ok_or("write it like export=db-*")?;
    let pattern = pattern.to_owned();
    match kind {
        "tls_name" => Ok(MatchSpec::TlsName(pattern)),
        "export" => Ok(MatchSpec::Export(pattern)),
        "listener" => Ok(MatchSpec::Listener(pattern)),
        "peer" => Ok(MatchSpec::Peer(pattern)),
        _ => Err("known kinds are tls_name, export, listener, peer".to_owned()),
    }
}

fn report(answer: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return terminal::json(answer);
    }
    if let Some(warnings) = answer["warnings"].as_str().filter(|text| !text.is_empty()) {
        terminal::say(warnings);
    }
    // A recording says more than that it is done.
    let said = [&answer["summary"], &answer["file"]].into_iter().find_map(Value::as_str);
    terminal::say(said.unwrap_or("done"));
    Ok(())
}

async fn policy(client: &Client, json: bool) -> anyhow::Result<()> {
    let text = client.text("/v1/policy").await?;
    if json {
        // TOML and JSON share their data model as far as a policy goes.
        return terminal::json(&toml::from_str::<toml::Table>(&text)?);
    }
    Ok(terminal::data(&text)?)
}

async fn status(client: &Client, json: bool) -> anyhow::Result<()> {
    if json {
        return terminal::json(&client.get::<Value>("/v1/status").await?);
    }
    let status = client.get("/v1/status").await?;
    Ok(terminal::data(&tables::of(&status))?)
}

/// A duration out of a document.
pub(crate) fn seconds(seconds: f64) -> Span {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    Span((seconds.max(0.0) * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_written_as_kind_and_pattern() {
        assert_eq!(parse_match("export=a=b"), Ok(MatchSpec::Export("a=b".to_owned())));
        assert!(parse_match("colour=red").is_err());
        assert!(parse_match("db").is_err());
    }
}
