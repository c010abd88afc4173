//! Gates that want the same volume: at most one gets it, and the other learns of it.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::time::{Nanos, Span};

use super::super::heads;
use super::super::rules::Mutant;
use super::super::{Opening, RefusalReason, Volume};
use super::kit::{SERVERS, Spread, opening, opening_after_boot, used_disk};
use crate::lease::Times;
use crate::lease::{Fenced, Lease, Mutant as Check, OwnerId};
use crate::notes::block::{BLOCK, Block};
use crate::notes::head::head_offset;
use crate::notes::{Answer, Ask, Opens, Unfit};
use crate::trial::disk::{Disk, index};
use crate::trial::world::Kit;

/// Answers one ask; the span if it was for time, whether it was for a fence, or the end.
enum Turn {
    Went,
    Waits(Span),
    Fences,
    Ready(Box<Volume>),
    Refused(RefusalReason),
}

fn turn(opening: &mut Opening, disks: &mut [Disk]) -> Turn {
    static NOW_NS: AtomicU64 = AtomicU64::new(0);
    let now = Span(NOW_NS.fetch_add(1000, Ordering::Relaxed));
    let turn = turn_reaching(opening, disks, now, [true; SERVERS]);
    if let Turn::Waits(span) = turn {
        NOW_NS.fetch_add(span.0, Ordering::Relaxed);
    }
    turn
}

/// The same where some servers cannot be reached.
fn turn_reaching(
    opening: &mut Opening,
    disks: &mut [Disk],
    now: Span,
    reaches: [bool; SERVERS],
) -> Turn {
    let bytes;
    let (answer, turn) = match opening.poll(Nanos::ZERO + now) {
        Ask::Read { part, .. } | Ask::Write { part, .. } | Ask::Flush { part }
            if !reaches[part] =>
        {
            (Answer::Failed, Turn::Went)
        }
        Ask::Read { part, offset, length } => {
            bytes = disks[part].read(offset, length);
            (Answer::Read(&bytes), Turn::Went)
        }
        Ask::Write { part, offset, bytes } => {
            disks[part].write(offset, bytes, false);
            (Answer::Done, Turn::Went)
        }
        Ask::Flush { .. } => (Answer::Done, Turn::Went),
        Ask::Fence(_) => (Answer::Done, Turn::Fences),
        Ask::Wait(span) => (Answer::Done, Turn::Waits(span)),
        Ask::Ready(volume) => return Turn::Ready(volume),
        Ask::Refused(refusal) => return Turn::Refused(refusal.reason),
    };
    opening.answer(answer);
    turn
}

fn opened(disks: &mut [Disk], name: &str) -> Result<Box<Volume>, RefusalReason> {
    let mut opening = opening(disks, name);
    loop {
        match turn(&mut opening, disks) {
            Turn::Ready(volume) => return Ok(volume),
            Turn::Refused(reason) => return Err(reason),
            Turn::Went | Turn::Fences | Turn::Waits(_) => {}
        }
    }
}

fn beat(leases: &mut [Lease], disks: &mut [Disk]) -> Result<(), Fenced> {
    for (lease, disk) in leases.iter_mut().zip(disks) {
        lease.look(&disk.read(0, Lease::front_bytes()))?;
        let (offset, bytes) = lease.beat();
        disk.write(offset, &bytes, false);
        lease.beaten();
    }
    Ok(())
}

fn leases(volume: &Volume) -> Vec<Lease> {
    (0..SERVERS).map(|server| volume.lease(server)).collect()
}

#[test]
fn a_gate_whose_owner_beats_is_refused_and_one_whose_owner_is_gone_is_not() {
    let mut disks = Spread::disks();
    let mut first = leases(&opened(&mut disks, "first").unwrap());
    let mut second = opening(&disks, "second");
    let reason = loop {
        match turn(&mut second, &mut disks) {
            Turn::Waits(_) => beat(&mut first, &mut disks).unwrap(),
            Turn::Went | Turn::Fences => {}
            Turn::Refused(reason) => break reason,
            Turn::Ready(_) => panic!("the first is alive"),
        }
    };
    assert_eq!(reason, RefusalReason::Unfit(Unfit::InUse { by: "first".into() }));
    beat(&mut first, &mut disks).expect("the refused one has touched nothing");
    opened(&mut disks, "third").expect("nobody beats");
    let fenced = beat(&mut first, &mut disks).unwrap_err();
    assert_eq!(fenced, Fenced::Claimed("third".into()), "the one that was asleep learns of it");
}

