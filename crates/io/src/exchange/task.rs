//! The thread of the exchange: what comes in from the network, from the workers and from the clock,
//! one after the other.

mod joining;
mod summing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::control::challenge::{Challenges, Proof};
use evenkeel_core::control::common_time::{CommonTime, HEARD_FOR};
use evenkeel_core::control::loss::{Taken, Words};
use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::pace;
use evenkeel_core::control::peers::{AHEAD_MAX, HOSTS_MAX, Patience, PeerCounts, Refusal};
use evenkeel_core::control::service::Service;
use evenkeel_core::control::summary::{HostId, PART_FLOWS_MAX, PARTS_MAX, Summary};
use evenkeel_core::control::sums::Shard;
use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy;
use evenkeel_wire::exchange::recording::Event;
use evenkeel_wire::exchange::service::ServiceDatagram;
use evenkeel_wire::exchange::{self as wire, DATAGRAM_BYTES_MAX, Datagram, Malformed, Word};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::departures::Departures;
use super::group::GroupSeat;
use super::incarnation::Incarnation;
use super::key::Key;
use super::list::List;
use super::peer::{Fault, Found, Peer, peers};
use super::recorder::Recorder;
use super::report::{ExchangeReport, RefusedReport, Room};
use super::seat::{Due, Seat};
use super::sums::Sums;
use super::time::{self, wall_ns, wall_s};
use super::together::LEFT_AFTER;
use super::transport::{Opening, Origin, Topic, Transport};
use super::{GroupPlace, Place, PlannedExchange, Told};
use crate::clock::Clock;
use crate::worker::exchange::Asked;
use crate::worker::message::Message;
use joining::agree;

/// What the gate asks of the exchange.
#[derive(Debug)]
pub(super) enum Order {
    /// Another policy is in force.
    Apply(Box<PlannedExchange>),
    /// Give the books.
    Report(oneshot::Sender<ExchangeReport>),
}

const LOOK_EVERY: Span = Span::from_secs(60);
/// So long after the start, words under the own name are those of another gate, ..
const DUPLICATE_AFTER: Span = Span::from_secs(10);
/// .. which has gone if it was not heard for so long.
const DUPLICATE_FOR: Span = Span::from_secs(60);

struct Exchange {
    settings: policy::Exchange,
    key: Arc<Key>,
    own: HostId,
    incarnation: Incarnation,
    clock: Clock,
    common: CommonTime,
    challenges: Challenges,
    transport: Transport,
    workers: Vec<UnboundedSender<Message>>,
    /// Where the workers answer.
    told: UnboundedSender<Told>,
    found: UnboundedSender<Found>,
    peers: BTreeMap<HostId, Peer>,
    seats: BTreeMap<DeviceId, Seat>,
    groups: BTreeMap<DeviceId, GroupSeat>,
    departures: Departures,
    /// Room for others' words.
    room: Option<Room>,
    refused: RefusedReport,
    recorder: Option<Recorder>,
    /// When it was last looked who has left.
    looked: Nanos,
    /// When another gate spoke under the name of this one.
    duplicate: Option<Nanos>,
    /// The list in etcd, if gates meet by one.
    list: Option<List>,
}

