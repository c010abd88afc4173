//! One client: its requests in flight, over one connection, or over many with a barrier.
//!
//! ```text
//!              slot 0   slot 1   slot 2            depth 3, striped over two targets
//! link A        [##]     [##]     [  ]   ended
//! link B        [##]     [  ]     [  ]
//!                |        |        `- both parts ended: the request ended, the slot is free
//!                `- in flight      `- waits for link B: the barrier
//! ```
//!
//! The client is one task. It reads what has come, starts what is due, and writes everything in one
//! call per connection, until there is nothing to read.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::{Draw, Schedule};

use super::LoadError;
use super::link::{Ended, Link, Payload};
use super::record::{Ending, Recorder, Steady};
use super::replay::{Due, Logged, RequestLog};
use super::verify::Ledger;
use super::work::Work;
use crate::alarm::Alarm;
use crate::buffer::Buf;
use crate::clock::Clock;

/// How long after the end answers are still waited for.
const DRAIN: Span = Span::from_secs(20);

/// What the clients of one group share.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) clock: Clock,
    pub(super) recorder: RefCell<Recorder>,
    /// Requests that may still start.
    pub(super) requests_left: Cell<u64>,
    /// When requests arrive. What arrived late in an open loop is still sent behind the end.
    pub(super) schedule: Schedule,
    /// Wake the group's clients, which may be waiting for what is due long after.
    pub(super) wakers: RefCell<Vec<Waker>>,
    /// Takes a line for every request, if wanted.
    pub(super) log: Option<RequestLog>,
}

impl Group {
    /// Lets no further request start, as if the group had made all of its requests.
    pub(super) fn end_early(&self) {
        self.requests_left.set(0);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }
}

/// One client and its connections.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) group: Rc<Group>,
    pub(super) links: Vec<Link>,
    pub(super) work: Work,
    pub(super) ledger: Option<Ledger>,
    /// What unverified writes carry: random bytes, twice the largest request.
    pub(super) filler: Arc<Buf>,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// A request that overlaps one under way; it starts when that one has ended.
    stalled: Option<Draw>,
    /// Ranges still to be read back, once the load is over.
    readback: Option<VecDeque<(u64, u32)>>,
    /// Nothing more will ever be due.
    is_done: bool,
    alarm: Alarm,
    /// What the alarm was last set to.
    alarm_at: Nanos,
    ended: Vec<Ended>,
    scratch: Vec<u8>,
    filler_at: usize,
    steady: Steady,
}

/// One request under way.
#[derive(Debug)]
struct Flight {
    draw: Draw,
    due: Nanos,
    sent: Nanos,
    parts_left: usize,
    error: Option<String>,
}

impl Client {
    /// A client with all that it needs; `depth` is what its links were made for.
    pub(super) fn new(
        group: Rc<Group>,
        links: Vec<Link>,
        work: Work,
        (ledger, filler): (Option<Ledger>, Arc<Buf>),
        depth: u32,
    ) -> std::io::Result<Self> {
        let depth = depth as usize;
        Ok(Self {
            group,
            links,
            work,
            ledger,
            filler,
            flights: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            stalled: None,
            readback: None,
            is_done: false,
            alarm: Alarm::new()?,
            alarm_at: Nanos::ZERO,
            ended: Vec::new(),
            scratch: Vec::new(),
            filler_at: 0,
            steady: Steady::default(),
        })
    }

