//! The policy file: TOML with units in its values, read with the place of every key, so that each
//! mistake is shown where it was made.
//!
//! ```text
//! text --toml--> spanned tree --raw--> values as written --resolve--> Policy --check--> problems
//!                                            |                                            |
//!                                            +------- places ------> file:line:column <---+
//! ```
//!
//! Everything found in one pass is reported together. Paths are relative to the file's folder.

mod ceph;
pub mod diagnostic;
mod exchange;
pub(crate) mod fields;
mod goal;
pub(crate) mod metrics;
mod places;
mod print;
mod raw;
mod recorded;
mod resolve;
mod spread;
mod store;
mod takeover;
mod uri;
pub(crate) mod values;
mod volume;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use evenkeel_engine::policy::admission::Measurements;
use evenkeel_engine::policy::check::{Place, Problem};
use evenkeel_engine::policy::{Address, Backend, Policy, Source};
use toml::de::DeTable;

pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use print::{mode_name, print, print_with_found};
pub use recorded::recorded;
pub use values::{parse_address, parse_network};

pub(crate) use exchange::taken_alone;
pub(crate) use places::unlocated;
pub(crate) use resolve::default_bursts;

use raw::RawPolicy;

/// The policy of a gate that was given none.
pub const DEFAULT: &str = include_str!("default.toml");

/// Largest policy file that is read.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// Why a policy file gives no policy.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot read the policy file {}: {error}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It says nothing valid.
    #[error("{0}")]
    Invalid(Diagnostics),
}

/// What a text says and what was found in it; no policy if it has errors.
#[derive(Debug)]
pub struct Parsed {
    /// The policy, if it can be put in force.
    pub policy: Option<Policy>,
    /// The same even if it cannot be put in force; none if a part of it could not be read.
    pub draft: Option<Policy>,
    /// Errors and warnings.
    pub diagnostics: Diagnostics,
}

/// Parses a policy; `name` is what findings call the file.
///
/// # Errors
/// All findings, if any of them is an error.
pub fn parse(text: &str, name: &str) -> Result<Policy, Diagnostics> {
    let parsed = parse_all(text, name);
    parsed.policy.ok_or(parsed.diagnostics)
}

/// Parses a policy and keeps the warnings too.
pub fn parse_all(text: &str, name: &str) -> Parsed {
    parse_beside(text, name, |_| Measurements::new())
}

/// The same, held against what was measured of the policy's backends.
fn parse_beside(text: &str, name: &str, measured: impl FnOnce(&Policy) -> Measurements) -> Parsed {
    let mut out = Diagnostics::new(name, text);
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
        out.error(0..0, message, "a policy is far smaller; is this the right file?");
        return Parsed { policy: None, draft: None, diagnostics: out };
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        out.error(error.span().unwrap_or(0..0), sentence(error.message()), "");
    }
    if !errors.is_empty() {
        return Parsed { policy: None, draft: None, diagnostics: out };
    }
    let raw = RawPolicy::read(table.get_ref(), &mut out);
    // A part that could not be read is missing from the policy: checking what is left would blame
    // the parts that refer to it.
    let was_readable = !out.has_errors();
    let (policy, places) = resolve::resolve(raw, &mut out);
    let draft = (was_readable && !out.has_errors()).then_some(policy);
    for problem in draft.iter().flat_map(Policy::check) {
        out.push(places.locate(&problem));
    }
    if let Some(policy) = draft.as_ref().filter(|_| !out.has_errors()) {
        let problems = policy.check_measured(&measured(policy));
        for problem in &problems {
            out.push(places.locate(problem));
        }
    }
    out.sort();
    let policy = draft.clone().filter(|_| !out.has_errors());
    Parsed { policy, draft, diagnostics: out }
}

/// Reads a policy that is a part of another document, for a gate that is not real: what only a real
/// one needs may be left out, and its backends need not say where their bytes are. None if it has
/// errors.
pub(crate) fn policy_within(table: &DeTable<'_>, out: &mut Diagnostics) -> Option<Policy> {
    let was_readable = !out.has_errors();
    let mut raw = RawPolicy::read(table, out);
    raw.assume_servers();
    let (policy, places) = resolve::resolve(raw, out);
    if was_readable && !out.has_errors() {
        let problems = policy.check();
        for problem in problems.iter().filter(|problem| !is_of_a_real_gate(problem)) {
            out.push(places.locate(problem));
        }
    }
    (!was_readable || !out.has_errors()).then_some(policy)
}

/// Whether a problem is about what a gate in virtual time has no use for.
fn is_of_a_real_gate(problem: &Problem) -> bool {
    match problem.place {
        Place::Listener { .. } | Place::Memory { .. } => true,
        Place::Policy { field } => field == "listeners" || field == "exports",
        _ => false,
    }
}

/// Reads and parses a policy file. Relative paths in it are taken from its folder.
///
/// # Errors
/// [`LoadError`].
pub fn load(path: &Path) -> Result<Parsed, LoadError> {
    load_beside(path, |_| Measurements::new())
}

