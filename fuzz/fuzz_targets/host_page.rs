//! Pages on which hosts tell of themselves: any two of them, one after the other, are read, and
//! what they come to is within its bounds.
#![no_main]

use evenkeel_engine::spread::host_page::Sample;
use libfuzzer_sys::fuzz_target;

/// Lines whose names are right, since noise hardly ever has them.
fn page(data: &str) -> String {
    const NAMES: [&str; 4] = [
        "node_memory_MemTotal_bytes",
        "node_memory_MemAvailable_bytes",
        "node_cpu_seconds_total{mode=\"idle\"}",
        "node_cpu_seconds_total{mode=\"user\"}",
    ];
    let lines = NAMES.iter().cycle().zip(data.split(' '));
    lines.map(|(name, value)| format!("{name} {value}\n")).collect()
}

fuzz_target!(|texts: (&str, &str)| {
    let _ = Sample::read(texts.0);
    let (before, after) = (Sample::read(&page(texts.0)), Sample::read(&page(texts.1)));
    if let Some(after) = after {
        let figures = after.figures(before.as_ref());
        assert!(figures.cpu_milli <= 1000);
    }
});
