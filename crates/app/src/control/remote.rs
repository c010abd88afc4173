//! A policy that lies elsewhere than in the file: its newest text, and the file as the copy of the
//! last one that was put in force, for a start while elsewhere is away.

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

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

/// The same, and what the file was stays beside it as `NAME.before`.
///
/// # Errors
/// As [`keep`].
pub fn keep_with_former(text: &str, file: &Path) -> anyhow::Result<()> {
    if file.exists() {
        let mut former = file.as_os_str().to_owned();
        former.push(".before");
        std::fs::copy(file, &former)
            .with_context(|| format!("cannot keep {} beside it", file.display()))?;
    }
    keep(text, file)
}

/// Keeps a text that is in force as the file, as a whole or not at all.
///
/// # Errors
/// If the folder does not take it.
pub fn keep(text: &str, file: &Path) -> anyhow::Result<()> {
    let unfinished = file.with_extension("new");
    let written = std::fs::File::create(&unfinished).and_then(|mut copy| {
        copy.write_all(text.as_bytes())?;
        copy.sync_all()?;
        std::fs::rename(&unfinished, file)
    });
    written.with_context(|| format!("cannot keep a copy of the policy in {}", file.display()))
}
