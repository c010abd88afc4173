//! Hard disk drives against the recordings of the real ones.

use std::io::Write;
use std::path::PathBuf;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_sim::device::hdd::recording::{self, Measured};
use evenkeel_sim::device::hdd::{Hdd, Parameters, Policy, reproduce};
use evenkeel_sim::device::{Device, Op, Step};
use proptest::prelude::*;

/// The recording of a drive, or nothing, said aloud, where there are no recordings.
fn recording(name: &str) -> Option<Vec<Measured>> {
    let Some(folder) = std::env::var_os("EVENKEEL_TRACES") else {
        tell_skip("EVENKEEL_TRACES names no folder with recordings of drives");
        return None;
    };
    let path = PathBuf::from(folder).join("measured-drives").join(format!("{name}.trace.zst"));
    let packed = std::fs::read(path).expect("the folder of EVENKEEL_TRACES holds it");
    let text = zstd::stream::decode_all(&packed[..]).expect("a zstd file");
    Some(recording::parse(&String::from_utf8(text).expect("text")).expect("a recording"))
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

/// The figures of a drive with one number in another's place.
fn altered(drive: &str, place: usize, number: &str) -> String {
    let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let text: Vec<&str> = drive.split_inclusive([' ', ',', '[', ']', '\n']).collect();
    let numbers: Vec<usize> = (0..text.len()).filter(|at| is_number(&text[*at])).collect();
    let chosen = numbers[place % numbers.len()];
    let word = |(at, word): (usize, &&str)| {
        if at != chosen {
            return (*word).to_owned();
        }
        let end = word.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == '_');
        format!("{number}{end}")
    };
    text.iter().enumerate().map(word).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever figures somebody writes down: they are refused, or the drive answers.
    #[test]
    fn figures_are_refused_or_make_a_drive_that_answers(
        drive in prop::sample::select(vec![
            include_str!("../../drives/cheetah-9lp.toml"),
            include_str!("../../drives/hp-c2247a.toml"),
        ]),
        changes in prop::collection::vec((any::<usize>(), prop::sample::select(vec![
            "-1", "0", "1", "2", "13", "255", "999", "65535", "999999", "1_000_000_000",
            "4294967295", "9223372036854775807", "-9223372036854775808",
        ])), 1..4),
        places in prop::collection::vec((any::<bool>(), any::<u64>(), 1..600_u64), 12),
    ) {
        let text = changes.iter().fold(drive.to_owned(), |text, (place, number)| {
            altered(&text, *place, number)
        });
        let Ok(parameters) = Parameters::parse(&text) else { return Ok(()) };
        let mut drive = Hdd::new(&parameters, Policy::Sptf);
        let size = drive.size_bytes();
        let mut now = Nanos::ZERO;
        let mut answered = 0;
        for (tag, (is_read, place, sectors)) in (0..).zip(&places) {
            let kind = if *is_read { Kind::Read } else { Kind::Write };
            let length = (sectors * 512).min(size);
            let offset = place % (size - length + 1);
            drive.submit(now, Op { tag, kind, offset, length });
        }
        loop {
            match drive.poll(now) {
                Step::Done { .. } => answered += 1,
                Step::WaitUntil(next) => now = next,
                Step::Idle => break,
            }
        }
        prop_assert_eq!(answered, places.len());
    }

    /// No text stops the parser, and what it reads has bounds.
    #[test]
    fn a_recording_is_read_within_its_bounds_or_refused(
        text in "([RWx] [a-z]{1,3} [0-9]{1,20} [0-9]{1,7} [0-9.+e-]{1,12} [0-9.]{1,14}\n){1,4}",
    ) {
        if let Ok(requests) = recording::parse(&text) {
            for request in requests {
                let Measured { sector, sectors, response, gap, .. } = request;
                prop_assert!(sectors > 0 && sector.checked_add(sectors).is_some());
                prop_assert!(response.0.max(gap.0) <= 3_600_000_000_000);
            }
        }
    }
}
