//! A gate that wants a volume: it opens it, beats, and writes to the registers of its servers, in
//! steps between which its process may stop.

use evenkeel_core::time::{Nanos, Span};

use super::world::{Answer, Event, Message, TIMES, World};
use super::{Leased, Setting};
use crate::lease::{Fenced, Gate as GateName, Gatekeeper, Lease, Sending};
use crate::notes::{self, Ask, Opens};
use crate::trial::names::names_of;

/// Between two writes to a register.
const WRITE_EVERY: Span = Span::from_millis(300);
/// Between two attempts to open the volume.
const RETRY: Span = Span::from_secs(1);
/// Between two steps of a process that has something to do.
const STEP: Span = Span::from_micros(20);

/// See the [module](self).
pub(super) struct Gate<K: Leased> {
    index: usize,
    setting: Setting,
    /// The process does not run before.
    stopped_until: Nanos,
    /// For so long it has not run.
    stopped_for: Span,
    /// Its clock is so much too fast, in millionths.
    fast: u64,
    stage: Stage<K>,
    /// What the gatekeeper has let pass and is not sent yet.
    asked: Vec<Asked>,
    runs: u64,
    /// Why it was refused last.
    refused: Option<String>,
}

enum Stage<K: Leased> {
    /// It tries to open the volume then.
    Away(Nanos),
    Opening(Box<K::Opening>, Expects),
    Owner(Box<Owner>),
}

/// What an opening waits for.
#[derive(Debug)]
enum Expects {
    Nothing,
    Answer(usize, u64),
    Time(Nanos),
    Fence(Nanos, Vec<GateName>),
}

/// What passed the gatekeeper.
struct Asked {
    server: usize,
    at: Nanos,
    message: Message,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Opening,
    Look,
    Beat,
    Know,
    Write,
}

struct Owner {
    right: Gatekeeper,
    members: Vec<Member>,
}

/// One server of an owner.
struct Member {
    lease: Lease,
    /// What a new connection has to show is not known yet.
    is_unproven: bool,
    look_at: Nanos,
    look: Option<(u64, Nanos)>,
    beat: Option<(u64, Nanos)>,
    /// The look was good: a beat is due.
    is_seen: bool,
    known: Option<u64>,
    know: Option<u64>,
    write_at: Nanos,
    /// What is written, over what, and by what its answer is known.
    write: Option<(u64, u64, Option<u64>)>,
}

impl<K: Leased> Gate<K> {
    pub(super) fn new(index: usize, setting: Setting, begins_at: Nanos, fast: u64) -> Self {
        let stage = Stage::Away(begins_at);
        let stopped_for = Span::ZERO;
        Self {
            index,
            setting,
            stopped_until: Nanos::ZERO,
            stopped_for,
            fast,
            stage,
            asked: Vec::new(),
            runs: 0,
            refused: None,
        }
    }

    /// Whether it serves.
    pub(super) fn serves(&self, world: &World) -> bool {
        let now = self.clock(world.now);
        matches!(&self.stage, Stage::Owner(owner) if now < owner.right.held_until())
    }

    /// The process stops for a while.
    pub(super) fn stop(&mut self, now: Nanos, span: Span) {
        let until = self.stopped_until.max(now + span);
        self.stopped_for += Span(until.0 - self.stopped_until.max(now).0);
        self.stopped_until = until;
    }

    /// The process is killed, and started again some time later.
    pub(super) fn kill(&mut self, world: &mut World) {
        let away = world.span_up_to(Span::from_secs(6));
        self.stage = Stage::Away(world.now + away);
        self.asked.clear();
        self.stopped_until = Nanos::ZERO;
    }

    /// Nothing stops it any more.
    pub(super) fn calm(&mut self) {
        self.setting.stops_asked = 0;
    }

    /// Time by this gate's clock, from which one that does not count stopped time falls behind.
    fn clock(&self, now: Nanos) -> Nanos {
        let missed = if self.setting.sleepy_clock { self.stopped_for.0 } else { 0 };
        Nanos((now.0 + now.0 / 1_000_000 * self.fast).saturating_sub(missed))
    }

    /// Does what there is to do; returns the gates that are fenced off thereby.
    pub(super) fn step(&mut self, world: &mut World) -> Vec<GateName> {
        if world.now < self.stopped_until {
            world.at(self.stopped_until, Event::Step(self.index));
            return Vec::new();
        }
        for asked in std::mem::take(&mut self.asked) {
            self.send(world, asked);
        }
        let mut fenced = Vec::new();
        match &mut self.stage {
            Stage::Away(at) if world.now >= *at => {
                self.runs += 1;
                let mut opening = K::opening(names_of(self.index, (1, self.runs)));
                K::right(&mut opening).rules.mutant = self.setting.check;
                self.stage = Stage::Opening(Box::new(opening), Expects::Nothing);
            }
            Stage::Away(_) => {}
            Stage::Opening(..) => fenced = self.step_opening(world),
            Stage::Owner(_) => self.step_owner(world),
        }
        // The process may stop between asking and sending.
        if !self.asked.is_empty() && world.prng.below(1000) < self.setting.stops_asked {
            let span = world.span_up_to(self.setting.stop_max);
            self.stop(world.now, span);
        }
        let idle = if self.asked.is_empty() { Span::from_millis(5) } else { STEP };
        world.after(idle, Event::Step(self.index));
        fenced
    }

