//! A site of more gates than each hears by its words: sums take their place over a NATS server, and
//! words come back when the site is small again.
//!
//! Most of the gates are *emulated*: they have no clients, and their words come from this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_core::control::sums::{Shard, Sum, Summing};
use evenkeel_wire::exchange::roster::{self, RosterDatagram};

use super::clocks::{Clock, HOUR_S};
use super::words::{Ending, now_ms, tagged, words_of_a_period};
use super::*;
use crate::harness::free_port;

const PERIOD_MS: u64 = 200;

/// So many names of a shard, of those that begin so.
pub(super) fn names_in(shard: Shard, prefix: &str, count: usize) -> Vec<String> {
    let names = (0..).map(|number| format!("{prefix}{number}"));
    names.filter(|name| Shard::of(HostId::named(name)) == shard).take(count).collect()
}

/// Says something at the beginning of each period, as long as it is asked to.
pub(super) fn each_period(is_over: &AtomicBool, mut say: impl FnMut(u64)) {
    let mut period = now_ms() / PERIOD_MS + 1;
    while !is_over.load(Ordering::Relaxed) {
        let wait_ms = (period * PERIOD_MS).saturating_sub(now_ms());
        std::thread::sleep(Duration::from_millis(wait_ms));
        say(period);
        period += 1;
    }
}

/// Gates without clients that say so each period.
struct Idle {
    names: Vec<String>,
    is_over: AtomicBool,
}

impl Idle {
    fn of(count: u32) -> Self {
        let names = (0..count).map(|gate| format!("idle-{gate}")).collect();
        Self { names, is_over: AtomicBool::new(false) }
    }

    fn speak(&self, port: u16) {
        let mut publisher = nats::Publisher::connect(port);
        let hosts: Vec<HostId> = self.names.iter().map(|name| HostId::named(name)).collect();
        each_period(&self.is_over, |period| {
            for (_, from, word) in words_of_a_period(&hosts, hosts[0], (Method::Shares, 0), period)
            {
                publisher.publish(&nats::words_of(&self.names[from]), &word);
            }
        });
    }
}

/// An emulated gate in each shard that adds up what it is given, for as many gates as there are.
pub(super) struct Collectors(BTreeMap<Shard, (HostId, Summing)>);

impl Collectors {
    /// Of all shards, from this period on.
    pub(super) fn begin(period: u64) -> Self {
        let begin = |shard| {
            let host = HostId::named(&names_in(shard, "collector-", 1)[0]);
            let mut summing = Summing::new(host);
            let mut before = period - 40;
            while !summing.collects() {
                summing.end_period(before);
                before += 1;
            }
            (shard, (host, summing))
        };
        Self(Shard::all().map(begin).collect())
    }

    /// The words of a period are added up; each sum and roster as bytes, with its subject.
    pub(super) fn add(&mut self, period: u64, words: &[Summary]) -> Vec<(String, Vec<u8>)> {
        let mut said = Vec::new();
        for (shard, (host, summing)) in &mut self.0 {
            for word in words.iter().filter(|word| Shard::of(word.host) == *shard) {
                let _ = summing.hear_word(period, Summary { period, ..word.clone() });
            }
            if let Some(sum) = summing.sum(period) {
                said.extend(as_bytes((*host, *shard), period, sum));
            }
        }
        said
    }
}

fn as_bytes((host, shard): (HostId, Shard), period: u64, sum: Sum) -> Vec<(String, Vec<u8>)> {
    let (device, terms) = (
        DeviceId::named("test", "array"),
        Terms::new(Method::Shares, Span::from_millis(PERIOD_MS)),
    );
    let (collector, term) = ((host, 1), sum.words[0].incarnation);
    let (name, number) = (format!("{:08x}", device.0), shard.number());
    let own = &names_in(shard, "collector-", 1)[0];
    let mut said = Vec::new();
    for summary in sum.words {
        let mut body = Vec::new();
        let collector = Some(collector);
        encode(&Datagram { device, terms, summary, collector, ..Datagram::default() }, &mut body);
        said.push((format!("evenkeel.test.{name}.sums.{own}"), tagged(body)));
    }
    let (first, last, gates) = (HostId(0), HostId(u32::MAX), sum.roster);
    let roster = RosterDatagram { device, collector, period, term, first, last, gates };
    for part in roster.into_parts() {
        let mut body = Vec::new();
        roster::encode(&part, &mut body);
        said.push((format!("evenkeel.test.{name}.roster.{number}.{own}"), tagged(body)));
    }
    said
}