/// Incarnation until nobody can give orders any more.
pub(super) async fn live(
    planned: PlannedExchange,
    state: Option<PathBuf>,
    opening: Opening,
    workers: Vec<UnboundedSender<Message>>,
    mut orders: UnboundedReceiver<Order>,
) {
    let transport = match Transport::open(opening).await {
        Ok(transport) => transport,
        Err(error) => return tracing::error!(%error, "the exchange cannot be carried"),
    };
    let (told, mut summaries) = unbounded_channel();
    let (found, mut addresses) = unbounded_channel();
    let (list, mut lists) = unbounded_channel();
    let clock = Clock::start();
    let mut exchange = Exchange {
        own: planned.settings.host(),
        incarnation: Incarnation::begin(state, wall_s()),
        clock,
        common: CommonTime::start(clock.now(), wall_ns(), planned.settings.period),
        challenges: Challenges::default(),
        transport,
        workers,
        told,
        found,
        peers: BTreeMap::new(),
        seats: BTreeMap::new(),
        groups: BTreeMap::new(),
        departures: Departures::default(),
        room: None,
        refused: RefusedReport::default(),
        recorder: None,
        looked: Nanos::ZERO,
        duplicate: None,
        list: List::join(&planned.settings, list),
        settings: planned.settings.clone(),
        key: Arc::clone(&planned.key),
    };
    exchange.apply(planned);
    // One byte more than a datagram may have tells one that has.
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX + 1];
    loop {
        let wait = exchange.run_due();
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Apply(planned)) => exchange.apply(*planned),
                Some(Order::Report(reply)) => _ = reply.send(exchange.report()),
                None => return,
            },
            received = exchange.transport.receive(&mut buffer) => match received {
                Ok((length, from)) => exchange.hear(&buffer[..length], &from),
                Err(error) => tracing::debug!(%error, "nothing was received"),
            },
            Some(told) = summaries.recv() => exchange.tell(told),
            Some((host, address)) = addresses.recv() => {
                if let Some(peer) = exchange.peers.get_mut(&host) {
                    peer.address = Some(address);
                }
            }
            Some(names) = lists.recv() => exchange.gather(&names),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl Exchange {
    fn apply(&mut self, planned: PlannedExchange) {
        let PlannedExchange { settings, key, places, groups } = planned;
        if let Some(listed) = settings.others() {
            let before = std::mem::take(&mut self.peers);
            self.peers = peers(listed, before, Some(&self.found));
        }
        let members = settings.members(self.peers.values().map(|peer| peer.name.as_str()));
        let mut before = std::mem::take(&mut self.seats);
        let now = self.clock.now();
        let seat = |place: Place| {
            let device = settings.device(&place.array);
            let seat = match before.remove(&device) {
                Some(mut seat) => {
                    seat.change(now, place, &members);
                    seat
                }
                None => Seat::new(place, self.own, &members, self.transport.passes_on()),
            };
            (device, seat)
        };
        self.seats = places.into_iter().map(seat).collect();
        let mut before = std::mem::take(&mut self.groups);
        let seat = |(group, place)| {
            let seat = match before.remove(&group) {
                Some(mut seat) => {
                    seat.change(place, self.own, &members);
                    seat
                }
                None => GroupSeat::new(place, self.own, &members),
            };
            (group, seat)
        };
        self.groups = groups.into_iter().map(seat).collect();
        (self.settings, self.key) = (settings, key);
        for seat in self.seats.values() {
            agree(&self.workers, seat);
            if seat.together.has_begun() {
                self.join(seat);
            }
        }
        self.settle(&members);
    }

    /// From now on the exchange is with the gates of these names.
    fn gather(&mut self, names: &BTreeSet<String>) {
        let before = std::mem::take(&mut self.peers);
        let others = names.iter().map(String::as_str).filter(|name| *name != self.settings.own);
        let found = self.settings.meeting.listen().map(|_| &self.found);
        self.peers = peers(others.clone(), before, found);
        let members = self.settings.members(others);
        let now = self.clock.now();
        for seat in self.seats.values_mut() {
            seat.change(now, seat.place.clone(), &members);
        }
        for group in self.groups.values_mut() {
            group.change(group.place.clone(), self.own, &members);
        }
        self.settle(&members);
    }

    /// Other gates take part, or others by other rules.
    fn settle(&mut self, members: &[HostId]) {
        let is_peer = |host: HostId| self.peers.contains_key(&host);
        self.common.change(self.settings.period, is_peer);
        self.challenges.retain(is_peer);
        self.room = self.transport.make_room(self.peers.len(), self.parts());
        self.listen();
        self.record(members);
    }

    /// In how many parts a gate of so many tenants as this one may say a word.
    fn parts(&self) -> usize {
        let tenants = self.seats.values().map(|seat| seat.place.tenants.len()).max();
        tenants.unwrap_or(0).div_ceil(PART_FLOWS_MAX).clamp(1, PARTS_MAX)
    }

    /// Where a server passes words on, whoever has the key takes part from its first fresh word on,
    /// under the name that it publishes under if that has the number which the tag vouches for.
    fn meet(&mut self, (host, incarnation): (HostId, u64), from: &Origin, skew: i64) {
        let Origin::Gate(name) = from else { return };
        let speaks_now = skew.unsigned_abs() <= AHEAD_MAX
            || self.challenges.has_proven(self.clock.now(), host, incarnation);
        if speaks_now {
            self.add(name, host);
        }
    }

    /// One more gate takes part, if its name has its number.
    fn add(&mut self, name: &str, host: HostId) {
        let is_new = host != self.own && !self.peers.contains_key(&host);
        let has_room = self.peers.len() + 1 < HOSTS_MAX;
        if !is_new || !has_room || HostId::named(name) != host {
            return;
        }
        if self.hears_sums_alone() {
            // Nothing is decided by its word: one of a thousand in the shard of a collector.
            tracing::debug!(gate = name, "joins the exchange");
            self.peers.insert(host, Peer::new(name, None));
            return;
        }
        tracing::info!(gate = name, "joins the exchange");
        let known = self.peers.values().map(|peer| peer.name.clone());
        self.gather(&known.chain([name.to_owned()]).collect());
    }

    /// A gate of another version has our key: over a server it is known by that alone, so that it
    /// can be named.
    fn name_version(&mut self, body: &[u8], from: &Origin) {
        if let (Some(host), Origin::Gate(name)) = (wire::host_of(body), from) {
            self.add(name, host);
        }
    }

    /// The gates of the exchange by number, this one among them.
    fn members(&self) -> Vec<HostId> {
        self.settings.members(self.peers.values().map(|peer| peer.name.as_str()))
    }

    /// Forgets gates that joined by their words and have had none for long.
    fn part(&mut self) {
        let now = self.clock.now();
        if now.since(self.looked) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        self.leave(now);
        let patience = if self.hears_sums_alone() { HEARD_FOR } else { LEFT_AFTER };
        let has_left = |peer: &Peer| peer.unseen_for(now).is_none_or(|unseen| unseen > patience);
        if self.settings.meeting.listen().is_some() || !self.peers.values().any(has_left) {
            return;
        }
        let stay = self.peers.values().filter(|peer| !has_left(peer));
        self.gather(&stay.map(|peer| peer.name.clone()).collect());
    }

    /// Records from now on, or no longer, as the policy says.
    fn record(&mut self, members: &[HostId]) {
        let path = self.settings.record.as_deref();
        if self.recorder.as_ref().map(Recorder::path) != path {
            let recorder = path.map(Recorder::new).transpose();
            self.recorder = recorder.unwrap_or_else(|error| {
                tracing::warn!(%error, "the exchange cannot be recorded");
                None
            });
        }
        let Some(recorder) = &mut self.recorder else { return };
        for (device, seat) in &self.seats {
            let (device, own, rules) = (*device, self.own, seat.place.rules);
            let hears_sums = seat.hears_sums();
            let is_counted = seat.sums.as_ref().is_some_and(Sums::is_counted);
            let sums = Event::Sums { device, hears_sums, is_counted };
            // A seat that hears sums does not follow its members.
            if !hears_sums {
                recorder.note(&sums);
            }
            recorder.note(&Event::Seat { device, own, rules, members: members.to_vec() });
            if hears_sums {
                recorder.note(&sums);
            }
        }
    }

    /// Does what the clock asks for; how long it has nothing more to ask.
    fn run_due(&mut self) -> Duration {
        self.part();
        let common_ns = self.keep_time();
        let (mut wait_ns, mut presence, mut sums) = (u64::MAX, Vec::new(), Vec::new());
        let (mut has_turned, is_connected) = (false, self.transport.is_connected());
        let collector = (self.own, self.incarnation.number());
        for (device, seat) in &mut self.seats {
            seat.note_connection(is_connected);
            loop {
                match seat.due(common_ns) {
                    Due::Nothing { for_ns } => break wait_ns = wait_ns.min(for_ns),
                    Due::Sum(sum) => {
                        let recorder = &mut self.recorder;
                        let datagrams = seat.take_sum(*device, collector, sum.words, |event| {
                            if let Some(recorder) = recorder {
                                recorder.note(&event);
                            }
                        });
                        sums.push((datagrams, sum.roster));
                    }
                    Due::Close { number } if !seat.together.is_together() => {
                        has_turned = true;
                        presence.push((seat.place.backend.clone(), number));
                    }
                    Due::Close { number } => {
                        has_turned = true;
                        let Place { domain, server, backend, worker, .. } = &seat.place;
                        let asked = Asked::ClosePeriod {
                            server: *server,
                            backend: backend.clone(),
                            number,
                            reply: self.told.clone(),
                        };
                        ask(&self.workers[*worker], domain, asked);
                    }
                    Due::Decide(own) => {
                        let told = self.recorder.is_some().then(|| own.clone());
                        let decision = Box::new(seat.decide(own).decision.clone());
                        if let (Some(recorder), Some(told)) = (&mut self.recorder, told) {
                            recorder.note_decision(*device, seat.terms(), told, decision.slots);
                        }
                        let Place { domain, server, worker, .. } = &seat.place;
                        let asked = Asked::Decide { server: *server, decision };
                        ask(&self.workers[*worker], domain, asked);
                    }
                }
            }
        }
        wait_ns = wait_ns.min(self.run_groups(common_ns));
        if has_turned {
            self.follow();
        }
        for (datagrams, roster) in sums {
            self.tell_sum(datagrams, roster);
        }
        for (backend, period) in presence {
            self.tell_summary(&backend, Summary { period, ..Summary::default() });
        }
        Duration::from_nanos(wait_ns.min(self.depart()))
    }

    /// The same for groups, in nanoseconds.
    fn run_groups(&mut self, common_ns: u64) -> u64 {
        let mut wait_ns = u64::MAX;
        for (group, seat) in &mut self.groups {
            match seat.due(common_ns) {
                Err(for_ns) => wait_ns = wait_ns.min(for_ns),
                Ok(period) => {
                    wait_ns = 0;
                    let costs = seat.take(period);
                    let GroupPlace { domain, worker, .. } = &seat.place;
                    let worker = &self.workers[*worker];
                    ask(worker, domain, Asked::ServedByOthers(costs));
                    let reply = self.told.clone();
                    ask(worker, domain, Asked::TellServed { group: *group, period, reply });
                }
            }
        }
        wait_ns
    }

    /// Looks at the clocks. Who counts periods anew begins a new life.
    fn keep_time(&mut self) -> u64 {
        let now = self.clock.now();
        let look = self.common.look(now, wall_ns());
        time::tell(look);
        if look.moved_ns.is_some() {
            self.incarnation.next(wall_s());
            self.seats.values_mut().for_each(Seat::count_anew);
            self.groups.values_mut().for_each(GroupSeat::count_anew);
        }
        self.common.ns(now)
    }

    /// Sends what is due; how long nothing more is.
    fn depart(&mut self) -> u64 {
        let now = self.clock.now();
        while let Some((to, word)) = self.departures.due(now) {
            self.transport.send(word, to, &mut self.peers);
        }
        self.departures.next().map_or(u64::MAX, |at| at.since(now).0)
    }

    /// A worker has told what happened in a period: so do we.
    fn tell(&mut self, told: Told) {
        match told {
            Told::Summary { backend, summary } => self.tell_summary(&backend, summary),
            Told::Joined { backend, joint, measured } => {
                self.begin(&backend, &joint, measured.as_ref());
            }
            Told::Served { group, period, served } => self.tell_service(group, period, &served),
        }
    }

    fn tell_service(&mut self, group: DeviceId, period: u64, served: &[(TenantId, Cost)]) {
        let now = self.clock.now();
        let proof = self.challenges.proof(now);
        let Some(seat) = self.groups.get_mut(&group) else { return };
        seat.compared.forget(now);
        let Some(service) = seat.word(period, served, !proof.is_empty()) else { return };
        let length = seat.place.period;
        let service = Service { host: self.own, incarnation: self.incarnation.number(), ..service };
        let told = seat.compared.next_told();
        let mut body = Vec::new();
        wire::service::encode(&ServiceDatagram { group, service, told }, &mut body);
        let window = pace::window(length, self.peers.len());
        self.send((group, Topic::Served(group)), window, vec![body], &proof);
    }

    fn tell_summary(&mut self, backend: &str, summary: Summary) {
        let mut seats = self.seats.iter_mut();
        let Some((&device, seat)) = seats.find(|(_, seat)| seat.place.backend == backend) else {
            return;
        };
        let summary = Summary { host: self.own, incarnation: self.incarnation.number(), ..summary };
        let now = self.clock.now();
        seat.forget(now, |host| name_of(&self.peers, host));
        let (length, terms) = (seat.member.period(), seat.terms());
        let sums_window = seat.sums_window();
        let (mut cost, mut told) = (seat.together.next_told(), seat.compared.next_told());
        if seat.together.is_together() {
            seat.told(summary.clone());
        }
        let parts = summary.into_parts();
        if let Some(sums) = &mut seat.sums {
            // A server does not send this gate's words back.
            for part in &parts {
                let _ = sums.hear_word(part.period, part);
            }
        }
        let body = |summary| {
            // The first part says what else there is to say.
            let (cost, told) = (cost.take(), told.take());
            let mut body = Vec::new();
            let collector = None;
            wire::encode(&Datagram { device, terms, summary, cost, told, collector }, &mut body);
            body
        };
        let bodies: Vec<Vec<u8>> = parts.into_iter().map(body).collect();
        let proof = self.challenges.proof(now);
        let window = pace::window(length, self.peers.len() * bodies.len());
        let topic = Topic::Words(device, Shard::of(self.own));
        self.send((device, topic), sums_window.unwrap_or(window), bodies, &proof);
    }

    /// Sends a word in its parts, each to each peer at its instant in the window.
    fn send(
        &mut self,
        (device, topic): (DeviceId, Topic),
        window: Span,
        bodies: Vec<Vec<u8>>,
        proof: &Proof,
    ) {
        // The first part carries it.
        let mut carried = Some(proof);
        let parts: Vec<Vec<u8>> =
            bodies.into_iter().map(|body| self.sealed(body, carried.take())).collect();
        self.ask_elsewhere(topic, parts.first(), proof);
        let (own, count) = (self.own, parts.len());
        let to = self.transport.addressees(own, &self.peers).into_iter();
        let to = to.flat_map(|host| {
            let after = move |part| pace::offset_of_part(own, host, window, (part, count));
            (0..count).map(move |part| (after(part), host, part))
        });
        for host in self.departures.begin(self.clock.now(), (device, topic), parts, to) {
            if let Some(peer) = self.peers.get_mut(&host) {
                peer.told(false);
            }
        }
        self.depart();
    }

    /// A datagram with its proof, if it is to carry one, and its tag.
    fn sealed(&self, mut body: Vec<u8>, proof: Option<&Proof>) -> Vec<u8> {
        if let Some(proof) = proof {
            wire::proof::push(proof, &mut body);
        }
        let tag = self.key.tag(&body);
        wire::sealed(body, tag)
    }

    /// A datagram came in.
    fn hear(&mut self, bytes: &[u8], from: &Origin) {
        let Ok((body, tag)) = wire::opened(bytes) else {
            return self.refused.malformed += 1;
        };
        if !self.key.is_tag_of(tag, body) {
            return self.refused.forged += 1;
        }
        match wire::read(body) {
            Ok((word, proof)) => {
                self.prove(word.speaker(), &proof);
                match word {
                    Word::Summary(datagram) => self.hear_summary(datagram, from),
                    Word::Service(datagram) => self.hear_service(&datagram, from),
                    Word::Roster(datagram) => self.hear_roster(&datagram),
                }
            }
            Err(error) => {
                self.refused.malformed += 1;
                if matches!(error, Malformed::Version { .. }) {
                    self.name_version(body, from);
                }
                let peer = wire::host_of(body).and_then(|host| self.peers.get_mut(&host));
                if let (Some(peer), Malformed::Version { found }) = (peer, &error) {
                    peer.refuse(self.clock.now(), Fault::Version(*found));
                } else {
                    tracing::warn!(%from, %error, "a gate with our key speaks otherwise");
                }
            }
        }
    }

    /// A gate asks whether this one speaks now, or has proven that it does.
    fn prove(&mut self, speaker: (HostId, u64), proof: &Proof) {
        if !self.challenges.hear(self.clock.now(), self.own, speaker, proof) {
            return;
        }
        let (host, incarnation) = speaker;
        for (device, seat) in &mut self.seats {
            seat.vouch(host, incarnation);
            if let Some(recorder) = &mut self.recorder {
                recorder.note(&Event::Vouched { device: *device, host, incarnation });
            }
        }
        for group in self.groups.values_mut() {
            group.vouch(host, incarnation);
        }
    }

    fn hear_service(&mut self, datagram: &ServiceDatagram, from: &Origin) {
        let ServiceDatagram { group, service, .. } = datagram;
        let Some(length) = self.groups.get(group).map(|seat| seat.place.period) else {
            return self.refused.unknown_device += 1;
        };
        let now = self.clock.now();
        let common_ns = self.common.ns(now);
        let Service { host, incarnation, number, period, .. } = *service;
        let skew = skew(period, common_ns / length.0);
        let (device, parts, after) = (*group, Some(1), Span::ZERO);
        let heard = Heard { device, host, incarnation, number, period, parts, length, skew, after };
        self.meet((host, incarnation), from, skew);
        let seat = self.groups.get_mut(group).expect("found above");
        let name = |host| name_of(&self.peers, host);
        let outcome = seat.hear((now, common_ns), datagram, name);
        self.heard(from, &heard, outcome);
    }

    fn hear_summary(&mut self, datagram: Datagram, from: &Origin) {
        let device = datagram.device;
        let (host, incarnation) = datagram.speaker();
        let Summary { period: number, part, .. } = datagram.summary;
        // Of several sums of a period one tells what was lost.
        let parts = (datagram.summary.hosts() > 0).then_some(part.count);
        let Some(seat) = self.seats.get(&device) else {
            return self.refused.unknown_device += 1;
        };
        let (length, own) = (seat.member.period(), seat.terms());
        if datagram.terms.period_ms != own.period_ms {
            self.refused.other_period += 1;
            let fault = Fault::Period(datagram.terms.period_ms, own.period_ms);
            if let Some(peer) = self.peers.get_mut(&host) {
                peer.refuse(self.clock.now(), fault);
            }
            return;
        }
        let is_sum = datagram.collector.is_some();
        let after = if is_sum { seat.sums_after() } else { Span::ZERO };
        let now = self.clock.now();
        let period = self.common.ns(now) / length.0;
        let skew = skew(number, period);
        let heard =
            Heard { device, host, incarnation, number, period: number, parts, length, skew, after };
        self.meet((host, incarnation), from, skew);
        let seat = self.seats.get_mut(&device).expect("found above");
        if let Some(recorder) =
            self.recorder.as_mut().filter(|_| seat.decides_by(period, &datagram))
        {
            recorder.note(&Event::Heard { period, datagram: datagram.clone() });
        }
        let (method, cost) = (datagram.terms.method, datagram.cost);
        let outcome = seat.hear(now, period, datagram, |host| name_of(&self.peers, host));
        if outcome.is_ok() {
            self.note_collector(now, (host, is_sum));
            self.come_together(device, (host, is_sum), method, cost);
        }
        self.heard(from, &heard, outcome);
    }

    /// Notes what came of a word.
    fn heard(&mut self, from: &Origin, word: &Heard, outcome: Result<(), Refusal>) {
        let Heard { device, host, incarnation, number, parts, length, skew, .. } = *word;
        if let Err(reason) = outcome {
            tracing::debug!(%from, ?reason, "a word does not count");
        }
        // Nobody hears itself: over NATS words are not echoed.
        if host == self.own && skew.unsigned_abs() <= AHEAD_MAX {
            self.hear_duplicate(from);
        }
        if word.is_sum() && outcome == Err(Refusal::Former) {
            // Another gate collects in its place: nothing is wrong with this one.
            return;
        }
        let now = self.clock.now();
        if outcome.is_ok() || self.challenges.has_proven(now, host, incarnation) {
            let spoke = Nanos(now.0.saturating_sub(word.after.0));
            if self.common.hear(spoke, (host, incarnation), word.period, length) {
                self.challenges.heard(now, host, incarnation);
            }
        } else if word.is_doubtful(outcome, from) {
            if word.is_sum() {
                self.challenges.doubt_sum(now, host, incarnation, drawn);
            } else {
                self.challenges.doubt(now, host, incarnation, drawn);
            }
        }
        let Some(peer) = self.peers.get_mut(&host) else { return };
        peer.heard(now, skew, outcome);
        if let (Ok(()), Some(parts)) = (outcome, parts) {
            peer.loss.note(now, device, Taken { incarnation, number, parts }, length);
        }
    }

    /// Another gate has the name of this one. Both would take the same slots, and the others hear
    /// one of them alone.
    fn hear_duplicate(&mut self, from: &Origin) {
        let now = self.clock.now();
        // The last words from before a restart may be under way still.
        if now.since(Nanos::ZERO) < DUPLICATE_AFTER {
            return;
        }
        let before = self.duplicate.replace(now);
        if before.is_none_or(|before| now.since(before) > DUPLICATE_FOR) {
            let own = &self.settings.own;
            tracing::error!(%from, own, "another gate has this name: give each its own `own`");
        }
    }

    fn report(&self) -> ExchangeReport {
        let name = |host: HostId| {
            if host == self.own { self.settings.own.clone() } else { name_of(&self.peers, host) }
        };
        let mut refused = self.refused;
        let devices = self.seats.values().map(|seat| seat.member.peers().counts());
        for counts in devices.chain(self.groups.values().map(GroupSeat::counts)) {
            refused.peers = sum(refused.peers, counts);
        }
        let now = self.clock.now();
        ExchangeReport {
            name: self.settings.name.clone(),
            own: self.settings.own.clone(),
            server: self.transport.server().or_else(|| self.list.as_ref().map(List::report)),
            peers: self.peers.values().map(|peer| peer.report(now)).collect(),
            devices: self.seats.values().map(|seat| seat.report(self.own, name)).collect(),
            groups: self.groups.values().map(|seat| seat.report(name)).collect(),
            refused,
            words: self
                .peers
                .values()
                .fold(Words::default(), |sum, peer| sum.and(peer.loss.last_minute(now))),
            room: self.room,
            clock_off_ns: self.common.off_ns(),
            has_duplicate_name: self.duplicate.is_some_and(|at| now.since(at) <= DUPLICATE_FOR),
        }
    }
}

