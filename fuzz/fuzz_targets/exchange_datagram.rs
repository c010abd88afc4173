//! Datagrams of the exchange between gates: decoding is total, a value has one encoding, and what
//! the rules of the peers take is harmless to every controller and to every account.
#![no_main]

use evenkeel_core::control::agreement::{Agreement, NEWS_MAX, OF_GATE_MAX};
use evenkeel_core::control::array_cost::Agreed;
use evenkeel_core::control::challenge::{ANSWERS_MAX, Challenges, Proof};
use evenkeel_core::control::common_time::CommonTime;
use evenkeel_core::control::member::{Member, Method, Rules};
use evenkeel_core::control::name::TenantNumber;
use evenkeel_core::control::peers::{Known, Patience, Peers};
use evenkeel_core::control::promise::{Promise, Told};
use evenkeel_core::control::service::{ServedByOthers, Service};
use evenkeel_core::control::summary::{FLOWS_MAX, FlowSummary, HostId, Summary};
use evenkeel_core::control::sums::{Shard, Summing};
use evenkeel_core::sched::Share;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_wire::exchange::{
    Datagram, MAGIC, VERSION, Word, encode, opened, proof, read, roster, service, sum,
};
use libfuzzer_sys::fuzz_target;

const OWN: HostId = HostId(1);
const OTHER: HostId = HostId(2);

/// Input whose head is right, since noise never gets past it: the rest is what it says.
fn framed(magic: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.push(VERSION);
    let Some((flows, rest)) = data.split_first() else { return bytes };
    // A part of a word, or a whole one, of up to one tenant too many.
    let bound = match magic {
        service::MAGIC => 66,
        roster::MAGIC => 1,
        _ => 34,
    };
    bytes.push(flows & 0x80 | (flows & 0x7f) % bound);
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(OTHER.0.to_be_bytes());
    bytes.extend(rest);
    bytes
}

fn decide(summary: &Summary) {
    for method in Method::ALL {
        let (period, threshold) = (Span::from_millis(100), Span::from_millis(20));
        let rules = Rules { method, period, depth: 16, threshold };
        let mut member = if summary.sum.is_some() {
            Member::with_sums(OWN, rules)
        } else {
            Member::new(OWN, &[OWN, OTHER], rules)
        };
        member.note_counted(true);
        let own = |period| Summary { host: OWN, period, ..Summary::default() };
        let before = summary.period.saturating_sub(1);
        let _ = member.decide(own(before));
        let _ = member.hear(before, summary.clone());
        for later in 0..8 {
            let outcome = member.decide(own(summary.period.saturating_add(later)));
            assert!(outcome.decision.slots >= 1);
        }
    }
}

/// A part of a word before, between and behind parts of others: what is kept in mind is bounded, in
/// order, and of each tenant once.
fn piece_together(summary: &Summary) {
    let mut peers = Peers::new(OWN, [OTHER], Patience::default());
    let flow = |number| FlowSummary { tenant: TenantNumber(number), ..FlowSummary::default() };
    let period = summary.period.min(u64::MAX / 2);
    for later in 0..6 {
        let at = period + later;
        let whole = Summary {
            host: OTHER,
            incarnation: summary.incarnation,
            period: at,
            flows: (0..100).map(|tenant| flow(tenant << (later + 18))).collect(),
            ..Summary::default()
        };
        let mut parts = whole.into_parts();
        parts.truncate(2);
        parts.push(Summary { period: at, ..summary.clone() });
        parts.rotate_left(usize::try_from(later % 3).expect("small"));
        for part in parts {
            let _ = peers.receive(at, part);
        }
        let known = peers.known(Summary { host: OWN, period: at, ..Summary::default() });
        for Known { summary, is_lost, .. } in &known {
            assert!(summary.flows.is_sorted_by(|one, next| one.tenant < next.tenant));
            assert!(summary.flows.len() <= FLOWS_MAX && is_lost.len() <= FLOWS_MAX);
        }
    }
}

/// Whatever is taken over of what requests take is a device's.
fn agree(datagram: &Datagram) {
    let mut agreed = Agreed::default();
    if datagram.cost.is_some_and(|cost| agreed.hear(cost)) {
        assert!(agreed.cost().is_some_and(|cost| cost.is_plausible()));
    }
}

