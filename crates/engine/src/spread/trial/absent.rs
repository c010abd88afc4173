//! Volumes that are opened without a server: what is there is served, what is not is an error, and
//! the server is taken up when it comes back as it was, wherever openings were cut short.

use evenkeel_core::id::ServerId;
use evenkeel_core::prng::Prng;
use evenkeel_core::time::Nanos;

use super::super::Volume;
use super::super::layout::{COPIES, Note};
use super::super::rules::Mutant;
use super::super::volume::Latest;
use super::kit::{OBJECTS, SERVERS, Spread, World, hold};
use crate::notes::block::{BLOCK, Block};
use crate::trial::damage::Broken;
use crate::trial::disk::{Cut, Disk, index};
use crate::trial::world::{Act, Faults, Kit};
use crate::trial::{self, assert_clean, assert_noticed};
use crate::{Input, Refused};

/// How a trial goes.
#[derive(Clone, Copy)]
struct Trial {
    mutant: Option<Mutant>,
    faults: Faults,
    /// Whether two keepers of the choices take no writes before a server goes.
    breaks: bool,
    /// How often the power is cut when the host dies, in percent.
    cuts: u64,
    /// Openings that come to nothing before one does, at most.
    attempts: u64,
    /// How often a server is away, and what happens between two events.
    rounds: u32,
    turns: u32,
    /// The same while a server is away.
    turns_without: u32,
}

const QUIET: Trial = Trial {
    mutant: None,
    faults: Faults::NONE,
    breaks: false,
    cuts: 0,
    attempts: 0,
    rounds: 4,
    turns: 60,
    turns_without: 60,
};

const RESTLESS: Trial = Trial { cuts: 60, attempts: 5, ..QUIET };

/// Events until a volume that pauses is at rest, at most.
const EVENTS_MAX: u32 = 20_000;
/// Asks after which an opening is cut short at the latest, if it is.
const CUT_ASKS_MAX: u64 = 150;

/// What came of a trial.
#[derive(Default)]
struct Outcome {
    absent: usize,
    placed: u64,
    taken_up: u32,
    refused: u32,
}

impl trial::Trial for Trial {
    fn run(self, seed: u64) -> Result<(), String> {
        run(seed, self).map(drop)
    }
}

fn run(seed: u64, trial: Trial) -> Result<Outcome, String> {
    let mut world = World::new(seed, trial.mutant);
    world.kit.broken.own = trial.mutant;
    let mut prng = Prng::new(seed ^ 0xab5e);
    let mut outcome = Outcome::default();
    let mut older = None;
    for _ in 0..trial.rounds {
        world.faults = trial.faults;
        if trial.breaks {
            let keeper = prng.below(3);
            let broken = (0..3).filter(|one| *one != keeper);
            let broken = broken.map(|one| ServerId(u32::try_from(one).unwrap()));
            world.broken = broken.collect();
        }
        clients(&mut world, trial.turns, &mut prng)?;
        world.broken.clear();
        let now = world.disks.clone();
        let server = index(&mut prng, SERVERS);
        // Some lose what they had not made durable.
        if prng.below(2) == 0 {
            world.disks[server].power_cut(Cut::Any(prng.next_u64()));
        }
        reopen(&mut world, trial, Some(server), &mut prng)?;
        if world.kit.away.is_none() {
            continue;
        }
        let written = world.disks[server].acknowledged();
        let placed = world.report().placed;
        for _ in 0..=prng.below(2) {
            world.faults = trial.faults;
            clients(&mut world, trial.turns_without, &mut prng)?;
            if prng.below(2) == 0 {
                break;
            }
            reopen(&mut world, trial, Some(server), &mut prng)?;
        }
        outcome.placed += u64::from(world.report().placed.saturating_sub(placed));
        if world.kit.away.is_none() {
            continue;
        }
        if trial.attempts == 0 && world.disks[server].acknowledged() != written {
            return Err("it was written to while it was away".into());
        }
        if let Some(older) = &older {
            let older: &Vec<Disk> = older;
            let kept = std::mem::replace(&mut world.disks[server], older[server].clone());
            check_refused(&world)?;
            world.disks[server] = kept;
            outcome.refused += 1;
        }
        if prng.below(2) == 0 {
            take_up(&mut world, trial, &mut prng)?;
        } else {
            reopen(&mut world, trial, None, &mut prng)?;
        }
        if world.kit.away.is_none() {
            outcome.taken_up += 1;
            older = Some(now);
        }
    }
    let absent = |why: &&Refused| matches!(why, Refused::Absent(_));
    outcome.absent = world.refusals.iter().filter(absent).count();
    world.faults = Faults::NONE;
    reopen(&mut world, Trial { attempts: 0, ..trial }, None, &mut prng)?;
    Ok(outcome)
}

