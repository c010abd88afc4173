//! A policy that lies under a key of etcd (`--policy-from`): what a gate begins with, and what it
//! takes from then on.
//!
//! ```text
//!   etcd --read--> begin: the key, or the copy in the file while etcd is away or its text is bad
//!        --watch-> every change: reload, as at SIGHUP; what is in force is copied to the file
//! ```

use std::path::Path;

use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_io::etcd::{Key, Text};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::config::{self, FILE_BYTES_MAX};
use crate::control::remote::{self, Remote};
use crate::exit::Exit;
use crate::terminal;

/// What a gate begins with.
pub(super) struct Begin {
    pub(super) policy: Policy,
    pub(super) remote: Remote,
    /// What to copy to the file once it is in force.
    pub(super) copy: Option<String>,
    /// The change that it is of.
    pub(super) revision: i64,
}

/// Reads the key, and the copy where that gives no policy.
///
/// # Errors
/// If neither gives a valid policy.
pub(super) async fn begin(key: &Key, file: &Path, mode: Option<Mode>) -> anyhow::Result<Begin> {
    let name = format!("etcd key {}", key.name());
    let (text, why, revision) = match key.read().await {
        Ok(text) => {
            let revision = text.revision;
            match read(text) {
                Ok(text) => (Some(text), String::new(), revision),
                Err(why) => (None, format!("{name} {why}"), revision),
            }
        }
        Err(error) => (None, error.to_string(), 0),
    };
    let Some(text) = text else {
        let policy = copy(&why, Exit::Runtime, file, mode)?;
        return Ok(Begin { policy, remote: Remote::new(name, None), copy: None, revision });
    };
    let remote = Remote::new(name.clone(), Some(text.clone()));
    match super::accept(config::load_text(&text, &name, file), &name, mode) {
        Ok(policy) => Ok(Begin { policy, remote, copy: Some(text), revision }),
        Err(error) => {
            let policy = copy(&error.to_string(), Exit::Invalid, file, mode)?;
            Ok(Begin { policy, remote, copy: None, revision })
        }
    }
}

/// The policy of the copy, since the key gave none.
fn copy(why: &str, exit: Exit, file: &Path, mode: Option<Mode>) -> anyhow::Result<Policy> {
    let shown = file.display();
    if !file.exists() {
        return Err(exit.because(format!("{why}; and there is no copy in {shown}")));
    }
    terminal::say(&format!("{why}; going on with the copy in {shown}"));
    super::load(file, mode)
}

/// The text of a key; an error continues a sentence that begins with the key.
fn read(text: Text) -> Result<String, &'static str> {
    let bytes = text.bytes.ok_or("is not there; put the policy there with `etcdctl put`")?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err("is too large for a policy");
    }
    String::from_utf8(bytes).map_err(|_| "is no text")
}

/// The gate has begun: keeps the copy, and gives the changes of the key from now on.
pub(super) fn follow(key: Key, begin: Begin, file: &Path) -> (Remote, UnboundedReceiver<Text>) {
    if let Some(Err(error)) = begin.copy.map(|copy| remote::keep(&copy, file)) {
        tracing::warn!("{error:#}");
    }
    let (tell, changes) = unbounded_channel();
    tokio::spawn(key.follow(begin.revision, tell));
    (begin.remote, changes)
}

/// Takes a change; whether there is something to put in force.
pub(super) fn take(text: Text, remote: &Remote) -> bool {
    match read(text) {
        Ok(text) => remote.say(text),
        Err(why) => {
            tracing::error!("policy not reloaded, the old one stays: {} {why}", remote.name);
            return false;
        }
    }
    true
}