/// The same, held against what was measured of the policy's backends.
///
/// # Errors
/// [`LoadError`].
pub fn load_beside(
    path: &Path,
    measured: impl FnOnce(&Policy) -> Measurements,
) -> Result<Parsed, LoadError> {
    let text =
        read(path).map_err(|error| LoadError::Unreadable { path: path.to_owned(), error })?;
    let measured = |policy: &Policy| {
        let mut policy = policy.clone();
        path.parent().into_iter().for_each(|folder| rebase(&mut policy, folder));
        measured(&policy)
    };
    let parsed = parse_beside(&text, &path.display().to_string(), measured);
    Ok(based(parsed, path))
}

/// Parses a policy that came from elsewhere; relative paths in it are taken from the folder of
/// `file`, and `name` is what findings call it. It may not name commands: whoever can write it must
/// not be able to run anything here.
pub fn load_text(text: &str, name: &str, file: &Path) -> Parsed {
    let mut parsed = load_given(text, name, file);
    let has_fence = |backend: &&Backend| {
        backend.source.takeover().is_some_and(|takeover| !takeover.fence.is_empty())
    };
    let fenced = parsed.policy.as_ref().and_then(|policy| policy.backends.iter().find(has_fence));
    if let Some(backend) = fenced {
        let message = format!("backend {:?} names a command as its `fence`", backend.name);
        let remedy = "commands come from a local policy file alone: serve that, or leave `fence` \
                      out and give the word with `evenkeel ctl claim`";
        parsed.diagnostics.error(0..0, message, remedy);
        parsed.policy = None;
    }
    parsed
}

/// Parses a policy that is to take the place of `file`, from whose folder relative paths are taken;
/// `name` is what findings call it.
pub fn load_given(text: &str, name: &str, file: &Path) -> Parsed {
    based(parse_all(text, name), file)
}

/// Relative paths start from the file's folder.
fn based(mut parsed: Parsed, file: &Path) -> Parsed {
    if let (Some(policy), Some(folder)) = (&mut parsed.policy, file.parent()) {
        rebase(policy, folder);
    }
    parsed
}

/// Reads and parses a policy file that has to be valid.
///
/// # Errors
/// [`LoadError`].
pub fn load_valid(path: &Path) -> Result<Policy, LoadError> {
    let parsed = load(path)?;
    parsed.policy.ok_or(LoadError::Invalid(parsed.diagnostics))
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large from one that just fits.
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Makes relative paths start from `folder`.
pub fn rebase(policy: &mut Policy, folder: &Path) {
    each_path(policy, |path| *path = folder.join(&*path));
}

/// Makes relative paths absolute, from the folder in which this process runs.
pub fn absolute(policy: &mut Policy) {
    each_path(policy, |path| {
        // It fails without a current folder only; then the path is as good as it can be.
        if let Ok(absolute) = std::path::absolute(&*path) {
            *path = absolute;
        }
    });
}

/// Writes paths that lead to the same place as they are written in another policy: a relative path
/// and the absolute one for which it stands are no change. Sockets have short names for a reason,
/// so that the policy in force keeps its own.
pub fn spell_as(policy: &mut Policy, other: &Policy) {
    let spellings = RefCell::new(BTreeMap::new());
    each_path(&mut other.clone(), |path| {
        if let Ok(absolute) = std::path::absolute(&*path) {
            spellings.borrow_mut().insert(absolute, path.clone());
        }
    });
    each_path(policy, |path| {
        let absolute = std::path::absolute(&*path).ok();
        if let Some(spelling) = absolute.and_then(|one| spellings.borrow().get(&one).cloned()) {
            *path = spelling;
        }
    });
}

fn each_path(policy: &mut Policy, fix: impl Fn(&mut PathBuf)) {
    for listener in &mut policy.listeners {
        if let Address::Unix(path) = &mut listener.address {
            fix(path);
        }
        if let Some(tls) = &mut listener.tls {
            fix(&mut tls.certificate);
            fix(&mut tls.key);
            tls.client_authority.iter_mut().for_each(&fix);
        }
    }
    if let Some(exchange) = &mut policy.exchange {
        fix(&mut exchange.key);
        exchange.record.iter_mut().for_each(&fix);
    }
    for backend in &mut policy.backends {
        match &mut backend.source {
            Source::File { path, .. } | Source::Directory { path, .. } => fix(path),
            Source::Store(store) => {
                store.drives.iter_mut().chain(&mut store.cache.drive).for_each(&fix);
            }
            Source::Ceph(volume) => {
                fix(&mut volume.conf);
                volume.keyring.iter_mut().for_each(&fix);
            }
            Source::Memory | Source::Tiered(_) | Source::Spread(_) => {}
            Source::Upstream(upstream) => {
                if let Address::Unix(path) = &mut upstream.address {
                    fix(path);
                }
                if let Some(tls) = &mut upstream.tls {
                    fix(&mut tls.authority);
                    if let Some((certificate, key)) = &mut tls.identity {
                        fix(certificate);
                        fix(key);
                    }
                }
            }
        }
    }
}

fn sentence(message: &str) -> String {
    message.trim().replace('\n', ", ")
}

#[cfg(test)]
mod tests;