/// Clients all over the volume.
fn clients(world: &mut World, turns: u32, prng: &mut Prng) -> Result<(), String> {
    for _ in 0..turns {
        if world.clients() < 4 && prng.below(2) == 0 {
            let all = World::sectors_of(index(prng, OBJECTS as usize));
            let acts = [Act::Read, Act::Write, Act::Write, Act::Force, Act::Zero, Act::Flush];
            match prng.below(5) {
                0 => world.act_on(Act::Trim, all),
                _ => world.act(acts[index(prng, acts.len())], all.start + 4..all.start + 14),
            }
            world.drain()?;
        } else {
            world.complete_one()?;
        }
    }
    Ok(())
}

fn open(world: &mut World, away: Option<usize>, asks: u64) -> Option<Result<Volume, String>> {
    world.kit.away = away;
    world.kit.open(&mut world.disks, asks)
}

/// The gate dies, and is started again with these servers; some of its openings are cut short, and
/// meet other servers.
fn reopen(
    world: &mut World,
    trial: Trial,
    away: Option<usize>,
    prng: &mut Prng,
) -> Result<(), String> {
    let is_cut = prng.below(100) < trial.cuts;
    world.die(is_cut.then(|| Cut::Any(prng.next_u64())));
    // What lies on the server that is away may be lost there, and no flush of others tells.
    world.oracle.flush_failed();
    for _ in 0..prng.below(trial.attempts + 1) {
        let other = index(prng, SERVERS);
        let met = [None, away, away, Some(other)][index(prng, 4)];
        let asks = prng.below(CUT_ASKS_MAX);
        if let Some(Err(why)) = open(world, met, asks)
            && !why.contains("only one may be absent")
        {
            return Err(why);
        }
        if is_cut {
            let cut = Cut::Any(prng.next_u64());
            world.disks.iter_mut().for_each(|disk| disk.power_cut(cut));
        }
    }
    let opened = match open(world, away, u64::MAX).expect("asks without end") {
        // An opening that came to its end has met others.
        Err(why) if why.contains("only one may be absent") => {
            open(world, None, u64::MAX).expect("asks without end")
        }
        opened => opened,
    };
    world.serve(opened?, is_cut)
}

/// A server that comes back with what it had when it was not yet away is refused.
fn check_refused(world: &World) -> Result<(), String> {
    let kit = Spread { away: None, ..world.kit };
    match kit.open(&mut world.disks.clone(), u64::MAX).expect("asks without end") {
        Err(why) if why.contains("it is an older copy") => Ok(()),
        Err(why) => Err(why),
        Ok(_) => Err("an older copy was taken up".into()),
    }
}

/// The server is back while the gate is at work; clients wait until it is taken up.
fn take_up(world: &mut World, trial: Trial, prng: &mut Prng) -> Result<(), String> {
    let away = world.kit.away;
    world.engine.handle(world.now(), Input::Pause);
    let mut events = 0;
    world.drain()?;
    while !world.engine.is_at_rest() {
        events += 1;
        if !world.complete_one()? || events > EVENTS_MAX {
            return Err("it never comes to rest".into());
        }
    }
    clients(world, 6, prng)?;
    // It may go again meanwhile.
    let mut opened = None;
    for _ in 0..prng.below(trial.attempts + 1) {
        let met = [None, away][index(prng, 2)];
        opened = open(world, met, prng.below(CUT_ASKS_MAX)).transpose()?;
    }
    let volume = match opened {
        Some(volume) => volume,
        None => open(world, None, u64::MAX).expect("asks without end")?,
    };
    world.check_all(&volume, false)?;
    let now = world.now();
    world.engine.handle(now, Input::Spread(Box::new(volume)));
    hold(&mut world.engine, now, Nanos(u64::MAX));
    world.drain()
}

#[test]
fn what_is_there_is_served_and_a_server_that_comes_back_is_taken_up() {
    let mut all = Outcome::default();
    for seed in 0..60 {
        let one = run(seed, QUIET).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        all.absent += one.absent;
        all.placed += one.placed;
        all.taken_up += one.taken_up;
        all.refused += one.refused;
    }
    let Outcome { absent, placed, taken_up, refused } = all;
    assert!(
        absent > 100 && placed > 20 && taken_up == 240 && refused == 180,
        "{absent} {placed} {taken_up} {refused}"
    );
}

#[test]
fn openings_may_be_cut_short_and_meet_other_servers_each_time() {
    assert_clean(0..60, RESTLESS);
}

#[test]
fn errors_of_drives_lose_nothing_while_a_server_is_away() {
    let faults = Faults::ANY;
    assert_clean(0..20, Trial { faults, ..RESTLESS });
    let faults = Faults { notes: 60, ..Faults::NONE };
    assert_clean(100..120, Trial { faults, ..RESTLESS });
    assert_clean(200..220, Trial { breaks: true, ..RESTLESS });
}

