//! Sums of words: those that this gate tells, and what follows from those that it hears.

use std::collections::BTreeSet;

use evenkeel_core::control::challenge::Proof;
use evenkeel_core::control::summary::HostId;
use evenkeel_core::control::sums::Shard;
use evenkeel_core::time::Nanos;
use evenkeel_wire::exchange::recording::Event;
use evenkeel_wire::exchange::roster::RosterDatagram;
use evenkeel_wire::exchange::{self as wire, Datagram};

use super::super::seat::Seat;
use super::super::transport::Topic;
use super::{Exchange, HEARD_FOR};

impl Exchange {
    /// Whether sums are all that this gate hears.
    pub(super) fn hears_sums_alone(&self) -> bool {
        self.groups.is_empty() && !self.seats.is_empty() && {
            self.seats.values().all(Seat::hears_sums)
        }
    }

    /// A period has ended at some device: sums are heard there from now on, or words again.
    pub(super) fn follow(&mut self) {
        let members = self.members();
        let mut has_changed = false;
        for seat in self.seats.values_mut() {
            if !seat.follow(&members) {
                continue;
            }
            has_changed = true;
            let (backend, hears_sums) = (&seat.place.backend, seat.hears_sums());
            if hears_sums {
                tracing::info!(backend, "many gates are before it: they are heard by sums");
            } else {
                tracing::info!(backend, "few gates are before it: each is heard by its words");
            }
        }
        if has_changed && self.hears_sums_alone() {
            self.keep_collectors();
        } else if has_changed {
            self.record(&members);
        }
        self.listen();
    }

    /// A gate's word was taken, or its sum.
    pub(super) fn note_collector(&mut self, now: Nanos, (host, is_collector): (HostId, bool)) {
        if let Some(peer) = self.peers.get_mut(&host).filter(|_| is_collector) {
            peer.summed = Some(now);
        }
    }

    /// Forgets the gates that are no longer heard by their words.
    fn keep_collectors(&mut self) {
        let now = self.clock.now();
        let collects = self
            .peers
            .values()
            .filter(|peer| peer.summed.is_some_and(|at| now.since(at) < HEARD_FOR));
        let names = collects.map(|peer| peer.name.clone()).collect();
        self.gather(&names);
    }

    /// Hears what its seats need, where a server passes words on.
    pub(super) fn listen(&mut self) {
        let seats = self.seats.iter().flat_map(|(device, seat)| seat.topics(*device));
        let groups = self.groups.keys().map(|group| Topic::Served(*group));
        self.transport.hear(seats.chain(groups));
    }

    /// Tells all gates what this one has added up, and those of its shard who is in it.
    pub(super) fn tell_sum(&mut self, mut datagrams: Vec<Datagram>, roster: Vec<HostId>) {
        let (now, collector) = (self.clock.now(), (self.own, self.incarnation.number()));
        let proof = self.challenges.proof(now);
        let Some(first) = datagrams.first_mut() else { return };
        let device = first.device;
        let (period, term) = (first.summary.period, first.summary.incarnation);
        let Some(seat) = self.seats.get_mut(&device) else { return };
        first.cost = seat.together.next_summed(now);
        first.told = seat.compared.next_summed();
        let body = |datagram| {
            let mut body = Vec::new();
            wire::encode(datagram, &mut body);
            body
        };
        let bodies: Vec<Vec<u8>> = datagrams.iter().map(body).collect();
        let (first, last, gates) = (HostId(0), HostId(u32::MAX), roster);
        let roster = RosterDatagram { device, collector, period, term, first, last, gates };
        let parts = roster.into_parts();
        let mut proof = Some(&proof);
        for body in bodies {
            let word = self.sealed(body, proof.take());
            self.transport.send(&word, (self.own, Topic::Sums(device)), &mut self.peers);
        }
        for part in &parts {
            let mut body = Vec::new();
            wire::roster::encode(part, &mut body);
            let word = self.sealed(body, None);
            self.transport.publish(&word, Topic::Roster(device, Shard::of(self.own)));
            self.hear_roster(part);
        }
    }

    /// The collector of a shard says whom it counts.
    pub(super) fn hear_roster(&mut self, datagram: &RosterDatagram) {
        let RosterDatagram { device, .. } = *datagram;
        let common_ns = self.common.ns(self.clock.now());
        let Some(seat) = self.seats.get_mut(&device) else {
            return self.refused.unknown_device += 1;
        };
        let period = common_ns / seat.member.period().0;
        if seat.hear_roster(period, datagram)
            && let (Some(recorder), Some(sums)) = (&mut self.recorder, &seat.sums)
        {
            let (hears_sums, is_counted) = (seat.hears_sums(), sums.is_counted());
            recorder.note(&Event::Sums { device, hears_sums, is_counted });
        }
    }

    /// Gates that hear sums hear no word of another shard: a question to one of these goes to the
    /// collector of its shard, too. So does one of a gate that hears words yet, or always.
    pub(super) fn ask_elsewhere(&self, topic: Topic, word: Option<&Vec<u8>>, proof: &Proof) {
        let (Topic::Words(device, own), Some(word)) = (topic, word) else { return };
        let asked: BTreeSet<Shard> = proof.asks.iter().map(|(host, _)| Shard::of(*host)).collect();
        for shard in asked.into_iter().filter(|shard| *shard != own) {
            self.transport.publish(word, Topic::Words(device, shard));
        }
    }
}