#[test]
fn whoever_lets_go_is_not_watched() {
    let mut disks = Spread::disks();
    let first = leases(&opened(&mut disks, "first").unwrap());
    for (lease, disk) in first.iter().zip(&mut disks) {
        let (offset, bytes) = lease.release();
        disk.write(offset, &bytes, false);
    }
    let mut second = opening(&disks, "second");
    let mut waited = Vec::new();
    loop {
        match turn(&mut second, &mut disks) {
            Turn::Waits(span) => waited.push(span),
            Turn::Went | Turn::Fences => {}
            Turn::Refused(reason) => panic!("{reason}"),
            Turn::Ready(_) => break,
        }
    }
    assert_eq!(waited, [Times::DEFAULT.settle()], "only its own claim settles");
}

/// What an opening waits for, and whether it asks for a fence, before it is ready.
fn waits_of(mut opening: Opening, disks: &mut [Disk]) -> (Vec<Span>, bool) {
    let (mut waits, mut now, mut is_fenced) = (Vec::new(), Span::ZERO, false);
    loop {
        match turn_reaching(&mut opening, disks, now, [true; SERVERS]) {
            Turn::Waits(span) => {
                waits.push(span);
                now += span;
            }
            Turn::Went => {}
            Turn::Fences => is_fenced = true,
            Turn::Refused(reason) => panic!("{reason}"),
            Turn::Ready(_) => return (waits, is_fenced),
        }
    }
}

#[test]
fn a_restart_of_the_same_gate_takes_no_fence_and_no_watch_unless_its_machine_was_started_anew() {
    let (settle, lease) = (Times::DEFAULT.settle(), Times::DEFAULT.lease());
    let mut disks = Spread::disks();
    let mut open = |gate, process| {
        let opening = opening_after_boot(&disks, gate, process);
        waits_of(opening, &mut disks)
    };
    open(0, (1, 1));
    assert_eq!(open(0, (1, 2)), (vec![settle], false), "its process has ended");
    assert_eq!(open(0, (2, 3)), (vec![lease, settle], false), "the folder may be a copy");
    assert_eq!(open(1, (1, 1)), (vec![lease, settle], true), "it is another gate");
}

#[test]
fn of_gates_that_race_for_a_volume_at_most_one_wins_whoever_is_faster_when() {
    let mut prng = evenkeel_core::prng::Prng::new(8);
    let mut wins = 0;
    for round in 0..200 {
        let mut disks = Spread::disks();
        if round % 2 == 0 {
            let made = leases(&opened(&mut disks, "maker").unwrap());
            for (lease, disk) in made.iter().zip(&mut disks) {
                let (offset, bytes) = lease.release();
                disk.write(offset, &bytes, false);
            }
        }
        // Every turn takes 2 ms; time for which both wait passes at once.
        let mut racers = ["one", "two"].map(|name| Some(opening(&disks, name)));
        let (mut now, mut wake_at) = (Span::ZERO, [Span::ZERO; 2]);
        let mut winner: Option<Vec<Lease>> = None;
        while racers.iter().any(Option::is_some) {
            now.0 += Span::from_millis(2).0;
            if let Some(leases) = winner.as_mut().filter(|_| now.0 % Times::DEFAULT.beat().0 == 0) {
                beat(leases, &mut disks).expect("nobody else has won");
            }
            let is_awake = |at: &usize| racers[*at].is_some() && wake_at[*at] <= now;
            let awake: Vec<usize> = (0..2).filter(is_awake).collect();
            let Some(&picked) = awake.get(index(&mut prng, awake.len().max(1))) else { continue };
            match turn_reaching(racers[picked].as_mut().unwrap(), &mut disks, now, [true; SERVERS])
            {
                Turn::Went | Turn::Fences => {}
                Turn::Waits(span) => wake_at[picked] = Span(now.0 + span.0),
                Turn::Refused(_) => racers[picked] = None,
                Turn::Ready(volume) => {
                    racers[picked] = None;
                    assert!(winner.is_none(), "round {round}: both have won");
                    winner = Some(leases(&volume));
                }
            }
        }
        wins += u32::from(winner.is_some());
    }
    assert!(wins > 50, "{wins} of 200 races had a winner");
}