#[test]
fn each_rule_of_an_absence_that_is_broken_is_noticed() {
    let breaks = Trial { breaks: true, turns: 200, turns_without: 14, ..QUIET };
    for (mutant, trial) in
        [(Mutant::OneCopy, breaks), (Mutant::AdoptReturned, RESTLESS), (Mutant::AcceptStale, QUIET)]
    {
        assert_noticed(mutant, 0..400, Trial { mutant: Some(mutant), ..trial });
    }
}

/// A volume that is opened without a keeper of the choices which has a page of its own: that no
/// other keeper has it, so it never counted. Then it is back, and the volume opened once more.
fn with_a_page_of_its_own(mutant: Option<Mutant>) -> Result<(), String> {
    let mut world = World::new(3, mutant);
    world.kit.broken.own = mutant;
    for object in 0..OBJECTS as usize {
        world.act_on(Act::Force, World::sectors_of(object));
        world.drain()?;
    }
    world.settle()?;
    world.die(None);
    let mut volume = open(&mut world, None, u64::MAX).unwrap()?;
    let other = |object: u32| 1 - volume.choices.choice(u64::from(object)).unwrap();
    let is_elsewhere = |object: &u32| {
        let there = volume.places.get(*object).get().unwrap().0;
        there != 0 && volume.candidate(*object, other(*object)) != Some(there)
    };
    let object = (0..OBJECTS).find(is_elsewhere).unwrap();
    let other = other(object);
    volume.choices.set(u64::from(object), Some(other));
    (volume.versions[0], volume.office.generation) =
        (volume.versions[0] + 9, volume.office.generation + 1);
    let mut bytes: Block = [0; BLOCK];
    let latest = Latest { number: volume.versions[0], ..volume.pages[0][0].next() };
    let offset = volume.encode(0, Note::Page(0), latest, &mut bytes);
    world.disks[0].write(offset, &bytes, true);
    for away in [Some(0), None, None] {
        let volume = open(&mut world, away, u64::MAX).unwrap()?;
        world.check_all(&volume, false)?;
    }
    Ok(())
}

#[test]
fn what_a_keeper_noted_alone_never_counts_once_it_was_away() {
    with_a_page_of_its_own(None).unwrap();
    with_a_page_of_its_own(Some(Mutant::TrustReturned)).unwrap_err();
}

#[test]
fn a_volume_whose_choices_are_damaged_needs_the_server_that_may_have_them() {
    let why = without_whole_choices(None).unwrap_err();
    assert!(why.contains("\"s2\": it does not answer, and choices are damaged"), "{why}");
    without_whole_choices(Some(Mutant::GuessWithout)).expect("nobody has noticed");
}

/// A volume is opened without the only server whose choices are whole.
fn without_whole_choices(mutant: Option<Mutant>) -> Result<Volume, String> {
    let mut world = World::new(1, None);
    world.act_on(Act::Force, World::sectors_of(0));
    world.drain().unwrap();
    world.settle().unwrap();
    world.die(None);
    let volume = open(&mut world, None, u64::MAX).unwrap().unwrap();
    for keeper in [0, 1] {
        for copy in 0..COPIES {
            let offset = volume.layout.note_offset(keeper, Note::Page(0), copy);
            world.disks[keeper].write(offset, &[0; 4096], true);
        }
    }
    world.kit.broken.own = mutant;
    let mut before = world.disks.clone();
    let opened = open(&mut world, Some(2), u64::MAX).unwrap();
    world.kit.away = None;
    world.kit.open(&mut before, u64::MAX).unwrap().unwrap();
    opened
}

#[test]
fn a_new_volume_and_one_that_changes_need_all_servers() {
    let mut disks = Spread::disks();
    let kit = Spread { away: Some(3), ..Spread::default() };
    let why = kit.open(&mut disks, u64::MAX).unwrap().unwrap_err();
    assert!(why.contains("the volume is made when all servers are there"), "{why}");
    let mut made = disks.clone();
    let broken = Broken { own: Some(Mutant::MakeWithout), lease: None };
    let opened = Spread { broken, ..Spread { away: Some(3), ..Spread::default() } };
    opened.open(&mut made, u64::MAX).unwrap().expect("nobody has noticed");
    Spread::default().open(&mut disks, u64::MAX).unwrap().unwrap();
    let kit = Spread { leaving: Some(1), ..kit };
    let why = kit.open(&mut disks, u64::MAX).unwrap().unwrap_err();
    assert!(why.contains("the servers change"), "{why}");
    let kit = Spread { leaving: Some(1), ..Spread::default() };
    kit.open(&mut disks, u64::MAX).unwrap().unwrap();
    let kit = Spread { away: Some(3), ..kit };
    let why = kit.open(&mut disks, u64::MAX).unwrap().unwrap_err();
    assert!(why.contains("the servers change"), "{why}");
}