/// What a gate says of the sums that it hears: of how many gates, and whether it collects.
pub(super) fn sums(gate: &Gate) -> Option<(u64, bool)> {
    let sums = gate.status()["exchange"]["devices"][0]["sums"].clone();
    Some((sums["gates"].as_u64()?, sums["collects"].as_bool()?))
}

/// Waits until each hears the sums of so many gates, and one in each shard collects.
fn wait_for_sums(gates: &[&Gate], count: u64) {
    wait_for(&format!("sums of {count} gates"), || {
        let all: Option<Vec<(u64, bool)>> = gates.iter().map(|gate| sums(gate)).collect();
        let all = all?;
        let collecting = all.iter().filter(|(_, collects)| *collects).count();
        (all.iter().all(|(gates, _)| *gates == count) && collecting == 8).then_some(())
    });
}

/// Nine real gates, two of them in the first shard and one in each other, among 130 emulated ones.
#[test]
fn many_gates_hear_sums_divide_by_them_and_hear_words_again_when_few_are_left() {
    needs!("nbdkit", "nats-server", "cc");
    let first = Shard::all().next().expect("there are eight");
    let more = Shard::all().skip(1).flat_map(|shard| names_in(shard, "gate-", 1));
    let names: Vec<String> = names_in(first, "gate-", 2).into_iter().chain(more).collect();
    let scratches: Vec<Scratch> = names.iter().map(|_| Scratch::new()).collect();
    // Slower devices are divided less exactly before so many gates (docs/shared-arrays.md).
    let (_pipe, uri) = pipe_of(&scratches[0], 4_000);
    let port = free_port();
    let server = nats::Server::start(&scratches[0], port);
    let [before, after] = [Idle::of(130), Idle::of(130)];
    std::thread::scope(|scope| {
        let _ending = [Ending(&before.is_over), Ending(&after.is_over)];
        let speaking = scope.spawn(|| before.speak(port));
        let start = |(name, scratch): (&String, &Scratch)| {
            let meeting = nats::meeting(name, port);
            let policy = policy_by_share(scratch, &uri, &meeting, "control = \"shares\"\n");
            Gate::start(scratch, &policy)
        };
        let mut gates: Vec<Gate> = names.iter().zip(&scratches).map(start).collect();
        wait_for_sums(&gates.iter().collect::<Vec<_>>(), 139);
        let shown = gates[2].ctl(&["status"]);
        let expected = "139 gates, by the sums of their words; this gate adds up";
        assert!(shown.contains(expected), "{shown}");
        // More than three quarters of what so many gates try to have at the device at once.
        assert_shares_hold(&scratches[2..5], 4_000.0, 128);
        // A gate whose clock is an hour ahead hears the site, which counts it.
        let late = Scratch::new();
        let meeting = nats::meeting("late", port);
        let policy = policy_by_share(&late, &uri, &meeting, "control = \"shares\"\n");
        let ahead = Clock::new(&late, HOUR_S).start(&late, &policy);
        let count = |gate: &Gate| sums(gate).map(|(gates, _)| gates);
        wait_for("the one that is ahead", || {
            [&ahead, &gates[0]].iter().all(|gate| count(gate) == Some(140)).then_some(())
        });
        drop(ahead);
        // Who adds up the words of the first shard dies, and the other one of it takes over.
        let collects = |gate: &Gate| sums(gate).is_some_and(|(_, collects)| collects);
        let dies = usize::from(!collects(&gates[0]));
        drop(gates.remove(dies));
        wait_for_sums(&gates.iter().collect::<Vec<_>>(), 138);
        // The server is away for longer than a site has to be small: nobody takes it for that.
        before.is_over.store(true, Ordering::Relaxed);
        speaking.join().expect("it ends");
        drop(server);
        std::thread::sleep(Duration::from_secs(11));
        let _server = nats::Server::start(&scratches[0], port);
        let speaking = scope.spawn(|| after.speak(port));
        assert!(gates.iter().all(|gate| sums(gate).is_some()));
        wait_for_sums(&gates.iter().collect::<Vec<_>>(), 138);
        after.is_over.store(true, Ordering::Relaxed);
        speaking.join().expect("it ends");
        for gate in &gates {
            wait_for_gates(gate, 8);
            assert_eq!(sums(gate), None);
        }
    });
    scratches[2..5].iter().for_each(assert_replays);
}
