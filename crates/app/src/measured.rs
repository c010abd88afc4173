//! What gates have measured of their backends, kept in the data folder beside their state.
//!
//! ```text
//! evenkeel serve --data DIR    --every minute, and at its end-->   DIR/measured.json
//! evenkeel check --data DIR    <--floors and written figures are held against it--
//! ```
//!
//! A backend is known by its name and by where its bytes are: another device under an old name was
//! not measured. What was seen of a short load does not replace what was seen of a long one.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use evenkeel_core::time::Span;
use evenkeel_engine::cost::Line;
use evenkeel_engine::cost::measured::{Measured, MeasuredLine, PROVEN_AFTER};
use evenkeel_engine::policy::Policy;
use evenkeel_engine::policy::admission::Measurements;
use evenkeel_io::gate::{GateReport, source_name};
use serde::{Deserialize, Serialize};

use crate::config;
use crate::ctl::seconds;

/// The file in the data folder.
pub(crate) const FILE: &str = "measured.json";

/// Its format.
const VERSION: u32 = 1;

/// The most that is read of it: a policy has some hundreds of backends at most.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Notebook {
    version: u32,
    backends: Vec<Entry>,
}

/// What every version of the file begins with.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// What was measured of one backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    backend: String,
    /// Where its bytes are.
    source: String,
    /// When the last of it was measured, in seconds since 1970.
    measured_unix_seconds: u64,
    load_seconds: f64,
    at_once: u32,
    read: Side,
    write: Side,
    flush_seconds: f64,
}

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Side {
    /// Of any request.
    fixed_seconds: f64,
    /// Of each MiB on top.
    mib_seconds: f64,
    /// Around which size that was measured; absent if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
}

/// When something was measured, for people and programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct WhenMeasured {
    /// So long ago.
    pub(crate) age_seconds: f64,
    /// Over so much load.
    pub(crate) load_seconds: f64,
    /// Whether that is enough to hold promises against.
    pub(crate) is_proven: bool,
}

impl Default for Notebook {
    fn default() -> Self {
        Self { version: VERSION, backends: Vec::new() }
    }
}

impl Notebook {
    /// What the data folder has; an empty one if it has none.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or is of another version.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let remedy = "remove it, and the gate will measure again";
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let mut text = String::new();
        io::Read::read_to_string(&mut io::Read::take(file, FILE_BYTES_MAX), &mut text)
            .with_context(|| format!("cannot read {}; {remedy}", path.display()))?;
        let damaged = || format!("{} is damaged; {remedy}", path.display());
        let Versioned { version } = serde_json::from_str(&text).with_context(damaged)?;
        anyhow::ensure!(
            version == VERSION,
            "{} is of version {version}, and this program knows {VERSION}; {remedy}",
            path.display()
        );
        let notebook: Self = serde_json::from_str(&text).with_context(damaged)?;
        anyhow::ensure!(notebook.backends.iter().all(Entry::is_sensible), damaged());
        Ok(notebook)
    }

    /// Puts it in the place of what was there, whole or not at all.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(FILE);
        let fresh = path.with_extension("new");
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        let write = || {
            fs::create_dir_all(folder)?;
            let mut file = fs::File::create(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Takes in what a gate has measured by now; true if anything is new.
    pub(crate) fn take(&mut self, report: &GateReport, policy: &Policy, now: SystemTime) -> bool {
        let policy = with_absolute_paths(policy);
        let mut is_new = false;
        for server in report.domains.iter().flat_map(|domain| &domain.servers) {
            // The cache of a store is no backend of its own.
            let backend = policy.backends.iter().find(|one| one.name == server.name);
            let (Some(backend), Some(measured)) = (backend, &server.measured) else { continue };
            let source = source_name(&backend.source);
            is_new |= self.put(Entry::new(&backend.name, source, measured, now));
        }
        is_new
    }

    fn put(&mut self, entry: Entry) -> bool {
        let Some(old) = self.backends.iter_mut().find(|one| one.backend == entry.backend) else {
            self.backends.push(entry);
            return true;
        };
        let needed = old.load_seconds.min(PROVEN_AFTER.as_secs_f64());
        let is_same_device = old.source == entry.source;
        // A gate that has measured nothing since has nothing new to say.
        let is_idle = is_same_device && old.load_seconds.to_bits() == entry.load_seconds.to_bits();
        if is_idle || is_same_device && entry.load_seconds < needed {
            return false;
        }
        *old = entry;
        true
    }

    /// What is known of the backends of a policy.
    pub(crate) fn of(&self, policy: &Policy) -> Measurements {
        self.entries(policy).map(|entry| (entry.backend.clone(), entry.measured())).collect()
    }

    /// When that was measured.
    pub(crate) fn age(
        &self,
        policy: &Policy,
        backend: &str,
        now: SystemTime,
    ) -> Option<WhenMeasured> {
        let entry = self.entries(policy).find(|entry| entry.backend == backend)?;
        let measured = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.measured_unix_seconds);
        Some(WhenMeasured {
            // A clock that was put back makes it no younger than now.
            age_seconds: now.duration_since(measured).unwrap_or_default().as_secs_f64(),
            load_seconds: entry.load_seconds,
            is_proven: entry.measured().is_proven(),
        })
    }

    fn entries(&self, policy: &Policy) -> impl Iterator<Item = &Entry> {
        let policy = with_absolute_paths(policy);
        self.backends.iter().filter(move |entry| {
            let backend = policy.backends.iter().find(|one| one.name == entry.backend);
            backend.is_some_and(|backend| source_name(&backend.source) == entry.source)
        })
    }
}

