//! Any text as a policy file: parsing is total, its findings can be shown, and a policy that is
//! accepted prints as a file that means the same.
//!
//! The modules of the product that this takes are compiled here: all of the product would be most
//! of what the fuzz targets are built from.
#![no_main]
#![allow(dead_code, reason = "the product has more uses for its modules than this target")]

#[path = "../../crates/app/src/config/mod.rs"]
mod config;
#[path = "../../crates/app/src/emulate.rs"]
mod emulate;
#[path = "../../crates/app/src/units.rs"]
mod units;

use config::{parse, parse_all, print};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parsed = parse_all(text, "policy.toml");
    let _ = (parsed.diagnostics.render(true), parsed.diagnostics.to_json());
    if let Some(policy) = parsed.policy {
        assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
    }
});