/// Of three servers one gate misses the last, and its claim of the middle one is late; another one
/// misses the first and opens the volume meanwhile. What becomes of the first gate.
fn claim_late(check: Option<Check>) -> Result<Box<Volume>, RefusalReason> {
    let mut disks = vec![used_disk(); 3];
    let made = opened(&mut disks, "maker")?;
    for (server, disk) in disks.iter_mut().enumerate() {
        let (offset, bytes) = made.lease(server).release();
        disk.write(offset, &bytes, false);
    }
    let mut late = opening(&disks, "late").without(2);
    late.candidate.tenure.right.rules.mutant = check;
    let mut claims = 0;
    let (part, offset, bytes) = loop {
        if let Ask::Write { part, offset, bytes } = late.poll(Nanos::ZERO) {
            claims += 1;
            if claims == 2 {
                break (part, offset, bytes.to_vec());
            }
        }
        turn(&mut late, &mut disks);
    };
    let mut other = opening(&disks, "other").without(0);
    while !matches!(turn(&mut other, &mut disks), Turn::Ready(_)) {}
    disks[part].write(offset, &bytes, false);
    late.answer(Answer::Done);
    loop {
        match turn(&mut late, &mut disks) {
            Turn::Ready(volume) => return Ok(volume),
            Turn::Refused(reason) => return Err(reason),
            Turn::Went | Turn::Fences | Turn::Waits(_) => {}
        }
    }
}

#[test]
fn a_claim_that_comes_after_another_gate_has_opened_the_volume_comes_to_nothing() {
    let refused = claim_late(None).unwrap_err();
    assert!(matches!(refused, RefusalReason::Unfit(Unfit::InUse { .. })), "{refused:?}");
    claim_late(Some(Check::SkipHeads)).expect("nobody has looked at the heads");
}

#[test]
fn a_beat_that_was_sent_again_may_come_late_and_an_older_one_is_older_content() {
    let mut disks = Spread::disks();
    let volume = opened(&mut disks, "served").unwrap();
    let mut lease = volume.lease(1);
    let mut beats = Vec::new();
    for is_lost in [false, true, false, false] {
        let (offset, bytes) = lease.beat();
        if !is_lost {
            disks[1].write(offset, &bytes, false);
            lease.beaten();
        }
        beats.push((offset, bytes));
    }
    let looks = beats.iter().map(|(offset, bytes)| {
        disks[1].write(*offset, bytes, false);
        lease.look(&disks[1].read(0, Lease::front_bytes()))
    });
    let looks: Vec<_> = looks.collect();
    assert_eq!(looks, [Err(Fenced::Stale), Ok(()), Ok(()), Ok(())]);
}

#[test]
fn a_server_that_may_lose_what_was_not_flushed_may_lose_beats_and_no_more() {
    let mut disks = Spread::disks();
    let mut lease = opened(&mut disks, "served").unwrap().lease(1);
    lease.may_lose_beats();
    let mut fronts = vec![disks[1].read(0, Lease::front_bytes())];
    for _ in 0..3 {
        let (offset, bytes) = lease.beat();
        disks[1].write(offset, &bytes, false);
        lease.beaten();
        fronts.push(disks[1].read(0, Lease::front_bytes()));
    }
    assert!(fronts.iter().all(|front| lease.look(front).is_ok()), "none was flushed");
    lease.flushed(lease.beats() - 1);
    let looks: Vec<_> = fronts.iter().map(|front| lease.look(front)).collect();
    assert_eq!(looks, [Err(Fenced::Stale), Err(Fenced::Stale), Ok(()), Ok(())]);
}

#[test]
fn a_late_head_of_an_opening_that_was_cut_short_locks_no_server_out() {
    let mut disks = Spread::disks();
    let volume = opened(&mut disks, "served").unwrap();
    let mut cut_short = volume.clone();
    cut_short.office.owner = OwnerId([7; 16]);
    let generation = volume.office.generation;
    let head = heads::head(&cut_short, 2, (generation, OwnerId([9; 16])));
    let mut block: Block = [0; BLOCK];
    head.encode(head_offset(generation), &mut block);
    let come_late = |disks: &mut [Disk]| disks[2].write(head_offset(generation), &block, false);
    come_late(&mut disks);
    volume.lease(2).look(&disks[2].read(0, Lease::front_bytes())).unwrap();
    let mut others = disks.clone();
    opened(&mut others, "next").unwrap();
    let without = |away| Spread { away, ..Spread::default() };
    without(Some(2)).open(&mut disks, u64::MAX).unwrap().unwrap();
    without(None).open(&mut disks, u64::MAX).unwrap().unwrap();
}

/// A gate that beats where it can, and when each beat that went well began.
struct Holder {
    leases: Vec<(usize, Lease)>,
    beats: Vec<Span>,
    needed: usize,
}

impl Holder {
    fn of(volume: &Volume) -> Self {
        let there = (0..SERVERS).filter(|server| volume.away != Some(*server));
        let leases = there.map(|server| (server, volume.lease(server))).collect();
        Self { leases, beats: vec![Span::ZERO; SERVERS], needed: volume.beats_needed() }
    }

