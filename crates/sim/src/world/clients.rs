//! Clients: they draw requests, send them when they are due and a place is free, and hear of them.

use std::ops::Range;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::{Draw, Drawer, Due, Pace, Schedule};

use super::storage::REQUEST_BYTES;
use super::tables::{Flight, Origin, Request, Sender, Target};
use super::{Stop, World};
use crate::checkers::{Custody, Rule, Verdict, broken};
use crate::events::{Bound, Event};
use crate::link::{Link, Way};
use crate::result::{Ending, Mark, Steady};

/// What the clients of one workload share.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) schedule: Schedule,
    /// From an answer to the next request in its place.
    pub(super) think: Span,
    /// Requests that may still start.
    pub(super) requests_left: u64,
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) group: u32,
    /// Where each of its requests goes, among the world's targets: one, or several when striped.
    pub(super) targets: Range<u32>,
    pub(super) drawer: Drawer,
    pub(super) pace: Pace,
    /// Requests that it may have under way beside those that are.
    pub(super) free: u32,
    pub(super) depth: u32,
    pub(super) link: Link,
    /// When it wants to look for something to start.
    pub(super) wake_at: Option<Nanos>,
    pub(super) steady: Steady,
}

impl World<'_> {
    /// Everybody looks for something to start.
    pub(super) fn begin(&mut self) -> Result<(), Stop> {
        self.turn(Nanos::ZERO)?;
        for client in 0..u32::try_from(self.clients.len()).expect("the scenario bounds clients") {
            self.start_due(client)?;
        }
        for replay in 0..u32::try_from(self.replays.len()).expect("few replays") {
            self.start_replay(replay)?;
        }
        self.settle()
    }

    pub(super) fn wake_client(&mut self, client: u32) -> Verdict {
        let now = self.now;
        if self.clients[client as usize].wake_at.take_if(|at| *at <= now).is_some() {
            self.start_due(client)?;
        }
        Ok(())
    }

    /// A client has thought about an answer for long enough.
    pub(super) fn thought(&mut self, client: u32) -> Verdict {
        self.free_place(client)?;
        self.start_due(client)
    }

    fn free_place(&mut self, index: u32) -> Verdict {
        let client = &mut self.clients[index as usize];
        client.free += 1;
        if client.free > client.depth {
            let what = format!("client {index} has fewer than no requests under way");
            return Err(broken(self.now, Rule::QueuesAreBounded, what));
        }
        Ok(())
    }

    /// Starts every request of a client that is due and has a place.
    fn start_due(&mut self, index: u32) -> Verdict {
        loop {
            let client = &mut self.clients[index as usize];
            let group = &mut self.groups[client.group as usize];
            if client.free == 0 || group.requests_left == 0 {
                return Ok(());
            }
            let due = match group.schedule.due(self.now, &mut client.pace) {
                Due::At(due) => due,
                Due::Never => return Ok(()),
                Due::Later(at) => {
                    if client.wake_at.replace(at) != Some(at) {
                        self.events.push(at, Event::Client(index));
                    }
                    return Ok(());
                }
            };
            group.requests_left -= 1;
            client.free -= 1;
            client.pace.advance();
            let draw = client.drawer.draw();
            let targets = client.targets.clone();
            self.start(Sender::Client(index), &draw, due, targets)?;
        }
    }

    /// Starts one request at each of some targets.
    pub(super) fn start(
        &mut self,
        sender: Sender,
        draw: &Draw,
        due: Nanos,
        targets: Range<u32>,
    ) -> Verdict {
        let length = u64::from(draw.size_bytes);
        let parts = targets.end - targets.start;
        let flight = self.flights.insert(Flight {
            sender,
            kind: draw.kind,
            row: self.targets[targets.start as usize].row,
            bytes: length * u64::from(parts),
            due,
            parts_left: parts,
            ok: true,
        });
        for target in targets {
            let Target { domain, home, tenant, row, base_bytes, .. } =
                self.targets[target as usize];
            self.sequence += 1;
            let slot = self.requests.insert(Request {
                custody: Custody::send(length),
                origin: Origin::Flight(flight),
                target,
                domain,
                home,
                tenant,
                row,
                kind: draw.kind,
                offset: base_bytes + draw.offset,
                length,
                sequence: self.sequence,
                reached_at: self.now,
                waits_since: self.now,
                answered_writes: 0,
                is_backlog: false,
                is_measured: self.book.measures(due),
                is_waiting: false,
                ok: true,
            });
            self.conservation.sent(tenant, length);
            self.send(slot)?;
        }
        Ok(())
    }

    /// Sends a request to the gate; when there is none, it goes out once there is.
    pub(super) fn send(&mut self, slot: u32) -> Verdict {
        if !self.gate.is_up() {
            return Ok(());
        }
        let Request { origin, kind, length, .. } = self.requests[slot];
        let bound = Bound { slot, epoch: self.gate.epoch };
        let now = self.now;
        let Some(link) = self.link_of(origin).filter(|link| !link.is_instant()) else {
            return self.reach(bound);
        };
        let payload = if kind == Kind::Write { length } else { 0 };
        let at = link.carry(now, Way::Out, REQUEST_BYTES + payload);
        self.events.push(at, Event::Reach(bound));
        Ok(())
    }

    /// The way to whoever waits for a request; none if that is the gate itself.
    pub(super) fn link_of(&mut self, origin: Origin) -> Option<&mut Link> {
        let Origin::Flight(flight) = origin else { return None };
        Some(match self.flights[flight].sender {
            Sender::Client(index) => &mut self.clients[index as usize].link,
            Sender::Replay(index) => &mut self.replays[index as usize].link,
        })
    }

    /// A client hears of a request.
    pub(super) fn reply(&mut self, slot: u32) -> Verdict {
        let now = self.now;
        let request = &mut self.requests[slot];
        request.custody.reply(now)?;
        let Request { origin, row, kind, length, tenant, ok, .. } = *request;
        if let Some(recording) = &mut self.recording {
            let request = &self.requests[slot];
            let base_bytes = self.targets[request.target as usize].base_bytes;
            recording.answered(now, request, base_bytes);
        }
        self.requests.release(slot);
        self.conservation.answered(tenant, length);
        self.hash.note(now, Mark::Reply, slot, length);
        if ok {
            self.book.delivered(row, kind, length);
        }
        let Origin::Flight(flight) = origin else { unreachable!("a move has no client") };
        let flying = &mut self.flights[flight];
        flying.ok &= ok;
        flying.parts_left -= 1;
        if flying.parts_left > 0 {
            return Ok(());
        }
        let flight_over = *flying;
        self.flights.release(flight);
        self.land(&flight_over)
    }

    /// The last part of a request has been answered.
    fn land(&mut self, flight: &Flight) -> Verdict {
        self.requests_in_all += 1;
        self.stall.answered(self.now);
        let Flight { kind, bytes, due, ok, .. } = *flight;
        self.book.ended(self.now, flight.row, &Ending { kind, bytes, due, ok });
        match flight.sender {
            Sender::Replay(index) => {
                if flight.ok && self.book.is_measuring() {
                    self.replays[index as usize].steady.answered(self.now, flight.bytes);
                }
                self.replay_answered(index)
            }
            Sender::Client(index) => {
                let client = &mut self.clients[index as usize];
                if flight.ok && self.book.is_measuring() {
                    client.steady.answered(self.now, flight.bytes);
                }
                if flight.ok && flight.kind == Kind::Write {
                    client.drawer.write_acknowledged();
                }
                let think = self.groups[client.group as usize].think;
                if think > Span::ZERO {
                    self.events.push(self.now + think, Event::Thought(index));
                    return Ok(());
                }
                self.stall.asked_again();
                self.free_place(index)?;
                self.start_due(index)
            }
        }
    }
}
