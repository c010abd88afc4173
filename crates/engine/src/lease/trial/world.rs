//! Servers, the network before them, and what happens when.
//!
//! ```text
//! gate: asked, may stop --> sent: kernel, may be cut, dropped --> server, may be late --> done
//! ```
//!
//! A kernel gives up what a server has not acknowledged for [`Times::unacknowledged`]. What a
//! server has taken it carries out, whatever becomes of the connection; answers may be late too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};

use crate::lease::Times;
use crate::trial::disk::Disk;

pub(super) const TIMES: Times = Times::DEFAULT;

/// What a gate has sent.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Read {
        offset: u64,
        length: u64,
    },
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    Flush,
    /// A write to the register of the server, by one who believes that this stands there.
    Data {
        number: u64,
        over: u64,
    },
    /// A read of the register.
    Register,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Bytes(Vec<u8>),
    Register(u64),
    Done,
    Failed,
}

/// A message under way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) gate: usize,
    pub(super) server: usize,
    /// Which connection of the gate to the server.
    pub(super) connection: u64,
    pub(super) id: u64,
    pub(super) asked_at: Nanos,
    pub(super) message: Message,
}

/// What happens next.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A gate goes on.
    Step(usize),
    /// A message reaches its server, if nothing is in the way.
    Arrive(Sent),
    /// The server carries a message out.
    Execute(Sent),
    /// An answer reaches its gate.
    Answer { gate: usize, server: usize, connection: u64, id: u64, answer: Answer },
    /// The network of a gate is cut, or whole again.
    Network { gate: usize, is_cut: bool },
    /// A gate's process stops for so long.
    Pause(usize, Span),
}