    /// Beats on every server that it reaches; false if another gate has the volume.
    fn beat(&mut self, now: Span, disks: &mut [Disk], reaches: [bool; SERVERS]) -> bool {
        for (server, lease) in self.leases.iter_mut().filter(|(server, _)| reaches[*server]) {
            match lease.look(&disks[*server].read(0, Lease::front_bytes())) {
                Ok(()) => {}
                Err(Fenced::Claimed(_)) => return false,
                Err(_) => continue,
            }
            let (offset, bytes) = lease.beat();
            disks[*server].write(offset, &bytes, false);
            lease.beaten();
            self.beats[*server] = now;
        }
        true
    }

    fn serves(&self, now: Span) -> bool {
        let mut latest_first = self.beats.clone();
        latest_first.sort_unstable_by_key(|beat| std::cmp::Reverse(beat.0));
        now.0 < latest_first[self.needed - 1].0 + Times::DEFAULT.hold().0
    }
}

/// Two gates, each of which loses and finds servers again and again, and opens the volume without
/// one when it has to. Returns how often one took over, or when both served.
fn gates_that_lose_servers(
    seed: u64,
    needed: Option<usize>,
    mutant: Option<Mutant>,
) -> Result<u32, String> {
    let mut prng = evenkeel_core::prng::Prng::new(seed);
    let mut disks = Spread::disks();
    opened(&mut disks, "maker").unwrap();
    let mut reaches = [[true; SERVERS]; 2];
    let mut holders: [Option<Holder>; 2] = [None, None];
    let mut racers: [Option<(Opening, Span)>; 2] = [None, None];
    let mut taken = 0;
    // Every turn takes 10 ms, as does every ask.
    for turn_number in 0..12_000 {
        let now = Span::from_millis(20_000 + 10 * turn_number);
        if prng.below(400) == 0 {
            let server = index(&mut prng, SERVERS);
            let gate = index(&mut prng, 2);
            // Mostly a gate sees one server and not the others, or all but one.
            reaches[gate] = match prng.below(4) {
                0 => [true; SERVERS],
                1 => std::array::from_fn(|one| one == server),
                _ => std::array::from_fn(|one| one != server),
            };
        }
        for gate in 0..2 {
            if let Some(holder) = &mut holders[gate] {
                let beats = turn_number % 100 == 50 * gate as u64;
                if beats && !holder.beat(now, &mut disks, reaches[gate]) {
                    holders[gate] = None;
                }
                continue;
            }
            let missing: Vec<_> = (0..SERVERS).filter(|one| !reaches[gate][*one]).collect();
            let Some((racer, wake_at)) = &mut racers[gate] else {
                let mut opening = opening(&disks, ["one", "two"][gate]);
                opening.rules.mutant = mutant;
                match missing[..] {
                    [] => racers[gate] = Some((opening, now)),
                    [away] => racers[gate] = Some((opening.without(away), now)),
                    _ => {}
                }
                continue;
            };
            if now.0 < wake_at.0 {
                continue;
            }
            match turn_reaching(racer, &mut disks, now, reaches[gate]) {
                Turn::Went | Turn::Fences => {}
                Turn::Waits(span) => *wake_at = Span(now.0 + span.0),
                Turn::Refused(_) => racers[gate] = None,
                Turn::Ready(volume) => {
                    racers[gate] = None;
                    let mut holder = Holder::of(&volume);
                    holder.needed = needed.unwrap_or(holder.needed);
                    holder.beat(now, &mut disks, reaches[gate]);
                    holders[gate] = Some(holder);
                    taken += 1;
                }
            }
        }
        if holders.iter().flatten().filter(|holder| holder.serves(now)).count() == 2 {
            return Err(format!("both serve at {} ms", now.0 / 1_000_000));
        }
    }
    Ok(taken)
}

#[test]
fn gates_that_lose_servers_and_find_them_never_serve_both() {
    let mut taken = 0;
    for seed in 0..60 {
        let result = gates_that_lose_servers(seed, None, None);
        taken += result.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    assert!(taken > 50, "{taken}");
    for (needed, mutant) in [(Some(1), None), (None, Some(Mutant::TwoAbsent))] {
        let both = |seed| gates_that_lose_servers(seed, needed, mutant).err();
        let why = (0..400).find_map(both);
        println!("{}", why.unwrap_or_else(|| panic!("{needed:?} {mutant:?} goes unnoticed")));
    }
}