/// What a policy says is compared, told and forgotten; it neither fills memory nor says much.
fn compare(told: &Told) {
    let own = |share: Share| told.promises.iter().map(move |one| Promise::new(&one.name, &share));
    let promises: Vec<Promise> = own(Share::default()).collect();
    let mut agreement = Agreement::default();
    agreement.change(Method::Shares, &promises);
    for second in 1..4 {
        agreement.hear(Nanos(second * 1_000_000_000), OTHER, Method::Slack, Some(told));
    }
    assert!(agreement.standing().count() <= OF_GATE_MAX + 1);
    assert!(agreement.news().0.len() <= NEWS_MAX);
    agreement.forget(Nanos(u64::MAX));
    assert_eq!(agreement.standing().count(), 0);
}

/// A word on what was served, heard again after the same with nothing in it.
fn count(word: &Service) {
    let mut others = ServedByOthers::new(Span::from_millis(100));
    others.set_members([OTHER]);
    let mut before = word.clone();
    before.number = word.number.saturating_sub(1);
    before.totals.iter_mut().for_each(|(_, total)| total.0 = 0);
    let _ = others.hear(word.period, &before);
    if others.hear(word.period, word).is_ok() {
        assert!(others.take(word.period).told.len() <= word.totals.len());
        for later in 1..12 {
            let _ = others.take(word.period.saturating_add(later));
        }
    }
}

/// Questions and answers, from a gate that is doubted, and the time that its word tells.
fn prove(speaker: (HostId, u64), proof: &Proof, period: u64) {
    let (now, length) = (Nanos(1), Span::from_millis(100));
    let mut challenges = Challenges::default();
    challenges.doubt(now, OTHER, speaker.1, || Some(7));
    let is_proven = challenges.hear(now, OWN, speaker, proof);
    assert_eq!(is_proven, speaker.0 == OTHER && proof.answers.contains(&(OWN, 7)));
    assert!(challenges.proof(now).answers.len() <= ANSWERS_MAX);
    let mut common = CommonTime::start(now, 1 << 60, length);
    common.hear(now, speaker, period, length);
    for periods in 1..6 {
        let later = Nanos(now.0 + periods * length.0);
        common.look(later, 1 << 60);
        assert!(common.ns(later) < u64::MAX / 2);
    }
}

/// A word is added up with one of another host, as a collector does whose shard both are in.
fn add_up(summary: &Summary) {
    let mut summing = Summing::new(summary.host);
    let begins = summary.period.saturating_sub(40);
    let period = (begins..=summary.period).find(|period| {
        summing.end_period(*period);
        summing.collects()
    });
    let (Some(period), true) = (period, Shard::of_sum(summary.host).is_none()) else { return };
    let _ = summing.hear_word(period, summary.clone());
    if let Some(sum) = summing.sum(period.saturating_add(1)) {
        assert!(sum.words.iter().all(Summary::is_plausible) && sum.roster.len() <= 1);
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = opened(data);
    let framed =
        [MAGIC, service::MAGIC, sum::MAGIC, roster::MAGIC].map(|magic| framed(magic, data));
    for bytes in framed.into_iter().chain([data.to_vec()]) {
        let mut out = Vec::new();
        match read(&bytes) {
            Ok((word, proof)) => {
                let speaker = word.speaker();
                let period = match word {
                    Word::Summary(datagram) => {
                        agree(&datagram);
                        datagram.told.iter().for_each(compare);
                        decide(&datagram.summary);
                        piece_together(&datagram.summary);
                        add_up(&datagram.summary);
                        encode(&datagram, &mut out);
                        datagram.summary.period
                    }
                    Word::Service(datagram) => {
                        count(&datagram.service);
                        datagram.told.iter().for_each(compare);
                        service::encode(&datagram, &mut out);
                        datagram.service.period
                    }
                    Word::Roster(datagram) => {
                        assert!(
                            datagram.gates.iter().all(|gate| datagram.counts(*gate) == Some(true))
                        );
                        roster::encode(&datagram, &mut out);
                        datagram.period
                    }
                };
                prove(speaker, &proof, period);
                proof::push(&proof, &mut out);
            }
            Err(_) => continue,
        }
        assert_eq!(out, bytes);
    }
});