/// The same policy may be read from several folders.
fn with_absolute_paths(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    config::absolute(&mut policy);
    policy
}

impl Entry {
    fn new(backend: &str, source: String, measured: &Measured, now: SystemTime) -> Self {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            backend: backend.to_owned(),
            source,
            measured_unix_seconds: now.as_secs(),
            load_seconds: measured.load.as_secs_f64(),
            at_once: measured.at_once,
            read: Side::from(measured.read),
            write: Side::from(measured.write),
            flush_seconds: measured.flush.as_secs_f64(),
        }
    }

    fn measured(&self) -> Measured {
        Measured {
            read: self.read.measured(),
            write: self.write.measured(),
            flush: seconds(self.flush_seconds),
            at_once: self.at_once,
            load: seconds(self.load_seconds),
        }
    }

    fn is_sensible(&self) -> bool {
        let Self { read, write, .. } = self;
        let times = [
            self.load_seconds,
            self.flush_seconds,
            read.fixed_seconds,
            read.mib_seconds,
            write.fixed_seconds,
            write.mib_seconds,
        ];
        times.iter().all(|time| time.is_finite() && *time >= 0.0)
    }
}

impl From<MeasuredLine> for Side {
    fn from(MeasuredLine { line, size_bytes }: MeasuredLine) -> Self {
        Self {
            fixed_seconds: line.fixed.as_secs_f64(),
            mib_seconds: f64::from(1 << 20) / line.rate_bytes as f64,
            size_bytes,
        }
    }
}

impl Side {
    fn measured(self) -> MeasuredLine {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let rate_bytes = (f64::from(1 << 20) / self.mib_seconds).round() as u64;
        let line = Line { fixed: seconds(self.fixed_seconds), rate_bytes: rate_bytes.max(1) };
        MeasuredLine { line, size_bytes: self.size_bytes }
    }
}

