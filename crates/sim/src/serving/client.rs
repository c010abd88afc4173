//! A client: what it knows of the servers, and where it has put its objects.

use evenkeel_core::id::ServerId;
use evenkeel_core::place::candidates::{Candidates, ObjectName};
use evenkeel_core::place::choose::choose;
use evenkeel_core::place::cluster::{DomainId, GroupMap, Member};
use evenkeel_core::place::loads::{Loads, Metrics};
use evenkeel_core::place::policy::{Policy, View};
use evenkeel_core::prng::Prng;

use super::{Pattern, Placing, Work};

/// See the [module](self).
pub(super) struct Client<'a> {
    map: &'a GroupMap,
    work: Work,
    /// The machine that it runs on.
    pub(super) machine: u32,
    volume: u64,
    prng: Prng,
    next: u64,
    policy: Option<Box<dyn Policy>>,
    loads: Loads,
    /// The choice of every object that has its place.
    choices: Vec<Option<u8>>,
    pub(super) placed: u64,
    pub(super) diverted: u64,
}

/// Candidates of an object.
const CANDIDATES: usize = 2;

impl<'a> Client<'a> {
    /// The client of an image.
    pub(super) fn new(
        members: &[Member],
        map: &'a GroupMap,
        work: Work,
        placing: &Placing<'_>,
        machine: u32,
        seed: u64,
    ) -> Self {
        let policy = match placing {
            Placing::Hashing => None,
            Placing::Choice { policy, .. } => Some(policy(members, DomainId(machine))),
        };
        Self {
            map,
            work,
            machine,
            volume: seed,
            prng: Prng::new(seed),
            next: 0,
            policy,
            loads: Loads::new(members.len()),
            choices: Vec::new(),
            placed: 0,
            diverted: 0,
        }
    }

    /// Of how many it is one.
    pub(super) fn set_clients(&mut self, clients: u32) {
        self.loads.set_clients(clients);
    }

    /// The object of the next request.
    pub(super) fn next_object(&mut self) -> u64 {
        match self.work.pattern {
            Pattern::SequentialWrites => {
                self.next += 1;
                self.next - 1
            }
            Pattern::RandomWrites | Pattern::RandomReads => {
                self.prng.below(self.work.image_objects)
            }
        }
    }

    /// A name for the piece of the object that is read, unlike those of all other images.
    pub(super) fn piece(&mut self, object: u64) -> u64 {
        let pieces = self.work.object_bytes / self.work.request_bytes;
        let piece = object * pieces + self.prng.below(pieces);
        (self.volume << 40) | piece
    }

    /// The candidates of an object.
    pub(super) fn candidates(&self, object: u64) -> Candidates {
        let count = if self.policy.is_some() { CANDIDATES } else { 1 };
        ObjectName { volume: self.volume, index: object }.candidates(self.map, count)
    }

    /// The servers of an object, if it has its place.
    pub(super) fn servers(&self, object: u64) -> Option<&'a [ServerId]> {
        let choice = self.choices.get(index(object)).copied().flatten()?;
        let group = self.candidates(object).groups()[usize::from(choice)];
        Some(self.map.servers(group))
    }

    /// A server has told how it is doing.
    pub(super) fn hear(&mut self, server: ServerId, metrics: Metrics) {
        self.loads.report(server, metrics);
    }

    /// All that is known is new.
    pub(super) fn refresh(&mut self) {
        if let Some(policy) = &mut self.policy {
            policy.refresh(&self.loads);
        }
    }

    /// Gives an object its place, by what is known now.
    pub(super) fn place(&mut self, object: u64) -> &'a [ServerId] {
        let candidates = self.candidates(object);
        let view = View { loads: &self.loads, size_bytes: self.work.object_bytes };
        let choice = self.policy.as_ref().map_or(0, |policy| {
            choose(&**policy, &view, candidates.sets(self.map), f64::INFINITY)
                .expect("there is no ceiling")
        });
        let at = index(object);
        if self.choices.len() <= at {
            self.choices.resize(at + 1, None);
        }
        self.choices[at] = Some(u8::try_from(choice).expect("a few candidates"));
        self.placed += 1;
        self.diverted += u64::from(choice > 0);
        let servers = self.map.servers(candidates.groups()[choice]);
        for &server in servers {
            self.loads.wrote(server, self.work.object_bytes);
        }
        servers
    }

    /// A request has gone to a server.
    pub(super) fn started(&mut self, server: ServerId) {
        self.loads.started(server);
    }

    /// It was answered.
    pub(super) fn ended(&mut self, server: ServerId) {
        self.loads.ended(server);
    }
}

fn index(object: u64) -> usize {
    usize::try_from(object).expect("images are small")
}
