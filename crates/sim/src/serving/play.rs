//! Plays a run: requests as legs through the machines, in virtual time.
//!
//! ```text
//!   begin -> probing -> going -> spreading (writes) -> returning -> begin of the next
//!            a leg for   a leg    a leg for each         a leg
//!            each                 replica
//!            candidate
//! ```
//!
//! A phase is over when all of its legs are.

use std::slice;

use evenkeel_core::id::ServerId;
use evenkeel_core::time::Nanos;

use super::client::Client;
use super::machine::Park;
use super::{Knowledge, Pattern, Placing, Served, Serving};
use crate::events::Events;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A leg has done its step.
    Leg(usize),
    /// All servers report.
    Report,
}

/// What a leg does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Leave(u32),
    Arrive(u32),
    Compute(u32),
    Log(ServerId),
    Read(ServerId),
    Hop,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Probing,
    Going,
    Spreading,
    Returning,
}

/// A place for a request of a client that is under way.
#[derive(Clone, Default)]
struct Request<'a> {
    client: usize,
    object: u64,
    piece: u64,
    phase: Phase,
    began: Nanos,
    sent: Nanos,
    is_probed: bool,
    servers: &'a [ServerId],
    legs_left: usize,
}

/// A leg and the steps that are before it, the next one last. It ends with its steps.
struct Leg {
    request: usize,
    steps: Vec<Step>,
}

struct Stage<'a> {
    serving: &'a Serving<'a>,
    park: Park<'a>,
    clients: Vec<Client<'a>>,
    requests: Vec<Request<'a>>,
    legs: Vec<Leg>,
    /// Places of `legs` that are free.
    spare: Vec<usize>,
    events: Events<Event>,
    now: Nanos,
    tally: Tally,
}

/// What has been counted.
#[derive(Clone, Copy, Default)]
struct Tally {
    done: u64,
    began: Nanos,
    latency: f64,
    crossing: u64,
    probed: u64,
    carried_bytes: u64,
    reads: u64,
    cached_reads: u64,
}

/// Plays it. O(requests * log (requests under way)).
pub fn play(serving: &Serving<'_>) -> Served {
    let mut stage = Stage::new(serving);
    stage.prepare();
    for request in 0..stage.requests.len() {
        stage.begin(request);
    }
    let all = serving.work.settle + serving.work.measure;
    while stage.tally.done < all {
        let (now, event) = stage.events.pop().expect("clients never rest");
        stage.now = now;
        match event {
            Event::Leg(leg) => stage.step(leg),
            Event::Report => stage.report(),
        }
    }
    stage.outcome()
}

impl<'a> Stage<'a> {
    fn new(serving: &'a Serving<'a>) -> Self {
        let Serving { machines, map, work, placing, seed } = serving;
        let members = machines.members();
        let client = |image: u32| {
            let (machine, seed) = (image % machines.count, seed * 1000 + u64::from(image));
            Client::new(&members, map, *work, placing, machine, seed)
        };
        let mut clients: Vec<Client<'a>> = (0..work.images).map(client).collect();
        for client in &mut clients {
            client.set_clients(work.images);
        }
        let places = (0..work.depth).flat_map(|_| 0..clients.len());
        Self {
            serving,
            park: Park::new(machines, work.request_bytes),
            requests: places.map(|client| Request { client, ..Request::default() }).collect(),
            clients,
            legs: Vec::new(),
            spare: Vec::new(),
            events: Events::default(),
            now: Nanos::ZERO,
            tally: Tally::default(),
        }
    }

    /// Lets the servers report once, and puts what is only read where it belongs.
    fn prepare(&mut self) {
        self.report();
        if self.serving.work.pattern != Pattern::RandomReads {
            return;
        }
        for object in 0..self.serving.work.image_objects {
            for client in 0..self.clients.len() {
                if self.is_asking() {
                    self.learn(client, object);
                }
                self.place(client, object);
            }
        }
    }

