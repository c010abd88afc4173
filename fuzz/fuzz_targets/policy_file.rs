//! Any text as a policy file: parsing is total, its findings can be shown, and a policy that is
//! accepted prints as a file that means the same.
//!
//! The modules of the product that this takes are compiled here: all of the product would be most
//! of what the fuzz targets are built from.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the product has more uses for its modules")]

#[path = "../../crates/io/src/built.rs"]
mod built;
#[path = "../../crates/app/src/config/mod.rs"]
mod config;
#[path = "../../crates/app/src/units.rs"]
mod units;

use config::{parse, parse_all, print};
use libfuzzer_sys::fuzz_target;

/// In place of the simulator's models of disks, of which a policy needs no more than the names.
mod emulate {
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ["sata-10k-2013", "cheetah-9lp"].into_iter()
    }

    pub(crate) fn known() -> String {
        names().collect::<Vec<_>>().join(", ")
    }
}

fuzz_target!(|text: &str| {
    let parsed = parse_all(text, "policy.toml");
    let _ = (parsed.diagnostics.render(true), parsed.diagnostics.to_json());
    if let Some(policy) = parsed.policy {
        assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
    }
});
