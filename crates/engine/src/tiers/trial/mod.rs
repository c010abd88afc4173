//! Moves on trial: clients that read, write, force and flush while extents move, on drives with
//! volatile caches that reorder, tear and fail, with the power cut at every event; and each rule of
//! [`super::rules`] broken, to see that it would be noticed.

mod kit;
mod late;
mod leased;

use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Limit;
use evenkeel_core::time::Span;
pub(crate) use kit::Tiers;
use kit::{EXTENT_BYTES, World, domain};

use super::rules::Mutant;
use super::{Opening, RefusalReason};
use crate::notes::PartDevice;
use crate::policy::Mode;
use crate::trial::care::{self, Cared};
use crate::trial::damage::{self, Broken, Fault, Harm};
use crate::trial::disk::{Cut, Disk, index};
use crate::trial::names::names;
use crate::trial::world::{self, Act, Faults, Kit};
use crate::trial::{self, assert_clean, assert_noticed};

/// How a trial goes.
#[derive(Clone, Copy)]
struct Trial {
    mutant: Option<Mutant>,
    faults: Faults,
    /// After one in so many events the power is cut, on a copy of the world; never if 0.
    cut_each: u64,
    /// How often the host dies, in thousandths of events.
    deaths: u64,
    /// How many commands in a hundred take very long.
    stuck: u64,
    turns: u32,
}

const QUIET: Trial =
    Trial { mutant: None, faults: Faults::NONE, cut_each: 0, deaths: 0, stuck: 0, turns: 400 };

/// Clients at an extent that moves back and forth, and now and then elsewhere.
fn run(seed: u64, trial: Trial) -> Result<World, String> {
    let mut world = World::new(seed, trial.mutant);
    world.kit.is_one_process = seed.is_multiple_of(2);
    world.kit.broken.own = trial.mutant;
    world.faults = trial.faults;
    world.stuck = trial.stuck;
    let mut prng = Prng::new(seed ^ 0x5eed);
    let hot = u32::try_from(index(&mut prng, 5)).unwrap();
    // Few writes under way let moves converge; many try the drain.
    let clients_max = 1 + index(&mut prng, 6);
    for _ in 0..trial.turns {
        let extent =
            if prng.below(8) == 0 { u32::try_from(index(&mut prng, 5)).unwrap() } else { hot };
        if prng.below(4) == 0 {
            world.begin_move(extent);
            world.drain()?;
        }
        if world.clients() < clients_max && prng.below(3) == 0 {
            let acts =
                [Act::Read, Act::Read, Act::Write, Act::Write, Act::Force, Act::Zero, Act::Flush];
            let act = acts[index(&mut prng, acts.len())];
            let within = if prng.below(16) == 0 {
                world.sectors()
            } else {
                let all = World::sectors_of(extent);
                // Mostly the same few sectors, so that requests meet.
                if prng.below(2) == 0 { all.start + 4..all.start + 14 } else { all }
            };
            world.act(act, within);
            world.drain()?;
        } else {
            world.complete_one()?;
        }
        world.check_cuts_each(trial.cut_each, &mut prng)?;
        world.perhaps_die(trial.deaths, &mut prng)?;
    }
    world.settle()?;
    let all_back = world.sectors();
    world.act(Act::Flush, all_back);
    world.drain()?;
    world.settle()?;
    Ok(world)
}

impl trial::Trial for Trial {
    fn run(self, seed: u64) -> Result<(), String> {
        run(seed, self).map(drop)
    }
}

#[test]
fn every_read_brings_the_last_write_or_one_under_way() {
    let mut done = 0;
    for seed in 0..150 {
        let mut world = run(seed, QUIET).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        done += world.report().moves.done;
        assert_eq!(world.errors, 0);
    }
    assert!(done > 500, "{done} moves");
    assert_clean(0..40, Trial { stuck: 10, turns: 2000, ..QUIET });
}

