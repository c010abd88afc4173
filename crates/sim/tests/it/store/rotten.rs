//! Headers of records rot after a power cut: what was flushed is there all the same, restored from
//! the headers of the next records.
//!
//! Only those rot here of which a later record says that they were durable. That the last one was
//! flushed, nothing on a drive says, unless the store rested behind it.

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, Tearing};
use evenkeel_store::format::record::{Kind, RecordHeader};

use super::crash::{format, recover};
use super::cuts::points;
use super::history::History;
use super::random::{Calm, Ordeal, endure_on};
use super::real::{Real, Setup};
use super::subject::Acts;

const ORDEAL: Ordeal = Ordeal { cuts: 1, commands_max: 300, tearing: Tearing::Sectors };

/// The headers of clients' records on a medium, by their places.
fn headers(disk: &CrashDisk) -> Vec<(u64, RecordHeader)> {
    let medium = disk.medium();
    let places = (0..medium.occupied_blocks()).filter_map(|skip| medium.occupied_block(skip));
    let header = |place: u64| {
        let mut block = [0; 4096];
        medium.read(place, &mut block).ok()?;
        let header = RecordHeader::decode(&block).ok()?;
        (header.kind == Kind::User).then_some((place, header))
    };
    places.filter_map(header).collect()
}

/// Has one header rot. Whether there was one.
///
/// # Errors
/// What is old or wrong without a word.
pub(crate) fn rot(setup: &Setup, seed: u64) -> Result<bool, String> {
    let mut prng = Prng::new(seed);
    let mut scene = format::<Real>(setup);
    let mut acts = Acts::new(seed);
    let client = Calm(move |history: &History| acts.draw(history.now()));
    endure_on::<Real>(setup, &mut scene, ORDEAL, seed, client)?;
    let all: Vec<_> = (0..).zip(scene.disks.iter().map(headers)).collect();
    let is_known_durable = |header: &RecordHeader| {
        let mut others = all.iter().flat_map(|(_, headers)| headers);
        others.any(|(_, other)| {
            let is_of_mount = other.identity.mount == header.identity.mount;
            is_of_mount && other.durable.0 >= header.sequence
        })
    };
    let is_repeated = |header: &RecordHeader| {
        let mut others = all.iter().flat_map(|(_, headers)| headers);
        others.any(|(_, other)| {
            let is_of_mount = other.identity.mount == header.identity.mount;
            is_of_mount && other.sequence == header.sequence + 1
        })
    };
    let mut victims: Vec<(usize, u64, bool)> = Vec::new();
    for (disk, headers) in &all {
        let durable = headers.iter().filter(|(_, header)| is_known_durable(header));
        victims.extend(durable.map(|(place, header)| (*disk, *place, is_repeated(header))));
    }
    if victims.is_empty() {
        return Ok(false);
    }
    let chosen = usize::try_from(prng.below(victims.len() as u64)).expect("few");
    let (disk, place, is_repeated) = victims[chosen];
    scene.disks[disk].damage(|medium| medium.rot(place, prng.below(100 * 8)));
    match recover::<Real>(setup, &mut scene) {
        // The cleaner's headers say that it was durable, and no client's repeats it.
        Err(refusal) if !is_repeated && refusal.contains("of the log is damaged") => Ok(true),
        outcome => outcome.map(|()| true).map_err(|error| format!("seed {seed}: {error}")),
    }
}

#[test]
fn a_header_that_rots_is_never_the_end_of_the_log() {
    let mut rotten = 0;
    for seed in 0..points(20) {
        for (drives, copies) in [(1, 1), (3, 1), (2, 2)] {
            match rot(&Setup::tiny(drives, copies), seed) {
                Ok(was_there) => rotten += u64::from(was_there),
                Err(violation) => panic!("{drives} drives: {violation}"),
            }
        }
    }
    assert!(rotten > points(20), "{rotten} headers");
}
