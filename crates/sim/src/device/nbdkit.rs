//! What nbdkit's filters have in common: connections, threads, and requests that sleep in them.
//!
//! Each connection has a fixed number of threads; a thread takes the oldest request from the
//! socket, sleeps as the filter says, once or several times, and answers. So at most `threads`
//! requests of a connection sleep at once, and the others wait unseen in the socket. The gate fills
//! one connection with [`CONNECTION_CALLS`] requests before it uses the next.
//!
//! ```text
//! gate --connection 0--> thread 0  zzz..|        filter: for how long, and how often
//!                        thread 1  zz|...
//!                        socket: [ request ][ request ]
//!      --connection 1--> thread 0  |
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use evenkeel_core::time::{Nanos, Span};

use super::spec::NbdkitService;
use super::{Device, Op, Outcome, Step};

/// Requests that the gate puts on one connection before it uses the next.
pub const CONNECTION_CALLS: u32 = 16;

/// How one of nbdkit's filters holds requests back.
pub trait Filter {
    /// For how long this request's thread sleeps next; `None` lets it pass. Asked again after each
    /// sleep.
    fn hold(&mut self, now: Nanos, visit: &mut Visit) -> Option<Span>;
}

/// A request in its thread.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// The request.
    pub op: Op,
    /// The connection that brought it.
    pub connection: usize,
    /// The filter's own counters for this request; zero at first.
    pub progress: Progress,
}

/// What a filter remembers of a request between two sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Stages that lie behind it.
    pub stage: u32,
    /// What this stage has granted it so far.
    pub granted: u64,
}

/// Memory behind one of nbdkit's filters.
#[derive(Clone, Debug)]
pub struct Nbdkit<F> {
    filter: F,
    size_bytes: u64,
    service: NbdkitService,
    connections: Vec<Connection>,
    visits: Vec<Visit>,
    free: Vec<u32>,
    /// Who sleeps until when, with a running number that settles ties.
    sleepers: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    sleeps: u64,
    /// Answered requests and their connections.
    done: VecDeque<(u32, usize)>,
}

#[derive(Clone, Debug, Default)]
struct Connection {
    /// Requests that the gate has no answer to.
    calls: u32,
    /// Threads with a request.
    busy: u32,
    waiting: VecDeque<Op>,
}

/// The stage of a request that its filter has let pass: only the overhead is left.
const PASSED: u32 = u32::MAX;

impl<F: Filter> Nbdkit<F> {
    /// An idle server.
    pub fn new(filter: F, size_bytes: u64, service: NbdkitService) -> Self {
        let connections = vec![Connection::default(); service.connections.max(1) as usize];
        Self {
            filter,
            size_bytes,
            service,
            connections,
            visits: Vec::new(),
            free: Vec::new(),
            sleepers: BinaryHeap::new(),
            sleeps: 0,
            done: VecDeque::new(),
        }
    }

    /// The first connection with room, or else the one with the least on it.
    fn choose(&self) -> usize {
        let has_room = |one: &Connection| one.calls < CONNECTION_CALLS;
        let open = self.connections.iter().position(has_room);
        let least = || (0..self.connections.len()).min_by_key(|&i| self.connections[i].calls);
        open.or_else(least).expect("there is one connection at least")
    }

    /// Lets the connection's free threads take requests from the socket.
    fn admit(&mut self, now: Nanos, connection: usize) {
        while self.connections[connection].busy < self.service.threads.max(1)
            && let Some(op) = self.connections[connection].waiting.pop_front()
        {
            self.connections[connection].busy += 1;
            let visit = Visit { op, connection, progress: Progress::default() };
            let index = self.free.pop().unwrap_or_else(|| {
                self.visits.push(visit);
                u32::try_from(self.visits.len() - 1).expect("tags are u32")
            });
            self.visits[index as usize] = visit;
            self.go_on(now, index);
        }
    }

    /// Lets a request sleep (again), or answers it, which frees its thread.
    fn go_on(&mut self, now: Nanos, index: u32) {
        let visit = &mut self.visits[index as usize];
        let sleep = if visit.progress.stage == PASSED {
            Span::ZERO
        } else if let Some(sleep) = self.filter.hold(now, visit) {
            sleep + self.service.oversleep
        } else {
            visit.progress.stage = PASSED;
            self.service.overhead
        };
        if visit.progress.stage == PASSED && sleep == Span::ZERO {
            self.done.push_back((visit.op.tag, visit.connection));
            self.connections[visit.connection].busy -= 1;
            self.free.push(index);
            return;
        }
        self.sleeps += 1;
        self.sleepers.push(Reverse((now + sleep, self.sleeps, index)));
    }
}

impl<F: Filter> Device for Nbdkit<F> {
    fn submit(&mut self, now: Nanos, op: Op) {
        let connection = self.choose();
        self.connections[connection].calls += 1;
        self.connections[connection].waiting.push_back(op);
        self.admit(now, connection);
    }

    fn poll(&mut self, now: Nanos) -> Step {
        loop {
            if let Some((tag, connection)) = self.done.pop_front() {
                self.connections[connection].calls -= 1;
                return Step::Done { tag, outcome: Outcome::Good };
            }
            match self.sleepers.peek() {
                None => return Step::Idle,
                Some(&Reverse((wakes_at, ..))) if wakes_at > now => {
                    return Step::WaitUntil(wakes_at);
                }
                Some(&Reverse((_, _, index))) => {
                    self.sleepers.pop();
                    self.go_on(now, index);
                    self.admit(now, self.visits[index as usize].connection);
                }
            }
        }
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}