#[test]
fn a_power_cut_at_any_event_of_a_move_loses_nothing_that_was_promised() {
    assert_clean(0..40, Trial { cut_each: 1, ..QUIET });
}

#[test]
fn hosts_may_die_again_and_again_also_while_opening() {
    assert_clean(0..60, Trial { deaths: 20, turns: 2000, ..QUIET });
}

#[test]
fn errors_of_drives_lose_nothing_that_was_promised() {
    let faults = Faults::ANY;
    assert_clean(0..40, Trial { faults, cut_each: 1, ..QUIET });
    assert_clean(100..160, Trial { faults, deaths: 20, turns: 1500, ..QUIET });
}

#[test]
fn an_extent_in_doubt_can_be_read_and_not_written_until_its_record_is_noted() {
    for seed in 0..60 {
        let mut world = World::new(seed, None);
        world.faults = Faults { notes: 75, ..Faults::NONE };
        while world.in_doubt().is_none() {
            world.begin_move(1);
            world.drain().unwrap();
            if world.commands() == 0 {
                world.pass(Span::from_secs(10));
            } else {
                world.complete_one().unwrap();
            }
        }
        let done = world.report().moves.done;
        world.faults = Faults { notes: 100, ..Faults::NONE };
        let ask = |world: &mut World, act, extent| {
            let before = world.errors;
            world.act_on(act, World::sectors_of(extent));
            world.drain().unwrap();
            while world.clients() > 0 {
                assert!(world.complete_one().unwrap(), "seed {seed}: it is answered");
            }
            world.errors - before
        };
        let began = world.now();
        assert_eq!(ask(&mut world, Act::Read, 1), 0);
        assert_eq!(ask(&mut world, Act::Write, 1), 1, "refused");
        assert_eq!(ask(&mut world, Act::Write, 2), 0, "the others are served");
        assert!(world.now().since(began) < Span::from_secs(1), "nobody waits");
        world.pass(Span::from_secs(600));
        assert_eq!(world.in_doubt(), Some(1), "it is tried again, in vain");
        world.faults = Faults::NONE;
        let began = world.now();
        world.settle().unwrap();
        assert!(world.now().since(began) <= Span::from_secs(60), "seed {seed}: soon enough");
        assert_eq!((world.in_doubt(), world.report().moves.done), (None, done + 1), "it heals");
        assert_eq!(ask(&mut world, Act::Write, 1), 0);
        world.begin_move(1);
        world.drain().unwrap();
        world.settle().unwrap();
        assert_eq!(world.report().moves.done, done + 2, "and moves again");
    }
}

/// The last record of a journal lies in the drive's cache alone when the volume is opened.
fn reread_record(rule: Option<Mutant>) -> Result<(), String> {
    let mut world = World::new(1, None);
    world.kit.broken.own = rule;
    world.act_on(Act::Force, world.sectors());
    world.drain()?;
    world.begin_move(0);
    world.drain()?;
    world.settle()?;
    let last = *Tiers::in_use(&world).last().expect("a record was noted");
    damage::reread(&mut world, &[(last.0, last.1 - 4096), last])
}

#[test]
fn a_record_that_was_only_read_is_noted_again_before_it_counts() {
    reread_record(None).unwrap();
    println!("{}", reread_record(Some(Mutant::TrustCache)).unwrap_err());
}

#[test]
fn a_tier_that_fails_for_a_while_stops_no_move_for_good() {
    for seed in 0..40 {
        let faults = Faults { writes: 100, flushes: 100, notes: 100 };
        let mut world = World::new(seed, None);
        world.faults = faults;
        for turn in 0..20 {
            world.begin_move(turn % 5);
            world.drain().unwrap();
            world.settle().unwrap();
            world.pass(Span::from_secs(11));
        }
        assert_eq!(world.report().moves.done, 0, "seed {seed}");
        world.faults = Faults::NONE;
        for _ in 0..20 {
            world.begin_move(0);
            world.drain().unwrap();
            world.settle().unwrap();
        }
        assert_eq!(world.report().moves.done, 20, "seed {seed}: in both directions");
    }
}