impl WhenMeasured {
    /// When, for people.
    pub(crate) fn words(self) -> String {
        let ago =
            crate::human::duration(Span::from_secs(seconds(self.age_seconds).0 / 1_000_000_000));
        match self.age_seconds {
            age if age < 60.0 => "measured just now".to_owned(),
            _ => format!("measured {ago} ago"),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::report::{DomainReport, ServerReport};

    use super::*;
    use crate::terminal::assert_document;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn policy(file: &str) -> Policy {
        let text = format!(
            "listen = [\"unix:s\"]\n[[backend]]\nname = \"array\"\nfile = \"{file}\"\n\
             [[export]]\nname = \"db\"\n"
        );
        config::parse(&text, "p").unwrap()
    }

    fn report(load: Span, fixed: Span) -> GateReport {
        let side =
            |size_bytes| MeasuredLine { line: Line { fixed, rate_bytes: 40 << 20 }, size_bytes };
        let measured = Measured {
            read: side(Some(4096)),
            write: side(None),
            flush: Span::from_millis(2),
            at_once: 4,
            load,
        };
        let server = ServerReport {
            name: "array".to_owned(),
            measured: Some(measured),
            ..ServerReport::default()
        };
        let domain = DomainReport { servers: vec![server], ..DomainReport::default() };
        GateReport { domains: vec![domain], ..GateReport::default() }
    }

    const SHORT: Span = Span::from_secs(5);
    const LONG: Span = Span::from_secs(300);
    const FIXED: Span = Span::from_micros(500);

    #[test]
    fn what_is_kept_reads_as_it_was_written_and_has_a_version() {
        let folder = tempfile::tempdir().unwrap();
        let policy = policy("/dev/sdb");
        assert_eq!(Notebook::read(folder.path()).unwrap(), Notebook::default());
        let mut notebook = Notebook::default();
        assert!(notebook.take(&report(LONG, FIXED), &policy, at(1_800_000_000)));
        notebook.write(folder.path()).unwrap();
        assert_eq!(Notebook::read(folder.path()).unwrap(), notebook);
        let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_document("crates/app/testdata/measured.json", &text);
        let measured = notebook.of(&policy)["array"];
        assert_eq!(Some(measured), report(LONG, FIXED).domains[0].servers[0].measured);
    }

    #[test]
    fn what_is_damaged_or_of_another_version_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let good = serde_json::to_string(&Notebook::default()).unwrap();
        let endless = r#"{"version":1,"backends":[{"backend":"a","source":"b","at_once":1,
            "measured_unix_seconds":1,"load_seconds":-1.0,"flush_seconds":0.0,
            "read":{"fixed_seconds":0.0,"mib_seconds":0.0},
            "write":{"fixed_seconds":0.0,"mib_seconds":0.0}}]}"#;
        for (text, why) in [
            ("", "damaged"),
            (&good[..good.len() - 1], "damaged"),
            (endless, "damaged"),
            (&good.replace(":1,", ":2,"), "version 2"),
        ] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let error = format!("{:#}", Notebook::read(folder.path()).unwrap_err());
            assert!(error.contains(why) && error.contains(FILE), "{error}");
            assert!(error.contains("remove it"), "{error}");
        }
    }

    #[test]
    fn a_moment_does_not_replace_what_was_measured_for_long() {
        let policy = policy("/dev/sdb");
        let mut notebook = Notebook::default();
        assert!(notebook.take(&report(SHORT, FIXED), &policy, at(0)));
        assert!(!notebook.take(&report(SHORT, FIXED), &policy, at(60)), "nothing came since");
        assert!(notebook.take(&report(LONG, FIXED), &policy, at(300)));
        assert!(!notebook.take(&report(SHORT, FIXED), &policy, at(400)), "of a fresh gate");
        assert!(notebook.take(&report(PROVEN_AFTER, FIXED), &policy, at(500)));
        let age = notebook.age(&policy, "array", at(530)).unwrap();
        assert!(age.is_proven && age.words() == "measured just now", "{age:?}");
        let words = notebook.age(&policy, "array", at(4100)).unwrap().words();
        assert_eq!(words, "measured 1h00m ago");
    }

    #[test]
    fn another_device_under_an_old_name_was_not_measured() {
        let mut notebook = Notebook::default();
        assert!(notebook.take(&report(LONG, FIXED), &policy("/dev/sdb"), at(0)));
        assert!(notebook.of(&policy("/dev/sdc")).is_empty());
        assert_eq!(notebook.age(&policy("/dev/sdc"), "array", at(0)), None);
        assert!(notebook.take(&report(SHORT, FIXED), &policy("/dev/sdc"), at(60)));
        assert!(notebook.of(&policy("/dev/sdb")).is_empty());
    }
}
