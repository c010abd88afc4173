//! Hard disk drives against the recordings of the real ones.

use std::io::Write;
use std::path::PathBuf;

use evenkeel_sim::device::hdd::{reproduce, validate};

/// The recording of a drive, or nothing, said aloud, where there are no recordings.
fn recording(name: &str) -> Option<Vec<validate::Measured>> {
    let Some(folder) = std::env::var_os("EVENKEEL_TRACES") else {
        tell_skip("EVENKEEL_TRACES names no folder with recordings of drives");
        return None;
    };
    let path = PathBuf::from(folder).join("measured-drives").join(format!("{name}.trace.zst"));
    let packed = std::fs::read(path).expect("the folder of EVENKEEL_TRACES holds it");
    let text = zstd::stream::decode_all(&packed[..]).expect("a zstd file");
    Some(validate::recording(&String::from_utf8(text).expect("text")).expect("a recording"))
}

/// Says that the running test is skipped, and why: on the terminal, and in the file that the
/// summary of the test ladder repeats.
fn tell_skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed test");
    eprintln!("SKIPPED {test}: {why}");
    if let Some(path) = std::env::var_os("EVENKEEL_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "{test}: {why}"));
        written.expect("the file that EVENKEEL_SKIPS names can be written");
    }
}

fn assert_close(drive: &str) {
    let listed = reproduce::recordings();
    let listed =
        listed.iter().find(|recording| recording.drive == drive).expect("a built-in drive");
    let Some(requests) = recording(&listed.file) else { return };
    let row = reproduce::demerit(listed, &requests);
    println!("{}: {} (DiskSim: {})", row.name, row.ours, row.reference);
    assert!(row.holds(), "{}: {}, not {:?}", row.name, row.ours, row.tolerance);
}

#[test]
fn the_cheetah_9lp_answers_like_the_real_drive() {
    assert_close("cheetah-9lp");
}

#[test]
fn the_atlas_10k_answers_like_the_real_drive() {
    assert_close("atlas-10k");
}

#[test]
fn the_barracuda_answers_like_the_real_drive() {
    assert_close("barracuda");
}

#[test]
fn the_hp_c2247a_answers_like_the_real_drive() {
    assert_close("hp-c2247a");
}

#[test]
fn eight_striped_drives_have_disksims_throughput_and_latency_at_every_depth() {
    let rows = reproduce::depth_table(20_000, 1);
    assert_eq!(rows.len(), 7 * 6 * 2);
    for row in rows {
        assert!(row.holds(), "{}: {} instead of {}", row.name, row.ours, row.reference);
    }
}