#[test]
fn whatever_tiers_do_not_bring_back_is_named_and_no_volume_is_made_anew() {
    damage::survey::<Tiers>(damage::times());
    damage::survey_plights::<Tiers>(6);
}

#[test]
fn each_rule_of_an_opening_that_is_broken_is_noticed() {
    damage::notices_each_rule_of_the_lease::<Tiers>();
    for (rule, harm) in
        [(Mutant::OneHead, Harm::One(Fault::Rot)), (Mutant::AcceptOlder, Harm::One(Fault::Stale))]
    {
        damage::assert_noticed::<Tiers>(Broken { own: Some(rule), lease: None }, harm);
    }
}

#[test]
fn tiers_in_each_others_place_are_refused() {
    let sizes = [5, 5, 24].map(|extents| extents * EXTENT_BYTES);
    let open = |disks: &mut [Disk], rule| {
        let device = |(name, size_bytes): (&str, u64)| PartDevice { name: name.into(), size_bytes };
        let devices = ["slow", "slow too", "fast"].into_iter().zip(sizes).map(device).collect();
        let mut opening = Opening::new(names("trial"), EXTENT_BYTES, devices);
        opening.rules.mutant = rule;
        world::open(disks, u64::MAX, opening).expect("asks without end")
    };
    let mut disks = sizes.map(Disk::new);
    open(&mut disks, None).expect("it is made");
    disks.swap(0, 1);
    let refusal = open(&mut disks.clone(), None).expect_err("they are exchanged");
    assert_eq!(refusal.reason, RefusalReason::OtherTier { found: 1, expected: 0 });
    // The map says of each extent on which tier it is.
    open(&mut disks, Some(Mutant::MixTiers)).expect("nobody has noticed");
}

#[test]
fn a_check_finds_nothing_on_a_healthy_volume() {
    care::finds_nothing::<Tiers>(30);
}

#[test]
fn a_check_finds_every_damaged_block_that_is_in_use() {
    care::finds_damage::<Tiers>(12);
}

#[test]
fn a_repair_serves_all_that_was_written_or_names_what_is_wrong() {
    care::repairs::<Tiers>(damage::times());
}

#[test]
fn a_repair_gives_a_member_its_heads_back_if_it_is_proven_what_it_is() {
    care::mends_heads::<Tiers>(12);
    care::mends_no_other::<Tiers>(12);
}

#[test]
fn a_policy_may_change_while_an_extent_moves() {
    for seed in 0..40 {
        let mut world = World::new(seed, None);
        for turn in 0..400 {
            world.begin_move(0);
            let act = [Act::Write, Act::Read, Act::Force][turn % 3];
            if world.clients() < 4 {
                world.act(act, World::sectors_of(0));
            }
            world.drain().unwrap();
            world.complete_one().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            if turn % 7 == 0 {
                let mode = [Mode::Observe, Mode::Shadow, Mode::Enforce][turn / 7 % 3];
                world.reload(&domain(mode, 1 + u32::try_from(turn % 5).unwrap())).unwrap();
            }
        }
        world.settle().unwrap();
    }
}

#[test]
fn each_rule_that_is_broken_is_noticed() {
    let faults = Faults { notes: 15, ..Faults::NONE };
    let clients = Faults { flushes: 25, ..Faults::NONE };
    for (mutant, trial) in [
        (Mutant::CopyOnce, QUIET),
        (Mutant::SkipHold, QUIET),
        (Mutant::SkipDrain, QUIET),
        (Mutant::FreeEarly, Trial { stuck: 3, turns: 6000, ..QUIET }),
        (Mutant::SkipNote, Trial { cut_each: 1, ..QUIET }),
        (Mutant::SkipTargetFlush, Trial { cut_each: 1, ..QUIET }),
        (Mutant::SkipNoteFlush, Trial { cut_each: 1, ..QUIET }),
        (Mutant::IgnoreDoubt, Trial { cut_each: 1, faults, ..QUIET }),
        (Mutant::ForgetFlush, Trial { cut_each: 1, faults, ..QUIET }),
        (Mutant::TrustFlush, Trial { cut_each: 1, faults: clients, ..QUIET }),
    ] {
        assert_noticed(mutant, 0..60, Trial { mutant: Some(mutant), ..trial });
    }
}