/// What is noted of a word that came in.
struct Heard {
    device: DeviceId,
    host: HostId,
    incarnation: u64,
    /// Grows from word to word.
    number: u64,
    period: u64,
    /// How many parts its word has; none where losses are not counted by it.
    parts: Option<u8>,
    /// Of a period.
    length: Span,
    /// By how many periods it is ahead of this gate.
    skew: i64,
    /// How long after the end of its period it goes out; none for a word, which goes at once.
    after: Span,
}

impl Heard {
    fn is_sum(&self) -> bool {
        self.after > Span::ZERO
    }

    /// Whether it did not count for what its gate may yet prove to be true: that it lives in this
    /// life, or counts periods so.
    fn is_doubtful(&self, outcome: Result<(), Refusal>, from: &Origin) -> bool {
        let is_off = self.skew.unsigned_abs() > Patience::default().forgotten;
        match outcome {
            Err(Refusal::Former | Refusal::Ahead) => true,
            Err(Refusal::Stale) => is_off,
            // A gate that is not on any list joins by its words, once they are of now.
            Err(Refusal::Stranger) => {
                is_off && matches!(from, Origin::Gate(name) if HostId::named(name) == self.host)
            }
            Ok(()) | Err(Refusal::Absurd | Refusal::Crowded) => false,
        }
    }
}

