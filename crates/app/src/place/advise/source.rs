//! Where the cluster's words come from: files, or the `ceph` command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::exit::Exit;

/// Most bytes of one document: 10,000 OSDs with 100 groups each print some 200 MiB.
const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

/// Where to read.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Source {
    /// What `ceph osd df tree -f json` printed; without it, `ceph` is run.
    #[arg(long, value_name = "FILE", requires = "pgs", requires = "dump")]
    df: Option<PathBuf>,
    /// What `ceph pg dump -f json` printed.
    #[arg(long, value_name = "FILE", requires = "df")]
    pgs: Option<PathBuf>,
    /// What `ceph osd dump -f json` printed.
    #[arg(long, value_name = "FILE", requires = "df")]
    dump: Option<PathBuf>,
    /// The map that `ceph osd getmap -o FILE` wrote, for a comparison with upmap.
    #[arg(long, value_name = "FILE")]
    osdmap: Option<PathBuf>,
    /// The configuration file with which `ceph` is run.
    #[arg(long, value_name = "FILE", conflicts_with = "df")]
    conf: Option<PathBuf>,
}

/// What the cluster says.
pub(super) struct Texts {
    /// Of `osd df tree`.
    pub(super) df: String,
    /// Of `pg dump`.
    pub(super) pgs: String,
    /// Of `osd dump`.
    pub(super) dump: String,
}

impl Source {
    /// All documents.
    ///
    /// # Errors
    /// [`Exit::Runtime`] for files that cannot be read, [`Exit::Unreachable`] if `ceph` is missing
    /// or does not reach its cluster.
    pub(super) fn read(&self) -> anyhow::Result<Texts> {
        if let (Some(df), Some(pgs), Some(dump)) = (&self.df, &self.pgs, &self.dump) {
            return Ok(Texts { df: file(df)?, pgs: file(pgs)?, dump: file(dump)? });
        }
        Ok(Texts {
            df: self.ask(&["osd", "df", "tree", "-f", "json"])?,
            pgs: self.ask(&["pg", "dump", "-f", "json"])?,
            dump: self.ask(&["osd", "dump", "-f", "json"])?,
        })
    }

    /// The binary map of the cluster as a file, in `folder` if it has to be fetched; none if all
    /// else comes from files and no map does.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn osdmap(&self, folder: &Path) -> anyhow::Result<Option<PathBuf>> {
        if self.osdmap.is_some() || self.df.is_some() {
            return Ok(self.osdmap.clone());
        }
        let path = folder.join("osdmap");
        let name = path.to_string_lossy();
        self.ask(&["osd", "getmap", "-o", &name])?;
        Ok(Some(path))
    }

    fn ask(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("ceph");
        // A cluster that is gone is waited for without end unless told otherwise.
        command.args(["--connect-timeout", "10"]);
        if let Some(conf) = &self.conf {
            command.arg("--conf").arg(conf);
        }
        let output = command.args(arguments).stdin(Stdio::null()).output().map_err(|error| {
            Exit::Unreachable.because(format!(
                "cannot run `ceph` ({error}); install ceph-common, or give --df, --pgs and --dump"
            ))
        })?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            let last = words.trim().lines().next_back().unwrap_or("without a word").to_owned();
            let what = format!("`ceph {}` failed: {last}", arguments.join(" "));
            return Err(Exit::Unreachable.because(what));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn file(path: &Path) -> anyhow::Result<String> {
    let size_bytes = std::fs::metadata(path).map(|data| data.len());
    let text = size_bytes.and_then(|bytes| match bytes {
        bytes if bytes > DOCUMENT_BYTES_MAX => Err(std::io::ErrorKind::FileTooLarge.into()),
        _ => std::fs::read_to_string(path),
    });
    text.map_err(|error| Exit::Runtime.because(format!("cannot read {}: {error}", path.display())))
}
