//! A policy that lies elsewhere than in the file: its newest text, and the file as the copy of the
//! last one that was put in force, for a start while elsewhere is away.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

/// Copies of what a policy file was; with more, the last is overwritten.
const FORMER_MAX: u32 = 1000;

/// Where a policy comes from. None came yet as long as the text is none.
#[derive(Debug)]
pub struct Remote {
    /// What findings call it.
    pub name: String,
    latest: Mutex<Option<String>>,
}

impl Remote {
    /// A place of this name with what it said first, if it did.
    pub fn new(name: String, latest: Option<String>) -> Self {
        Self { name, latest: Mutex::new(latest) }
    }

    /// It says this from now on.
    pub fn say(&self, text: String) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// What it said last.
    pub(super) fn latest(&self) -> Option<String> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The same, and what the file was stays beside it, as `NAME.before` or the first such name that is
/// free. Gives that.
///
/// # Errors
/// As [`keep`].
pub fn keep_with_former(text: &str, file: &Path) -> anyhow::Result<PathBuf> {
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let former = free_name(&file);
    if file.exists() {
        let copied = std::fs::copy(&file, &former).and_then(|_| File::open(&former)?.sync_all());
        or_remove(copied, &former)
            .with_context(|| format!("cannot keep a copy of {}", file.display()))?;
    }
    keep(text, &file)?;
    Ok(former)
}

fn free_name(file: &Path) -> PathBuf {
    let named = |number: u32| {
        let mut name = file.as_os_str().to_owned();
        name.push(".before");
        if number > 1 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    let free = (1..FORMER_MAX).map(named).find(|name| std::fs::symlink_metadata(name).is_err());
    free.unwrap_or_else(|| named(FORMER_MAX))
}

/// Keeps a text that is in force as the file, as a whole or not at all.
///
/// # Errors
/// If the folder does not take it.
pub fn keep(text: &str, file: &Path) -> anyhow::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = file.with_file_name(format!(".{name}.{}", std::process::id()));
    // Of a process before this one that had its number.
    let _ = std::fs::remove_file(&unfinished);
    let written = File::create_new(&unfinished).and_then(|mut copy| {
        if let Ok(before) = std::fs::metadata(file) {
            copy.set_permissions(before.permissions())?;
        }
        copy.write_all(text.as_bytes())?;
        copy.sync_all()?;
        std::fs::rename(&unfinished, file)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
    });
    or_remove(written, &unfinished)
        .with_context(|| format!("cannot write the policy to {}", file.display()))
}

/// Leaves nothing half-written behind, as on a full disk.
fn or_remove(outcome: io::Result<()>, file: &Path) -> io::Result<()> {
    outcome.inspect_err(|_| {
        let _ = std::fs::remove_file(file);
    })
}
