//! The house rules that neither rustc, clippy nor rustfmt knows; STYLE.md gives their reasons.
//!
//! A rule is a function from a file (or all files) to findings. A finding names the place and the
//! remedy. There is no list of exceptions: a rule that needs one is the wrong rule.

mod lines;
mod modules;
mod prose;
mod scan;
mod shape;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell;
use scan::blank_out_literals;

/// Folders that hold nothing of ours.
const SKIPPED_FOLDERS: &[&str] =
    &["target", ".git", "evenkeel-data", "corpus", "artifacts", "proptest-regressions"];

/// Checks every file of the project; fails with every finding printed.
pub(crate) fn run() -> Result<()> {
    let files = read_files(&shell::root())?;
    let mut findings: Vec<Finding> = files.iter().flat_map(check_file).collect();
    findings.extend(modules::unreachable(&files));
    findings.extend(prose::dead_links(&files));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} breaches of the house rules (STYLE.md gives the reasons)", findings.len());
    }
    eprintln!("tidy: {} files keep the house rules", files.len());
    Ok(())
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = lines::check(file);
    if file.is_rust() {
        findings.extend(shape::check(file));
    }
    findings
}

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: PathBuf,
    line: usize,
    remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.remedy)
    }
}

/// One text file of the project.
#[derive(Clone, Debug)]
struct File {
    /// Relative to the root.
    path: PathBuf,
    /// As it stands.
    text: String,
    /// The text of a Rust file with comments and literals blanked out, line for line; the text
    /// itself otherwise.
    code: String,
}

impl File {
    fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        let code = if is_rust { blank_out_literals(&text) } else { text.clone() };
        Self { path, text, code }
    }

    fn extension(&self) -> &str {
        self.path.extension().and_then(|extension| extension.to_str()).unwrap_or("")
    }

    fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    /// A finding at a line, counted from 1.
    fn finding(&self, line: usize, remedy: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, remedy: remedy.into() }
    }
}

fn read_files(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if is_ours(&path) {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("{}: not UTF-8?", path.display()))?;
                files.push(File::new(path.strip_prefix(root)?, text));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_ours(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    matches!(extension, "rs" | "toml" | "md" | "sh" | "yaml" | "json") || path.ends_with(".ci/run")
}