    fn step_opening(&mut self, world: &mut World) -> Vec<GateName> {
        let now = self.clock(world.now);
        let Stage::Opening(opening, expects) = &mut self.stage else { unreachable!("looked at") };
        match expects {
            Expects::Answer(..) => return Vec::new(),
            Expects::Time(at) | Expects::Fence(at, _) if now < *at => return Vec::new(),
            Expects::Nothing => {}
            Expects::Time(_) => opening.answer(notes::Answer::Done),
            Expects::Fence(_, losers) => {
                let losers = std::mem::take(losers);
                opening.answer(notes::Answer::Done);
                *expects = Expects::Nothing;
                return if self.setting.has_fence { losers } else { Vec::new() };
            }
        }
        *expects = Expects::Nothing;
        let (server, message) = match opening.poll(now) {
            Ask::Read { part, offset, length } => (part, Message::Read { offset, length }),
            Ask::Write { part, offset, bytes } => {
                (part, Message::Write { offset, bytes: bytes.to_vec() })
            }
            Ask::Flush { part } => (part, Message::Flush),
            Ask::Wait(span) => {
                *expects = Expects::Time(now + span);
                return Vec::new();
            }
            Ask::Fence(losers) => {
                *expects = Expects::Fence(now + Span::from_millis(300), losers);
                return Vec::new();
            }
            Ask::Ready(volume) => {
                let right = opening.right().expect("it is leased").clone();
                let member = |server| Member::new(K::lease(&volume, server), now);
                let members = (0..world.disks.len()).map(member).collect();
                self.stage = Stage::Owner(Box::new(Owner { right, members }));
                return Vec::new();
            }
            Ask::Refused(why) => {
                self.refused = Some(format!("at {} ms: {why}", world.now.0 / 1_000_000));
                self.stage = Stage::Away(world.now + RETRY);
                return Vec::new();
            }
        };
        let what = opening.sending();
        if opening.right().expect("it is leased").may_send(now, server, what) {
            *expects = Expects::Answer(server, 0);
            let what = What::Opening;
            self.asked.push(Asked { server, at: world.now, message, what });
        } else {
            opening.answer(notes::Answer::Failed);
        }
        Vec::new()
    }

    fn step_owner(&mut self, world: &mut World) {
        let now = self.clock(world.now);
        let Stage::Owner(owner) = &mut self.stage else { unreachable!("looked at") };
        if owner.right.is_out() && self.setting.check.is_none() {
            // Nobody but the operator would bring it back; here that happens after a while.
            self.stage = Stage::Away(world.now + Span::from_secs(5));
            return;
        }
        let mut asked = Vec::new();
        for (server, member) in owner.members.iter_mut().enumerate() {
            let mut ask = |right: &Gatekeeper, sending, what, message| {
                let may = right.may_send(now, server, sending);
                if may {
                    asked.push(Asked { server, at: world.now, message, what });
                }
                may
            };
            let right = &owner.right;
            if member.is_seen && member.beat.is_none() {
                let (offset, bytes) = member.lease.beat();
                if ask(right, Sending::Claim, What::Beat, Message::Write { offset, bytes }) {
                    member.beat = Some((0, now));
                }
                member.is_seen = false;
            }
            if now >= member.look_at && member.look.is_none() && member.beat.is_none() {
                let length = Lease::front_bytes();
                if ask(right, Sending::Look, What::Look, Message::Read { offset: 0, length }) {
                    member.look = Some((0, now));
                    member.look_at = now + TIMES.beat();
                }
            }
            if member.is_unproven && !self.setting.replays_unproven {
                continue;
            }
            let unasked = self.setting.replays_unproven && member.is_unproven;
            let may = |right: &Gatekeeper| unasked || right.may_send(now, server, Sending::Data);
            match member.known {
                None => {
                    let is_due = member.know.is_none();
                    if is_due && ask(right, Sending::Data, What::Know, Message::Register) {
                        member.know = Some(0);
                    }
                }
                Some(known) => {
                    let is_due = match member.write {
                        None => now >= member.write_at,
                        Some((_, _, id)) => id.is_none(),
                    };
                    if is_due && may(right) {
                        let (number, over, _) =
                            member.write.unwrap_or_else(|| (world.number(), known, None));
                        let message = Message::Data { number, over };
                        asked.push(Asked { server, at: world.now, message, what: What::Write });
                        member.write = Some((number, over, Some(0)));
                        member.write_at = now + WRITE_EVERY;
                    }
                }
            }
        }
        self.asked = asked;
    }

