//! Names the commit that a release was built from. Development builds do not ask, so that a commit
//! does not force a rebuild.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=EVENKEEL_COMMIT");
    let named = std::env::var("EVENKEEL_COMMIT").ok();
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = named.or_else(|| if release { head() } else { None });
    let commit = commit.unwrap_or_else(|| "development".to_owned());
    println!("cargo::rustc-env=EVENKEEL_COMMIT={commit}");
    let target = std::env::var("TARGET").expect("cargo sets TARGET for build scripts");
    println!("cargo::rustc-env=EVENKEEL_TARGET={target}");
    if release {
        println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

fn head() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