    /// Runs to the end of the load and tells the group. What was written can be read back after.
    pub(super) async fn run(&mut self) -> Result<(), LoadError> {
        // A client is one task, whose waker stays the same.
        let waker = std::future::poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        self.group.wakers.borrow_mut().push(waker);
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Reads back and checks all that was written, if this client verifies.
    pub(super) async fn read_back(&mut self) -> Result<(), LoadError> {
        if self.unanswered() > 0 {
            return Ok(());
        }
        if let Some(ledger) = &self.ledger {
            self.stalled = None;
            self.readback = Some(ledger.written(1 << 20).into());
            std::future::poll_fn(|cx| self.poll(cx)).await?;
        }
        if let Some(ledger) = &self.ledger {
            self.group.recorder.borrow_mut().verified(ledger.found());
        }
        Ok(())
    }

    /// What was delivered from the first to the last answer of the measured time.
    pub(super) fn steady(&self) -> Steady {
        self.steady
    }

    /// Requests that have no answer, those included that could never be sent.
    pub(super) fn unanswered(&self) -> u64 {
        let sent: u64 = self.links.iter().map(Link::unanswered).sum();
        sent + self.work.overdue(&self.group.schedule, self.group.requests_left.get())
    }

    /// Says goodbye on every connection.
    pub(super) async fn disconnect(self) {
        for link in self.links {
            link.disconnect().await;
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LoadError>> {
        loop {
            let mut received = false;
            for index in 0..self.links.len() {
                received |= self.links[index].poll_receive(cx, &mut self.ended)?;
                self.settle(index);
            }
            let now = self.group.clock.now();
            let wake_at = self.start_due(cx, now);
            for link in &mut self.links {
                link.poll_send(cx)?;
            }
            let idle = self.free.len() == self.flights.len();
            let given_up = self.readback.is_none() && now >= self.last_arrival() + DRAIN;
            if (idle && self.is_over(now)) || given_up {
                return Poll::Ready(Ok(()));
            }
            if !received && self.poll_alarm(cx, now, wake_at).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Waits until `at`; for ever without one.
    fn poll_alarm(&mut self, cx: &mut Context<'_>, now: Nanos, at: Option<Nanos>) -> Poll<()> {
        let Some(at) = at else { return Poll::Pending };
        if at != self.alarm_at {
            self.alarm_at = at;
            // A kernel that refuses its own timer leaves nothing to go on with.
            self.alarm.set(at.since(now)).expect("a timer can be set to any span");
        }
        self.alarm.poll(cx).map(|fired| fired.expect("a timer can be read"))
    }

    fn is_over(&self, now: Nanos) -> bool {
        match &self.readback {
            Some(ranges) => ranges.is_empty(),
            None => {
                (now >= self.last_arrival() && self.is_done)
                    || self.group.requests_left.get() == 0
                    || (self.work.is_over() && self.stalled.is_none())
            }
        }
    }

    /// No request arrives from here on.
    fn last_arrival(&self) -> Nanos {
        self.group.schedule.active.end
    }

    /// Starts every request that is due and has a slot. Returns when to look again if no answer
    /// comes before.
    fn start_due(&mut self, cx: &mut Context<'_>, now: Nanos) -> Option<Nanos> {
        while let Some(&slot) = self.free.last() {
            if self.is_over(now) {
                break;
            }
            let due = match self.due(cx, now) {
                Due::Now(due) => due,
                Due::Later(later) => return Some(later.min(self.last_arrival())),
                Due::Unknown => break,
                Due::Never => {
                    self.is_done = true;
                    break;
                }
            };
            let Some(draw) = self.draw() else { break };
            self.free.pop();
            self.start(slot, draw, due, now);
        }
        // Answers wake the task by themselves; the end and the giving up must not be missed.
        let next = if now < self.last_arrival() {
            self.last_arrival()
        } else {
            self.last_arrival() + DRAIN
        };
        (self.readback.is_none() && next < Nanos(u64::MAX)).then_some(next)
    }

    /// When the request was due that may start now; or when to ask again.
    fn due(&mut self, cx: &mut Context<'_>, now: Nanos) -> Due {
        if self.readback.is_some() {
            return Due::Now(now);
        }
        self.work.due(cx, now, &self.group.schedule)
    }

    /// The next request, with its range claimed; `None` if it has to wait for another.
    fn draw(&mut self) -> Option<Draw> {
        if let Some(ranges) = &mut self.readback {
            let (offset, size_bytes) = ranges.pop_front()?;
            return Some(Draw { kind: Kind::Read, offset, size_bytes, fua: false });
        }
        let draw = self.stalled.take().unwrap_or_else(|| self.work.take());
        if let Some(ledger) = &mut self.ledger
            && !ledger.claim(draw.offset, u64::from(draw.size_bytes))
        {
            self.stalled = Some(draw);
            return None;
        }
        self.work.started();
        self.group.requests_left.set(self.group.requests_left.get() - 1);
        Some(draw)
    }

    fn start(&mut self, slot: usize, draw: Draw, due: Nanos, now: Nanos) {
        let size = draw.size_bytes as usize;
        let payload = match (draw.kind, &mut self.ledger) {
            (Kind::Write, Some(ledger)) => {
                self.scratch.resize(size, 0);
                ledger.start_write(draw.offset, &mut self.scratch);
                Payload::Exact(&self.scratch)
            }
            (Kind::Write, None) => {
                let room = self.filler.len().saturating_sub(size);
                // Steps of an odd number of sectors: content does not repeat soon.
                self.filler_at = (self.filler_at + 7 * 512) % (room + 1);
                Payload::Filler(&self.filler, self.filler_at)
            }
            _ => Payload::None,
        };
        let keep = draw.kind == Kind::Read && self.ledger.is_some();
        for link in &mut self.links {
            link.request(slot, &draw, payload, keep);
        }
        let parts_left = self.links.len();
        self.flights[slot] = Some(Flight { draw, due, sent: now, parts_left, error: None });
    }

    /// Books the parts that ended on one link.
    fn settle(&mut self, link: usize) {
        if self.ended.is_empty() {
            return;
        }
        let now = self.group.clock.now();
        let mut parts = std::mem::take(&mut self.ended);
        for part in parts.drain(..) {
            let flight = self.flights[part.slot].as_mut().expect("links answer what was asked");
            flight.parts_left -= 1;
            match part.result {
                Ok(data) => {
                    if self.readback.is_none() {
                        let bytes = u64::from(part.length);
                        self.group.recorder.borrow_mut().delivered(now, part.kind, bytes);
                    }
                    if let (Some(ledger), Some(data)) = (&mut self.ledger, data) {
                        ledger.check(flight.draw.offset, &data);
                    }
                }
                Err(what) => {
                    let target = self.links[link].target();
                    flight.error.get_or_insert_with(|| format!("{target}: {what}"));
                }
            }
            if flight.parts_left == 0 {
                let flight = self.flights[part.slot].take().expect("seen above");
                self.free.push(part.slot);
                self.end(&flight, now);
            }
        }
        self.ended = parts;
    }

    fn end(&mut self, flight: &Flight, now: Nanos) {
        let Flight { draw, due, sent, .. } = *flight;
        let ok = flight.error.is_none();
        if let Some(ledger) = &mut self.ledger {
            if ok && draw.kind == Kind::Write {
                ledger.end_write(draw.offset, u64::from(draw.size_bytes));
            }
            ledger.release(draw.offset, u64::from(draw.size_bytes));
        }
        self.work.answered(now, ok && draw.kind == Kind::Write);
        if let Some(log) = &self.group.log {
            let Draw { kind, offset, size_bytes, .. } = draw;
            log.ended(now, Logged { kind, offset, size_bytes, due, sent });
        }
        let mut recorder = self.group.recorder.borrow_mut();
        match &flight.error {
            Some(error) => {
                recorder.failed(|| format!("{} at {}, {error}", draw.kind.name(), draw.offset));
            }
            None if self.readback.is_none() => {
                if recorder.is_measuring(now) {
                    let bytes = u64::from(draw.size_bytes) * self.links.len() as u64;
                    self.steady.answered(now, bytes);
                }
                recorder.ended(now, &Ending { kind: draw.kind, due, sent });
            }
            None => {}
        }
    }
}
