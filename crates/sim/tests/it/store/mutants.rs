//! Every commit rule is needed: a store without it loses data, and these tests see it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use evenkeel_sim::disk::Tearing;
use evenkeel_store::{Rule, Rules};

use super::aged::{put_back, put_back_alone, split};
use super::clients::{Crowd, gather};
use super::cuts::{long, long_among_lives, long_among_volumes, with_room_for_copies};
use super::faults::{LYING, one_bad, vanishing};
use super::random::Ordeal;
use super::real::Setup;
use super::rotten::rot;

/// Seeds after which a rule counts as not needed.
const SEEDS_MAX: u64 = 3_000;

/// Everything that the tests do, with one seed.
fn trial(rule: Rule, seed: u64) -> Result<(), String> {
    let rules = match rule {
        // The age of a drive that is not marked tells as well.
        Rule::StaleBeforeAck => Rules::without_both([rule, Rule::OneTime]),
        _ => Rules::without(rule),
    };
    let ordeal = Ordeal { cuts: 6, commands_max: 300, tearing: Tearing::Sectors };
    let crowd = Crowd { clients: 6, cuts: 6, commands_max: 300, is_ragged: false };
    let [one, pair, chain] = [(1, 1), (2, 2), (3, 1)]
        .map(|(drives, copies)| Setup { rules, ..Setup::tiny(drives, copies) });
    match rule {
        Rule::LogOrder => gather(&one, crowd, seed).map(drop),
        Rule::StaleBeforeAck => vanishing(&pair, seed),
        Rule::OneTime => put_back(&pair, seed),
        Rule::KnownPosition => put_back_alone(&one, seed).map(drop),
        Rule::LookBehind | Rule::HeaderTwice => rot(&one, seed).map(drop),
        Rule::OneHistory => split(&pair, seed).map(drop),
        Rule::VerifyTags => one_bad(&pair, LYING, seed),
        // What was lost comes back where little was written since.
        Rule::FreshEpoch | Rule::RecordIdentity => {
            long(&pair, Ordeal { cuts: 12, commands_max: 90, ..ordeal }, seed)
        }
        // The store may notice by itself, by an assertion, before a client does.
        Rule::MoveEverywhere => {
            let setup = with_room_for_copies(&one);
            let work = || long_among_volumes(&setup, ordeal, seed);
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("it panicked".into()))
        }
        // Drives that refuse a write are a bug of the store, which an assertion notices.
        Rule::WriteAtPointer | Rule::ResetForReuse | Rule::ResetAfterCheckpoint => {
            let setup = Setup { rules, ..Setup::zoned(1, 1) };
            let work = || long(&setup, ordeal, seed);
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("it panicked".into()))
        }
        Rule::VolumeOrder => long_among_volumes(&with_room_for_copies(&one), ordeal, seed),
        _ => long(&one, ordeal, seed)
            .and_then(|()| long(&pair, ordeal, seed))
            .and_then(|()| long(&chain, ordeal, seed)),
    }
}

/// With volumes that come, grow, shrink and go, and nothing else.
fn trial_among_lives(rule: Rule, seed: u64) -> Result<(), String> {
    let ordeal = Ordeal { cuts: 6, commands_max: 300, tearing: Tearing::Sectors };
    let setup = Setup { rules: Rules::without(rule), ..Setup::tiny(1, 1) };
    let work = || long_among_lives(&with_room_for_copies(&setup), ordeal, seed);
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("it panicked".into()))
}

#[test]
fn rules_of_replay_are_needed_by_volumes_that_come_and_go_as_well() {
    for rule in [Rule::VolumeOrder, Rule::StopAtGap, Rule::CompareAndSwap, Rule::DeferReuse] {
        let caught = (0..SEEDS_MAX).find_map(|seed| trial_among_lives(rule, seed).err());
        println!("{rule:?}: {caught:?}");
        assert!(caught.is_some(), "{rule:?}: {SEEDS_MAX} seeds without a violation");
    }
}

#[test]
fn a_store_without_any_one_of_its_commit_rules_is_caught() {
    for rule in Rule::ALL {
        let caught = (0..SEEDS_MAX).find_map(|seed| trial(rule, seed).err());
        println!("{rule:?}: {caught:?}");
        assert!(caught.is_some(), "{rule:?}: {SEEDS_MAX} seeds without a violation");
    }
}
