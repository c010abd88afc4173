//! Gates that want the same volume: at most one gets it, and the other learns of it.

use evenkeel_core::time::Span;

use super::super::lease::{BEAT, Fenced, Lease};
use super::super::{Opening, RefusalReason, Volume};
use super::kit::{SERVERS, Spread, opening};
use crate::notes::{Answer, Ask, Opens};
use crate::trial::disk::{Disk, index};
use crate::trial::world::Kit;

/// Answers one ask; the span if it was for time, or the end.
enum Turn {
    Went,
    Waits(Span),
    Ready(Box<Volume>),
    Refused(RefusalReason),
}

fn turn(opening: &mut Opening, disks: &mut [Disk]) -> Turn {
    let bytes;
    let (answer, turn) = match opening.poll() {
        Ask::Read { part, offset, length } => {
            bytes = disks[part].read(offset, length);
            (Answer::Read(&bytes), Turn::Went)
        }
        Ask::Write { part, offset, bytes } => {
            disks[part].write(offset, bytes, false);
            (Answer::Done, Turn::Went)
        }
        Ask::Flush { .. } => (Answer::Done, Turn::Went),
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
            Turn::Went | Turn::Waits(_) => {}
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
    (0..SERVERS).map(|_| Lease::new(volume)).collect()
}

#[test]
fn a_gate_whose_owner_beats_is_refused_and_one_whose_owner_is_gone_is_not() {
    let mut disks = Spread::disks();
    let mut first = leases(&opened(&mut disks, "first").unwrap());
    let mut second = opening(&disks, "second");
    let reason = loop {
        match turn(&mut second, &mut disks) {
            Turn::Waits(_) => beat(&mut first, &mut disks).unwrap(),
            Turn::Went => {}
            Turn::Refused(reason) => break reason,
            Turn::Ready(_) => panic!("the first is alive"),
        }
    };
    assert_eq!(reason, RefusalReason::InUse { by: "first".into() });
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
            Turn::Went => {}
            Turn::Refused(reason) => panic!("{reason}"),
            Turn::Ready(_) => break,
        }
    }
    assert_eq!(waited, [super::super::SETTLE], "only its own claim settles");
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
            if let Some(leases) = winner.as_mut().filter(|_| now.0 % BEAT.0 == 0) {
                beat(leases, &mut disks).expect("nobody else has won");
            }
            let is_awake = |at: &usize| racers[*at].is_some() && wake_at[*at] <= now;
            let awake: Vec<usize> = (0..2).filter(is_awake).collect();
            let Some(&picked) = awake.get(index(&mut prng, awake.len().max(1))) else { continue };
            match turn(racers[picked].as_mut().unwrap(), &mut disks) {
                Turn::Went => {}
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
