//! Hard disk drives against the recordings of the real ones.

use std::path::PathBuf;

use evenkeel_core::time::Span;
use evenkeel_sim::device::hdd::{Hdd, Parameters, Policy, validate};

/// The recording of a drive, or nothing, said aloud, where there are no recordings.
fn recording(name: &str) -> Option<Vec<validate::Measured>> {
    let Some(folder) = std::env::var_os("EVENKEEL_TRACES") else {
        println!("skipped: EVENKEEL_TRACES names no folder with recordings of drives");
        return None;
    };
    let path = PathBuf::from(folder).join("measured-drives").join(format!("{name}.trace.zst"));
    let packed = std::fs::read(path).expect("the folder of EVENKEEL_TRACES holds it");
    let text = zstd::stream::decode_all(&packed[..]).expect("a zstd file");
    Some(validate::recording(&String::from_utf8(text).expect("text")).expect("a recording"))
}

fn assert_close(drive: &str, recorded: &str, most_ns: u64) {
    let Some(recording) = recording(recorded) else { return };
    let mut model = Hdd::new(&Parameters::built_in(drive).unwrap(), Policy::Fcfs);
    let ours = validate::replay_closed(&mut model, &recording);
    let real: Vec<_> = recording.iter().map(|request| request.response).collect();
    let [demerit, ours, real] =
        [validate::demerit(&ours, &real), validate::mean(&ours), validate::mean(&real)];
    println!("{drive}: demerit {demerit}, mean {ours}, real mean {real}");
    assert!(demerit <= Span(most_ns), "{drive}: demerit {demerit}");
}

#[test]
fn the_cheetah_9lp_answers_like_the_real_drive() {
    assert_close("cheetah-9lp", "cheetah9LP", 150_000);
}

#[test]
fn the_atlas_10k_answers_like_the_real_drive() {
    assert_close("atlas-10k", "atlas10k", 2 * 268_000);
}

#[test]
fn the_barracuda_answers_like_the_real_drive() {
    assert_close("barracuda", "barracuda", 2 * 349_000);
}