    fn is_asking(&self) -> bool {
        matches!(self.serving.placing, Placing::Choice { knowledge: Knowledge::Probes, .. })
    }

    fn report(&mut self) {
        for server in self.serving.machines.members() {
            let metrics = self.park.metrics(self.now, server.server);
            self.clients.iter_mut().for_each(|client| client.hear(server.server, metrics));
        }
        self.clients.iter_mut().for_each(Client::refresh);
        if let Placing::Choice { knowledge: Knowledge::Reports(every), .. } = self.serving.placing {
            self.events.push(self.now + every, Event::Report);
        }
    }

    /// What probes of an object's candidates bring.
    fn learn(&mut self, client: usize, object: u64) {
        let candidates = self.clients[client].candidates(object);
        for &server in candidates.sets(self.serving.map).flatten() {
            let metrics = self.park.metrics(self.now, server);
            self.clients[client].hear(server, metrics);
        }
        self.clients[client].refresh();
    }

    fn place(&mut self, client: usize, object: u64) -> &'a [ServerId] {
        let servers = self.clients[client].place(object);
        for &server in servers {
            self.park.take_room(server, self.serving.work.object_bytes);
        }
        servers
    }

    fn begin(&mut self, place: usize) {
        let request = &mut self.requests[place];
        let client = &mut self.clients[request.client];
        request.object = client.next_object();
        request.piece = client.piece(request.object);
        (request.began, request.is_probed) = (self.now, false);
        let (known, index, object) =
            (client.servers(request.object), request.client, request.object);
        match known {
            Some(servers) => self.go(place, servers),
            None if self.is_asking() => self.probe(place),
            None => {
                let servers = self.place(index, object);
                self.go(place, servers);
            }
        }
    }

    /// Asks the primaries of all candidates.
    fn probe(&mut self, place: usize) {
        let request = &mut self.requests[place];
        (request.phase, request.is_probed) = (Phase::Probing, true);
        let candidates = self.clients[request.client].candidates(request.object);
        for servers in candidates.sets(self.serving.map) {
            let machine = self.park.machine_of(servers[0]);
            self.start_leg(place, &[Step::Hop, Step::Compute(machine), Step::Hop]);
        }
    }

    /// Sends the request to its servers.
    fn go(&mut self, place: usize, servers: &'a [ServerId]) {
        let is_read = self.serving.work.pattern == Pattern::RandomReads;
        let request = &mut self.requests[place];
        (request.phase, request.sent) = (Phase::Going, self.now);
        request.servers = if is_read { &servers[..1] } else { servers };
        for &server in request.servers {
            self.park.begin(server);
        }
        let client = &mut self.clients[request.client];
        client.started(servers[0]);
        let (here, there) = (client.machine, self.park.machine_of(servers[0]));
        if here != there {
            self.tally.crossing += 1;
        }
        match (is_read, here == there) {
            (true, true) => self.start_leg(place, &[Step::Compute(there), Step::Read(servers[0])]),
            (true, false) => {
                let steps = [Step::Hop, Step::Compute(there), Step::Read(servers[0])];
                let back = [Step::Leave(there), Step::Arrive(here)];
                self.start_leg(place, &[&steps[..], &back[..]].concat());
            }
            (false, true) => self.start_leg(place, &[Step::Compute(there)]),
            (false, false) => {
                let steps = [Step::Leave(here), Step::Arrive(there), Step::Compute(there)];
                self.start_leg(place, &steps);
            }
        }
    }

    /// The primary logs a write and passes it on.
    fn spread(&mut self, place: usize) {
        let servers = self.requests[place].servers;
        self.requests[place].phase = Phase::Spreading;
        self.start_leg(place, slice::from_ref(&Step::Log(servers[0])));
        let from = self.park.machine_of(servers[0]);
        for &replica in &servers[1..] {
            let to = self.park.machine_of(replica);
            let steps =
                [Step::Leave(from), Step::Arrive(to), Step::Compute(to), Step::Log(replica)];
            self.start_leg(place, &steps);
        }
    }

    fn start_leg(&mut self, request: usize, steps: &[Step]) {
        self.requests[request].legs_left += 1;
        let leg = Leg { request, steps: steps.iter().rev().copied().collect() };
        let at = self.spare.pop().unwrap_or(self.legs.len());
        if at == self.legs.len() {
            self.legs.push(leg);
        } else {
            self.legs[at] = leg;
        }
        self.events.push(self.now, Event::Leg(at));
    }

    fn step(&mut self, at: usize) {
        let bytes = self.serving.work.request_bytes;
        let place = self.legs[at].request;
        let Some(step) = self.legs[at].steps.pop() else {
            self.spare.push(at);
            self.requests[place].legs_left -= 1;
            if self.requests[place].legs_left == 0 {
                self.advance(place);
            }
            return;
        };
        let (now, park) = (self.now, &mut self.park);
        let done = match step {
            Step::Leave(machine) => park.leave(now, machine, bytes),
            Step::Arrive(machine) => park.arrive(now, machine, bytes),
            Step::Compute(machine) => park.compute(now, machine),
            Step::Log(server) => park.log(now, server, bytes),
            Step::Read(server) => park.read(now, server, self.requests[place].piece, bytes),
            Step::Hop => now + self.serving.machines.hop,
        };
        self.events.push(done, Event::Leg(at));
    }

    fn advance(&mut self, place: usize) {
        let (client, object) = (self.requests[place].client, self.requests[place].object);
        match self.requests[place].phase {
            Phase::Probing => {
                self.learn(client, object);
                // Another request of the client may have been quicker.
                let servers = self.clients[client].servers(object);
                let servers = servers.unwrap_or_else(|| self.place(client, object));
                self.go(place, servers);
            }
            Phase::Going if self.serving.work.pattern != Pattern::RandomReads => self.spread(place),
            Phase::Spreading => {
                self.requests[place].phase = Phase::Returning;
                let there = self.park.machine_of(self.requests[place].servers[0]);
                let is_near = there == self.clients[client].machine;
                self.start_leg(place, if is_near { &[] } else { &[Step::Hop] });
            }
            Phase::Going | Phase::Returning => self.finish(place),
        }
    }

    fn finish(&mut self, place: usize) {
        let request = &self.requests[place];
        for &server in request.servers {
            self.park.end(server, self.now.since(request.sent));
        }
        self.clients[request.client].ended(request.servers[0]);
        self.tally.latency += self.now.since(request.began).as_secs_f64();
        self.tally.probed += u64::from(request.is_probed);
        self.tally.done += 1;
        if self.tally.done == self.serving.work.settle {
            self.settled();
        }
        self.begin(place);
    }

    /// From here on it counts.
    fn settled(&mut self) {
        self.tally = Tally {
            done: self.tally.done,
            began: self.now,
            carried_bytes: self.park.carried_bytes,
            reads: self.park.reads,
            cached_reads: self.park.cached_reads,
            ..Tally::default()
        };
    }

    fn outcome(&self) -> Served {
        let (tally, work) = (&self.tally, &self.serving.work);
        let measured = work.measure as f64;
        let bytes = measured * work.request_bytes as f64;
        let seconds = self.now.since(tally.began).as_secs_f64();
        let sum = |of: fn(&Client<'_>) -> u64| self.clients.iter().map(of).sum::<u64>() as f64;
        let reads = (self.park.reads - tally.reads).max(1) as f64;
        Served {
            bytes_per_s: bytes / seconds,
            latency_mean_s: tally.latency / measured,
            crossing_part: tally.crossing as f64 / measured,
            traffic: (self.park.carried_bytes - tally.carried_bytes) as f64 / bytes,
            probed_part: tally.probed as f64 / measured,
            cached_part: (self.park.cached_reads - tally.cached_reads) as f64 / reads,
            diverted_part: sum(|client| client.diverted) / sum(|client| client.placed).max(1.0),
        }
    }
}
