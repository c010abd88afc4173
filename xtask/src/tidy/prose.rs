//! Links in documents lead somewhere.

use std::path::{Component, Path, PathBuf};

use super::{File, Finding};
use crate::shell;

/// Relative links to files that are not there.
pub(super) fn dead_links(files: &[File]) -> Vec<Finding> {
    let is_there = |path: &Path| shell::root().join(path).exists();
    files
        .iter()
        .filter(|file| file.extension() == "md")
        .flat_map(|file| check(file, is_there))
        .collect()
}

fn check(file: &File, is_there: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let folder = file.path.parent().unwrap_or_else(|| Path::new(""));
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for target in targets(line) {
            if !is_there(&normal(&folder.join(target))) {
                findings.push(file.finding(index + 1, format!("`{target}` is not there")));
            }
        }
    }
    findings
}

/// The files that a line's links name.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_links_are_followed_from_their_own_folder() {
        let text = "[a](../x.md#part) [b](y.md) [c](https://z) [d](#here)\n[e](gone.md)\n";
        let file = File::new("docs/page.md", text);
        let found =
            check(&file, |path| path == Path::new("x.md") || path == Path::new("docs/y.md"));
        let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["docs/page.md:2: `gone.md` is not there"]);
    }
}
