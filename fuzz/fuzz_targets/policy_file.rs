//! Any text as a policy file: parsing is total, its findings can be shown, and a policy that is
//! accepted prints as a file that means the same.
#![no_main]

use evenkeel_app::config::{parse, parse_all, print};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parsed = parse_all(text, "policy.toml");
    let _ = (parsed.diagnostics.render(true), parsed.diagnostics.to_json());
    if let Some(policy) = parsed.policy {
        assert_eq!(parse(&print(&policy), "printed"), Ok(policy));
    }
});