/// A random number, if the kernel has one.
fn drawn() -> Option<u64> {
    let mut bytes = [0; 8];
    let outcome = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    (outcome == Ok(bytes.len())).then(|| u64::from_ne_bytes(bytes))
}

/// Asks a worker something about a domain. One that has ended neither answers nor serves.
fn ask(worker: &UnboundedSender<Message>, domain: &str, asked: Asked) {
    let _ = worker.send(Message::Exchange { domain: domain.to_owned(), asked });
}

/// What another gate is called.
fn name_of(peers: &BTreeMap<HostId, Peer>, host: HostId) -> String {
    peers.get(&host).map_or_else(|| format!("{:08x}", host.0), |peer| peer.name.clone())
}

/// By how many periods a word is ahead.
fn skew(of: u64, own: u64) -> i64 {
    let signed = |period: u64| i64::try_from(period).unwrap_or(i64::MAX);
    signed(of).saturating_sub(signed(own))
}

fn sum(left: PeerCounts, right: PeerCounts) -> PeerCounts {
    PeerCounts {
        taken: left.taken + right.taken,
        strangers: left.strangers + right.strangers,
        stale: left.stale + right.stale,
        former: left.former + right.former,
        ahead: left.ahead + right.ahead,
        absurd: left.absurd + right.absurd,
        crowded: left.crowded + right.crowded,
    }
}
