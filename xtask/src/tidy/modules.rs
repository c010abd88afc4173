//! Every Rust file is compiled: it is a root that cargo finds by itself, or a `mod` line names it.
//! And a package has one integration test binary, since each costs a link and a start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{File, Finding};

/// Files that no root reaches, and test binaries beside `tests/it`.
pub(super) fn unreachable(files: &[File]) -> Vec<Finding> {
    let rust: BTreeMap<&Path, &File> = files
        .iter()
        .filter(|file| file.is_rust())
        .map(|file| (file.path.as_path(), file))
        .collect();
    let packages: Vec<&Path> = files
        .iter()
        .filter(|file| file.path.ends_with("Cargo.toml"))
        .filter_map(|file| file.path.parent())
        .collect();
    let roots: Vec<&File> =
        rust.values().copied().filter(|file| is_root(&file.path, &packages)).collect();
    let mut findings: Vec<Finding> = roots.iter().copied().filter_map(second_binary).collect();
    let reached = reach(&rust, &roots);
    let dead = rust.values().filter(|file| !reached.contains(file.path.as_path()));
    findings.extend(
        dead.map(|file| {
            file.finding(1, "nothing compiles it: name it in a `mod` line, or delete it")
        }),
    );
    findings
}

fn reach<'a>(rust: &BTreeMap<&'a Path, &'a File>, roots: &[&'a File]) -> BTreeSet<PathBuf> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<(&File, PathBuf)> =
        roots.iter().map(|file| (*file, folder_of(&file.path))).collect();
    while let Some((file, folder)) = open.pop() {
        if !reached.insert(file.path.clone()) {
            continue;
        }
        for name in module_lines(&file.code) {
            let flat = folder.join(format!("{name}.rs"));
            let nested = folder.join(name).join("mod.rs");
            for path in [flat, nested] {
                if let Some(found) = rust.get(path.as_path()) {
                    open.push((found, folder.join(name)));
                }
            }
        }
    }
    reached
}

/// The names in lines such as `pub(crate) mod name;`.
fn module_lines(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let declaration = line.trim().strip_suffix(';')?;
        let (before, name) = declaration.rsplit_once("mod ")?;
        let is_visibility = before.trim().is_empty() || before.trim().starts_with("pub");
        is_visibility.then_some(name.trim())
    })
}

/// Whether cargo compiles the file without being told.
fn is_root(path: &Path, packages: &[&Path]) -> bool {
    let package = packages.iter().filter(|package| path.starts_with(package));
    let Some(package) = package.max_by_key(|package| package.components().count()) else {
        return false;
    };
    let inside = path.strip_prefix(package).unwrap_or(path);
    let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    matches!(
        parts[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["tests" | "benches" | "examples" | "fuzz_targets", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

fn second_binary(root: &File) -> Option<Finding> {
    let folder = folder_of(&root.path);
    let is_test =
        folder.ends_with("tests") || folder.parent().is_some_and(|up| up.ends_with("tests"));
    let remedy = "a second test binary: make it a module of tests/it/main.rs";
    (is_test && !folder.ends_with("tests/it")).then(|| root.finding(1, remedy))
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or_else(|| Path::new("")).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let mut files: Vec<_> = files.iter().map(|(path, text)| File::new(*path, *text)).collect();
        files.push(File::new("a/Cargo.toml", ""));
        unreachable(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn modules_are_followed_flat_and_nested() {
        let found = check(&[
            ("a/src/lib.rs", "pub mod x;\nmod y;\n"),
            ("a/src/x.rs", "pub(crate) mod z;\n"),
            ("a/src/x/z.rs", ""),
            ("a/src/y/mod.rs", "mod w;\n"),
            ("a/src/y/w.rs", ""),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_file_that_no_line_names_is_dead() {
        let found = check(&[("a/src/lib.rs", "// mod x;\n"), ("a/src/x.rs", "")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a/src/x.rs:1: nothing compiles it"));
    }

    #[test]
    fn one_test_binary_per_package() {
        assert!(check(&[("a/tests/it/main.rs", "mod x;\n"), ("a/tests/it/x.rs", "")]).is_empty());
        assert_eq!(check(&[("a/tests/more.rs", "")]).len(), 1);
    }
}
