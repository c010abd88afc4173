//! Keys of a cluster whose daemons and clients prove who they are (`cephx`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use evenkeel_io::rados::{Cluster, Whom};
use serde_json::{Value, json};

use super::finish;

/// The file with the key of whoever may do everything, in the cluster's folder.
pub(super) const ADMIN: &str = "admin.keyring";

/// Makes the first keys, of the monitors and of the administrator; the file with both, of which
/// the first monitor is made.
pub(super) fn first_keys(folder: &Path) -> anyhow::Result<PathBuf> {
    let (monitors, admin) = (folder.join("monitors.keyring"), folder.join(ADMIN));
    let mut make = Command::new("ceph-authtool");
    make.args(["--create-keyring", "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"]);
    finish("ceph-authtool", make.arg(&monitors))?;
    let mut make = Command::new("ceph-authtool");
    make.args(["--create-keyring", "--gen-key", "-n", "client.admin"]);
    for service in ["mon", "osd", "mgr", "mds"] {
        make.args(["--cap", service, "allow *"]);
    }
    finish("ceph-authtool", make.arg(&admin))?;
    let mut import = Command::new("ceph-authtool");
    finish("ceph-authtool", import.arg(&monitors).arg("--import-keyring").arg(&admin))?;
    Ok(monitors)
}

/// Makes a user who may do so much, and a file with its key.
pub(super) fn user(
    cluster: &Cluster,
    entity: &str,
    caps: &[&str],
    keyring: &Path,
) -> anyhow::Result<()> {
    let command =
        json!({"prefix": "auth get-or-create", "entity": entity, "caps": caps, "format": "json"});
    let answer = cluster.command(Whom::Monitor, &command.to_string())?;
    let answer: Value = serde_json::from_slice(&answer).context("the answer is no JSON")?;
    let key = answer[0]["key"].as_str().context("the monitors tell the key")?;
    std::fs::write(keyring, format!("[{entity}]\n\tkey = {key}\n"))
        .context("cannot write to the stage")
}