struct Timed {
    at: Nanos,
    number: u64,
    event: Event,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The register of a server: stands for all data and notes on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Register {
    pub(super) number: u64,
    gate: usize,
    /// Whether its writer was told that it stands.
    is_acknowledged: bool,
    /// How long it was on its way.
    underway: Span,
}

/// Flushed data of one gate that another one, who did not know of it, has written over.
#[derive(Debug)]
#[expect(dead_code, reason = "told to whoever reads a failure")]
pub(super) struct Loss {
    pub(super) by: usize,
    pub(super) server: usize,
    /// How long the bytes of either were on their way since their gate had asked whether it may
    /// send them.
    pub(super) underway: Span,
}

/// See the [module](self).
pub(super) struct World {
    pub(super) now: Nanos,
    pub(super) prng: Prng,
    pub(super) disks: Vec<Disk>,
    pub(super) registers: Vec<Register>,
    events: BinaryHeap<Reverse<Timed>>,
    numbers: u64,
    is_cut: Vec<bool>,
    /// By gate and server: the connection that stands.
    connections: Vec<Vec<u64>>,
    /// By gate and server: nothing arrives before what was sent earlier.
    arrives_at: Vec<Vec<Nanos>>,
    pub(super) losses: Vec<Loss>,
    /// Of a hundred messages so many are carried out late.
    pub(super) late_percent: u64,
}

impl World {
    pub(super) fn new(seed: u64, disks: Vec<Disk>, gates: usize, late_percent: u64) -> Self {
        Self {
            now: Nanos::ZERO,
            prng: Prng::new(seed),
            registers: vec![Register::default(); disks.len()],
            events: BinaryHeap::new(),
            numbers: 0,
            is_cut: vec![false; gates],
            connections: vec![vec![0; disks.len()]; gates],
            arrives_at: vec![vec![Nanos::ZERO; disks.len()]; gates],
            losses: Vec::new(),
            late_percent,
            disks,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn at(&mut self, at: Nanos, event: Event) {
        let number = self.number();
        self.events.push(Reverse(Timed { at: at.max(self.now), number, event }));
    }

    pub(super) fn after(&mut self, span: Span, event: Event) {
        self.at(self.now + span, event);
    }

    pub(super) fn next(&mut self) -> Option<Event> {
        let Reverse(timed) = self.events.pop()?;
        self.now = timed.at;
        Some(timed.event)
    }

    /// A span up to this one, in microseconds.
    pub(super) fn span_up_to(&mut self, most: Span) -> Span {
        Span::from_micros(self.prng.below(most.0 / 1000 + 1))
    }

    /// Hands a message to the gate's kernel; returns by what its answer is known.
    pub(super) fn send(
        &mut self,
        gate: usize,
        server: usize,
        asked_at: Nanos,
        message: Message,
    ) -> u64 {
        let id = self.number();
        let connection = self.connections[gate][server];
        let latency = Span::from_micros(200 + self.prng.below(800));
        let at = (self.now + latency).max(self.arrives_at[gate][server]);
        self.arrives_at[gate][server] = at;
        let sent = Sent { gate, server, connection, id, asked_at, message };
        self.at(at, Event::Arrive(sent));
        id
    }

    /// The connection is given up: what has not reached the server never will.
    pub(super) fn hang_up(&mut self, gate: usize, server: usize) {
        self.connections[gate][server] = self.number();
    }

    pub(super) fn set_cut(&mut self, gate: usize, is_cut: bool) {
        self.is_cut[gate] = is_cut;
    }

    /// A message has come to its server, unless the network is cut or its connection is gone.
    pub(super) fn arrive(&mut self, sent: Sent) {
        if self.connections[sent.gate][sent.server] != sent.connection {
            return;
        }
        if self.is_cut[sent.gate] {
            // The kernel tries again for a while, then gives the connection up.
            let until = sent.asked_at + TIMES.unacknowledged();
            if self.now >= until.max(sent.asked_at + Span::from_millis(10)) {
                let Sent { gate, server, connection, id, .. } = sent;
                self.hang_up(gate, server);
                let answer = Answer::Failed;
                return self.at(self.now, Event::Answer { gate, server, connection, id, answer });
            }
            return self.after(Span::from_millis(50), Event::Arrive(sent));
        }
        let is_late = self.prng.below(100) < self.late_percent;
        let most = if is_late { Span::from_secs(12) } else { Span::from_millis(2) };
        let delay = self.span_up_to(most);
        self.after(delay, Event::Execute(sent));
    }

    /// The server carries a message out, and answers if anybody still listens.
    pub(super) fn execute(&mut self, sent: &Sent) {
        let Sent { gate, server, connection, id, asked_at, .. } = *sent;
        let answer = match &sent.message {
            Message::Read { offset, length } => {
                Answer::Bytes(self.disks[server].read(*offset, *length))
            }
            Message::Write { offset, bytes } => {
                self.disks[server].write(*offset, bytes, true);
                Answer::Done
            }
            Message::Flush => Answer::Done,
            Message::Register => Answer::Register(self.registers[server].number),
            Message::Data { number, over } => {
                let (found, underway) = (self.registers[server], self.now.since(asked_at));
                if found.number != *over && found.gate != gate && found.is_acknowledged {
                    let underway = underway.max(found.underway);
                    self.losses.push(Loss { by: gate, server, underway });
                }
                let (number, is_acknowledged) = (*number, false);
                self.registers[server] = Register { number, gate, is_acknowledged, underway };
                Answer::Done
            }
        };
        if self.connections[gate][server] == connection {
            let is_late = self.prng.below(100) < self.late_percent;
            let most = if is_late { Span::from_secs(8) } else { Span::from_millis(1) };
            let latency = self.span_up_to(most);
            self.after(latency, Event::Answer { gate, server, connection, id, answer });
        }
    }

    /// A gate was told that this number stands.
    pub(super) fn acknowledge(&mut self, server: usize, number: u64) {
        let register = &mut self.registers[server];
        register.is_acknowledged |= register.number == number;
    }

    /// Nothing of a gate reaches the servers any more; what they have taken is carried out.
    pub(super) fn fence(&mut self, gate: usize) {
        let mut taken = Vec::new();
        let events = std::mem::take(&mut self.events);
        for Reverse(timed) in events.into_sorted_vec().into_iter().rev() {
            match timed.event {
                Event::Execute(sent) if sent.gate == gate => taken.push(sent),
                Event::Arrive(sent) if sent.gate == gate => {}
                event => self.events.push(Reverse(Timed { event, ..timed })),
            }
        }
        (0..self.disks.len()).for_each(|server| self.hang_up(gate, server));
        for sent in &taken {
            self.execute(sent);
        }
    }
}