    fn send(&mut self, world: &mut World, asked: Asked) {
        let Asked { server, at, message, what } = asked;
        let id = world.send(self.index, server, at, message);
        match &mut self.stage {
            Stage::Away(_) => {}
            Stage::Opening(_, expects) => *expects = Expects::Answer(server, id),
            Stage::Owner(owner) => {
                let member = &mut owner.members[server];
                match what {
                    What::Look => member.look.iter_mut().for_each(|look| look.0 = id),
                    What::Beat => member.beat.iter_mut().for_each(|beat| beat.0 = id),
                    What::Know => member.know = Some(id),
                    What::Write => member.write.iter_mut().for_each(|one| one.2 = Some(id)),
                    What::Opening => {}
                }
            }
        }
    }

    /// An answer has come; false if the process is stopped, and takes it later.
    pub(super) fn answered(
        &mut self,
        world: &mut World,
        (server, id): (usize, u64),
        answer: &Answer,
    ) -> bool {
        if world.now < self.stopped_until {
            return false;
        }
        let now = self.clock(world.now);
        match &mut self.stage {
            Stage::Away(_) => {}
            Stage::Opening(opening, expects) => {
                // A connection that is gone takes all that was asked over it along.
                let is_broken = matches!(answer, Answer::Failed);
                let is_it = |(at, known)| at == server && (known == id || is_broken);
                if matches!(expects, Expects::Answer(at, known) if is_it((*at, *known))) {
                    *expects = Expects::Nothing;
                    opening.answer(match answer {
                        Answer::Bytes(bytes) => notes::Answer::Read(bytes),
                        Answer::Done | Answer::Register(_) => notes::Answer::Done,
                        Answer::Failed => notes::Answer::Failed,
                    });
                }
            }
            Stage::Owner(owner) => owner.answered(world, now, (server, id), answer),
        }
        true
    }
}

impl Member {
    fn new(lease: Lease, now: Nanos) -> Self {
        Self {
            lease,
            is_unproven: false,
            look_at: now,
            look: None,
            beat: None,
            is_seen: false,
            known: None,
            know: None,
            write_at: now,
            write: None,
        }
    }

    /// The connection is gone: what is unanswered is sent again, once the server has shown what it
    /// is.
    fn lost(&mut self, now: Nanos) {
        self.is_unproven = true;
        (self.look, self.beat, self.is_seen) = (None, None, false);
        self.know = None;
        self.write.iter_mut().for_each(|one| one.2 = None);
        self.look_at = now + Span::from_millis(100);
    }
}

impl Owner {
    fn answered(
        &mut self,
        world: &mut World,
        now: Nanos,
        (server, id): (usize, u64),
        answer: &Answer,
    ) {
        let (right, member) = (&mut self.right, &mut self.members[server]);
        let is = |known: Option<u64>| known == Some(id);
        match answer {
            Answer::Failed => member.lost(now),
            Answer::Bytes(front) if is(member.look.map(|look| look.0)) => {
                let (_, sent_at) = member.look.take().expect("looked at above");
                match member.lease.look(front) {
                    Ok(()) => {
                        right.looked(server, sent_at);
                        (member.is_seen, member.is_unproven) = (true, false);
                    }
                    Err(Fenced::Claimed(_)) => right.leave_office(),
                    Err(_) => {}
                }
            }
            Answer::Done if is(member.beat.map(|beat| beat.0)) => {
                let (_, sent_at) = member.beat.take().expect("looked at above");
                member.lease.beaten();
                right.beaten(server, sent_at, now);
            }
            Answer::Register(number) if is(member.know) => {
                (member.known, member.know) = (Some(*number), None);
            }
            Answer::Done => {
                if let Some((number, _, known)) = member.write
                    && is(known)
                {
                    (member.known, member.write) = (Some(number), None);
                    world.acknowledge(server, number);
                }
            }
            _ => {}
        }
    }
}

impl<K: Leased> std::fmt::Debug for Gate<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stage = match &self.stage {
            Stage::Away(at) => format!("away until {} ms", at.0 / 1_000_000),
            Stage::Opening(_, expects) => format!("opens, {expects:?}"),
            Stage::Owner(owner) => format!(
                "owns until {} ms, out: {}",
                owner.right.held_until().0 / 1_000_000,
                owner.right.is_out()
            ),
        };
        let stopped_until = self.stopped_until.0 / 1_000_000;
        let why = &self.refused;
        write!(f, "gate {}: {stage}; stopped until {stopped_until} ms; {why:?}", self.index)
    }
}