#[test]
fn the_map_is_written_anew_before_the_journal_is_full_and_a_cut_meanwhile_costs_nothing() {
    let mut world = World::new(1, None);
    let mut prng = Prng::new(1);
    for turn in 0..9000 {
        world.begin_move(turn % 5);
        if world.clients() == 0 {
            let act = [Act::Write, Act::Force, Act::Flush, Act::Read][index(&mut prng, 4)];
            world.act(act, World::sectors_of(turn % 5));
        }
        world.drain().unwrap();
        world.complete_one().unwrap();
        if turn % 4 == 0 {
            world.check_cuts(&mut prng).unwrap_or_else(|why| panic!("turn {turn}: {why}"));
        }
        if turn % 1000 == 999 {
            world.restart(Some(Cut::Any(prng.next_u64()))).unwrap();
        }
    }
    let moved = world.journal_sequence();
    assert!(moved > 130, "twice round the ring of 64, not {moved}");
}

#[test]
fn writes_that_are_never_answered_end_a_move_and_hold_nobody_for_long() {
    let mut world = World::new(3, None);
    world.act(Act::Write, World::sectors_of(0));
    world.drain().unwrap();
    let never = world.take_command();
    world.begin_move(0);
    world.drain().unwrap();
    while world.commands() > 0 {
        world.complete_one().unwrap();
    }
    world.act(Act::Write, World::sectors_of(0));
    world.act(Act::Read, World::sectors_of(0));
    world.drain().unwrap();
    assert_eq!(world.commands(), 1, "the read goes, the write is held");
    world.complete_one().unwrap();
    world.complete_one().unwrap();
    assert_eq!(world.report().moves.given_up, 1, "half a second has passed");
    assert_eq!(world.commands(), 1, "and the write goes");
    world.put_command(never);
    world.settle().unwrap();
}

#[test]
fn whoever_is_held_pays_for_what_is_left_of_the_move() {
    let mut domain = domain(Mode::Enforce, 4);
    // The mover may take a step a second; copying an extent of 64 KiB takes it half a minute.
    domain.tenants[2].1.limit = Limit { rate_iops: 1, burst_requests: 1, ..Limit::default() };
    let mut world = World::new(5, None);
    world.reload(&domain).unwrap();
    world.begin_move(0);
    world.drain().unwrap();
    while !world.is_holding() {
        world.complete_one().unwrap();
    }
    let before = world.now();
    world.act(Act::Write, World::sectors_of(0));
    world.drain().unwrap();
    while world.clients() > 0 {
        world.complete_one().unwrap();
    }
    let held = world.now().since(before);
    assert_eq!(world.report().moves.done, 1);
    assert!(held < Span::from_millis(10), "held for {held}, not for a mover's second");
}

#[test]
fn a_tier_as_it_was_before_the_last_opening_is_refused_wherever_others_were_cut_short() {
    for (tier, is_cut) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut disks = Tiers::disks();
        let tiers = Tiers::default();
        tiers.open(&mut disks, u64::MAX).unwrap().unwrap();
        for _ in 0..3 {
            let old = disks[tier].clone();
            for asks in 0.. {
                let asks = if is_cut { asks } else { u64::MAX };
                if let Some(opened) = tiers.open(&mut disks, asks) {
                    opened.unwrap();
                    break;
                }
            }
            let mut with_old = disks.clone();
            with_old[tier] = old;
            let refusal = tiers.open(&mut with_old, u64::MAX).unwrap().expect_err("it is older");
            assert!(refusal.contains("older copy"), "{refusal}");
        }
    }
}
