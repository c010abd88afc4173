//! The datagrams of the exchange: byte by byte as `testdata/exchange.txt` has them, read back as
//! they were written, and refused if a single byte is not as it should be.
//!
//! `EVENKEEL_BLESS=1` in the environment rewrites the golden file.

use std::fmt::Write as _;

use evenkeel_core::control::array_cost::{ArrayCost, Rate};
use evenkeel_core::control::member::Method;
use evenkeel_core::control::name::{DeviceId, TenantNumber};
use evenkeel_core::control::promise::{NAME_BYTES_MAX, Promise, Rates, TOLD_MAX, Told};
use evenkeel_core::control::summary::{
    FlowSummary, HostId, PART_FLOWS_MAX, PARTS_MAX, Part, SumOf, Summary,
};
use evenkeel_core::control::sums::Shard;
use evenkeel_core::control::target::Target;
use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::Span;
use evenkeel_wire::exchange::roster::{self, GATES_MAX, RosterDatagram};
use evenkeel_wire::exchange::{
    DATAGRAM_BYTES_MAX, Datagram, Malformed, Speaker, TAG_BYTES, Terms, VERSION, Word, decode,
    encode, host_of, opened, read, sealed,
};
use proptest::prelude::*;

const GOLDEN: &str = include_str!("../../testdata/exchange.txt");

fn encoded(datagram: &Datagram) -> Vec<u8> {
    let mut out = Vec::new();
    encode(datagram, &mut out);
    out
}

/// A tenth of a second of a tenant with a mean of 20 ms, and of one that takes what is left.
fn usual() -> Datagram {
    let strict = FlowSummary {
        tenant: TenantNumber::named("db"),
        weight_milli: 1000,
        target: Some(Target::mean(Span::from_millis(20), Span::from_secs(1))),
        arrivals: 12,
        completions: 11,
        late: 1,
        cost: Cost(11 * 140_000),
        device_time: Span::from_millis(140),
        response_time: Span::from_millis(155),
        slot_time: Span::from_millis(142),
        outstanding: 2,
        queued: 1,
        backlogged_percent: 30,
        is_limited: false,
        floor: Cost(0),
        queued_age: Span::from_micros(800),
        expected_per_s: 121,
    };
    let hog = FlowSummary {
        floor: Cost(250_000_000),
        is_limited: true,
        tenant: TenantNumber::named("backup"),
        target: None,
        queued: 28,
        queued_age: Span::from_millis(900),
        ..strict
    };
    let host = HostId::named("10.0.0.1:10900");
    let summary = Summary {
        host,
        incarnation: 1_795_290_000,
        period: 17_952_900_123,
        depth: 16,
        part: Part::WHOLE,
        sum: None,
        flows: vec![strict, hog],
    };
    let terms = Terms::new(Method::Shares, Span::from_millis(200));
    let device = DeviceId::named("site", "array");
    Datagram { device, terms, summary, ..Datagram::default() }
}

/// A gate that tells nothing but what requests take.
fn cost() -> Datagram {
    let read = Rate { fixed: Span::from_micros(180), rate_bytes: 400 << 20 };
    let write = Rate { fixed: Span::from_micros(90), rate_bytes: 300 << 20 };
    let cost = ArrayCost { load_s: 90, read, write, flush: Span::from_millis(1) };
    Datagram { cost: Some(cost), ..Datagram::default() }
}

/// A gate that tells nothing but what its policy says of two tenants, one with a long name.
fn told() -> Datagram {
    let floor = Floor { rate_iops: 500, rate_bytes: 1 << 20 };
    let limit = Limit { rate_bytes: 200 << 20, ..Limit::default() };
    let latency_goal = Span::from_millis(20);
    let db = Share { weight_milli: 3000, floor, limit, latency_goal, ..Share::default() };
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let promises = vec![Promise::new("db-main", &db), Promise::new(&long, &Share::default())];
    Datagram { told: Some(Told { begins: true, promises }), ..Datagram::default() }
}

/// The second of three parts of a word.
fn part() -> Datagram {
    let mut datagram = usual();
    let tenant = |flow: usize| datagram.summary.flows[flow].tenant.0;
    let (first, last) = (tenant(0).min(tenant(1)), tenant(0).max(tenant(1)) + 7);
    datagram.summary.part = Part { first: TenantNumber(first), last: TenantNumber(last), count: 3 };
    datagram
}

/// The sum of 1,250 gates of which one tenant would take more, told by the gate of [`usual`].
fn sum() -> Datagram {
    let Datagram { device, terms, summary, .. } = usual();
    let collector = Some((summary.host, summary.incarnation));
    let (shard, leader) = (Shard::all().nth(3).expect("there are eight"), HostId(77));
    let host = shard.hosts().next().expect("of each kind");
    let sum = Some(SumOf { hosts: 1_250, leader });
    let flows = summary.flows[..1].to_vec();
    let summary = Summary { host, incarnation: 17_952_900_100 << 24, sum, flows, ..summary };
    Datagram { device, terms, summary, collector, ..Datagram::default() }
}

/// Three gates that are counted in it.
fn roster() -> RosterDatagram {
    let Datagram { device, summary, collector, .. } = sum();
    RosterDatagram {
        device,
        collector: collector.expect("of a gate"),
        period: summary.period,
        term: summary.incarnation,
        first: HostId(5),
        last: HostId((1 << 31) + 100),
        gates: [5, 6, 4_000_000].map(HostId).to_vec(),
    }
}

fn encoded_roster(roster: &RosterDatagram) -> Vec<u8> {
    let mut out = Vec::new();
    roster::encode(roster, &mut out);
    out
}

fn percentile() -> Datagram {
    let target = Some(Target::all_but(10, Span::from_millis(50), Span::from_secs(10)));
    let flow = FlowSummary { tenant: TenantNumber(7), target, ..FlowSummary::default() };
    let summary = Summary { host: HostId(9), flows: vec![flow], ..Summary::default() };
    Datagram { device: DeviceId(1), summary, ..Datagram::default() }
}

fn shown() -> String {
    let cases = [
        ("two tenants of a gate", usual()),
        ("a percentile, and nothing happened", percentile()),
        ("nobody", Datagram::default()),
        ("a part of a word", part()),
        ("what requests take", cost()),
        ("what a policy says", told()),
        ("a sum", sum()),
    ];
    let cases = cases.map(|(name, datagram)| (name, encoded(&datagram)));
    let roster = ("who is in a sum", encoded_roster(&roster()));
    let mut text = String::new();
    for (name, bytes) in cases.into_iter().chain([roster]) {
        writeln!(text, "{name}: {} bytes and the tag\n----", bytes.len()).expect("text");
        for line in bytes.chunks(16) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{}", hex.join(" ")).expect("text");
        }
        text.push('\n');
    }
    text
}

#[test]
fn datagrams_are_the_bytes_that_other_gates_know() {
    let shown = shown();
    if std::env::var_os("EVENKEEL_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/exchange.txt");
        std::fs::write(path, shown).unwrap();
    } else {
        assert_eq!(shown, GOLDEN, "`cargo xtask bless` rewrites the file");
    }
}

#[test]
fn a_hundred_gates_cost_each_other_less_than_a_kilobyte_per_second() {
    let mut datagram = usual();
    datagram.summary.flows.truncate(1);
    // With the headers of UDP and IPv4, five times a second, both ways.
    let bytes_per_s = 5 * 2 * (encoded(&datagram).len() + TAG_BYTES + 8 + 20);
    assert!(bytes_per_s < 1000, "{bytes_per_s}");
}

/// What a tenant of a busy gate costs in each word, and that a part of it fits a packet.
#[test]
fn a_part_fits_a_packet_of_ethernet() {
    let mut datagram = usual();
    let strict = datagram.summary.flows[0];
    let busy = FlowSummary {
        weight_milli: 10_000,
        arrivals: 4_000,
        completions: 4_000,
        late: 200,
        cost: Cost(200_000_000),
        device_time: Span::from_secs(12),
        response_time: Span::from_secs(60),
        slot_time: Span::from_secs(12),
        outstanding: 200,
        queued: 900,
        queued_age: Span::from_secs(10),
        expected_per_s: 20_000,
        ..strict
    };
    datagram.summary.part = Part { count: 32, ..Part::WHOLE };
    for (flow, most) in [(strict, 1_100), (busy, 1_472)] {
        datagram.summary.flows = vec![flow; PART_FLOWS_MAX];
        let bytes = encoded(&datagram).len() + TAG_BYTES;
        assert!(bytes <= most, "{bytes}");
    }
}

#[test]
fn the_largest_summary_fits_the_bound() {
    let most = FlowSummary {
        tenant: TenantNumber(u32::MAX),
        weight_milli: u32::MAX,
        target: Some(Target::all_but(999, Span(u64::MAX), Span(u64::MAX))),
        arrivals: u32::MAX,
        completions: u32::MAX,
        late: u32::MAX,
        cost: Cost(u64::MAX),
        device_time: Span(u64::MAX),
        response_time: Span(u64::MAX),
        slot_time: Span(u64::MAX),
        outstanding: u32::MAX,
        queued: u32::MAX,
        backlogged_percent: 127,
        is_limited: true,
        floor: Cost(u64::MAX),
        queued_age: Span(u64::MAX),
        expected_per_s: u32::MAX,
    };
    let summary = Summary {
        host: sum().summary.host,
        incarnation: u64::MAX,
        period: u64::MAX,
        depth: u32::MAX,
        part: Part { first: TenantNumber(1), last: TenantNumber(u32::MAX), count: 32 },
        sum: Some(SumOf { hosts: u32::MAX, leader: HostId(u32::MAX) }),
        flows: vec![most; PART_FLOWS_MAX],
    };
    let collector = Some((HostId(u32::MAX), u64::MAX));
    let terms = Terms { period_ms: u32::MAX, ..Terms::default() };
    let dearest = Rate { fixed: Span(u64::MAX), rate_bytes: u64::MAX };
    let cost = ArrayCost { load_s: u32::MAX, read: dearest, write: dearest, flush: Span(u64::MAX) };
    let rates = Rates { requests: u64::MAX, bytes: u64::MAX };
    let promise = Promise {
        tenant: TenantNumber(u32::MAX),
        name: "x".repeat(NAME_BYTES_MAX),
        weight_milli: u32::MAX,
        target: most.target,
        floor: rates,
        limit: rates,
    };
    let told = Some(Told { begins: true, promises: vec![promise; TOLD_MAX] });
    let device = DeviceId(u32::MAX);
    let datagram = Datagram { device, summary, terms, cost: Some(cost), told, collector };
    let bytes = sealed(encoded(&datagram), [0; TAG_BYTES]);
    assert!(bytes.len() <= DATAGRAM_BYTES_MAX, "{}", bytes.len());
    let (body, _) = opened(&bytes).unwrap();
    assert_eq!(decode(body).unwrap().summary.flows.len(), PART_FLOWS_MAX);
}

#[test]
fn what_is_no_datagram_is_refused_with_the_reason() {
    let good = encoded(&usual());
    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        decode(&bytes).unwrap_err()
    };
    assert_eq!(refusal(&|bytes| bytes[0] = b'e'), Malformed::Magic);
    assert_eq!(refusal(&|bytes| bytes[2] = 2), Malformed::Version { found: 2 });
    assert_eq!(host_of(&good), Some(usual().summary.host));
    assert_eq!(host_of(&good[..11]), None);
    assert_eq!(VERSION, 4);
    assert_eq!(refusal(&|bytes| bytes[3] = 33), Malformed::Flows { found: 33, most: 32 });
    assert_eq!(refusal(&|bytes| bytes[3] = 1), Malformed::Trailing);
    assert_eq!(refusal(&|bytes| bytes[3] = 3), Malformed::Short);
    assert_eq!(refusal(&|bytes| bytes.resize(DATAGRAM_BYTES_MAX, 0)), Malformed::Oversized);
    for cut in 0..good.len() {
        assert_eq!(decode(&good[..cut]), Err(Malformed::Short));
    }
    assert_eq!(opened(&[0; 27]), Err(Malformed::Short));
    assert_eq!(opened(&[0; DATAGRAM_BYTES_MAX + 1]), Err(Malformed::Oversized));
}

#[test]
fn parts_of_too_many_or_of_nobody_are_refused() {
    let good = encoded(&part());
    let tenants = part().summary.part.first.0.to_be_bytes();
    let range = good.windows(4).position(|bytes| bytes == tenants).expect("it is there");
    let refused = Err(Malformed::Field { name: "part" });
    for (position, byte) in [(range - 1, 1), (range - 1, 33), (range - 1, 255), (range, 0xff)] {
        let mut bytes = good.clone();
        bytes[position] = byte;
        assert_eq!(decode(&bytes), refused, "{position}");
    }
}

#[test]
fn what_is_no_sum_or_roster_is_refused_with_the_reason() {
    let good = encoded(&sum());
    let at = good.windows(4).position(|bytes| bytes == sum().summary.host.0.to_be_bytes());
    let mut of_a_gate = good.clone();
    of_a_gate[at.expect("it is there")] = 0;
    assert_eq!(decode(&of_a_gate), Err(Malformed::Field { name: "host of a sum" }));
    for cut in 0..good.len() {
        assert_eq!(decode(&good[..cut]), Err(Malformed::Short));
    }
    let mut of_nobody = encoded(&usual());
    of_nobody[8..12].copy_from_slice(&sum().summary.host.0.to_be_bytes());
    assert_eq!(decode(&of_nobody), Err(Malformed::Field { name: "host" }), "it is no sum");
    let good = encoded_roster(&roster());
    let (word, _) = read(&good).unwrap();
    assert_eq!((word.speaker(), word), (roster().collector, Word::Roster(roster())));
    assert!((0..good.len()).all(|cut| read(&good[..cut]) == Err(Malformed::Short)));
    let first = good.windows(4).position(|bytes| bytes == [0, 0, 0, 5]).expect("it is there");
    let refused = |position: usize, byte| {
        let mut bytes = good.clone();
        bytes[position] = byte;
        read(&bytes).map(|_| ())
    };
    let field = |name| Err(Malformed::Field { name });
    assert_eq!(refused(first, 0xff), field("gates"), "the first is beyond the last");
    assert_eq!(refused(first + 4, 0), field("gate"), "it is beyond the last");
    assert_eq!(refused(first + 8, 4), Err(Malformed::Short), "one is missing");
    assert!(refused(first + 8, 2).is_err(), "one too many");
    assert_eq!(refused(3, 1), Err(Malformed::Flows { found: 1, most: 0 }));
    assert_eq!(refused(3, 0x80), field("part"));
}

/// In numbers of which each follows from the one before, so that all are in order.
fn any_roster() -> impl Strategy<Value = RosterDatagram> {
    let gates = proptest::collection::btree_set(any::<u32>(), 0..=GATES_MAX);
    (any::<[u64; 3]>(), any::<[u32; 4]>(), gates).prop_map(
        |([incarnation, period, term], [device, host, one, other], gates)| {
            let (first, last) = (one.min(other), one.max(other));
            let gates = gates.into_iter().filter(|gate| (first..=last).contains(gate));
            RosterDatagram {
                device: DeviceId(device),
                collector: (HostId(host), incarnation),
                period,
                term,
                first: HostId(first),
                last: HostId(last),
                gates: gates.map(HostId).collect(),
            }
        },
    )
}

/// Who tells a sum, of how many hosts, with which leader, and as which of the sums.
fn any_sum() -> impl Strategy<Value = (Speaker, SumOf, HostId)> {
    let all: Vec<HostId> = Shard::all().flat_map(Shard::hosts).collect();
    (any::<(u32, u64)>(), any::<(u32, u32)>(), proptest::sample::select(all)).prop_map(
        |((gate, incarnation), (hosts, leader), host)| {
            ((HostId(gate), incarnation), SumOf { hosts, leader: HostId(leader) }, host)
        },
    )
}

fn any_part() -> impl Strategy<Value = Part> {
    let count = 2..=u8::try_from(PARTS_MAX).expect("few");
    let part = (any::<(u32, u32)>(), count).prop_map(|((one, other), count)| {
        let (first, last) = (TenantNumber(one.min(other)), TenantNumber(one.max(other)));
        Part { first, last, count }
    });
    prop_oneof![Just(Part::WHOLE), part]
}

fn target() -> impl Strategy<Value = Option<Target>> {
    let span = || (0..u64::MAX / 1_000).prop_map(Span::from_micros);
    proptest::option::of(prop_oneof![
        (span(), span()).prop_map(|(latency, window)| Target::mean(latency, window)),
        (1..=999u16, span(), span())
            .prop_map(|(late, latency, window)| Target::all_but(late, latency, window)),
    ])
}

fn flow() -> impl Strategy<Value = FlowSummary> {
    let time = || any::<u64>().prop_map(Span);
    let times = (time(), time(), time(), time(), time());
    let more = (0..128_u8, any::<bool>(), time());
    (any::<[u32; 8]>(), more, times, target()).prop_map(
        |(counts, (backlogged_percent, is_limited, floor), times, target)| {
            let (cost, device_time, response_time, slot_time, queued_age) = times;
            let [tenant, weight_milli, arrivals, completions, late, rest @ ..] = counts;
            let [outstanding, queued, expected_per_s] = rest;
            FlowSummary {
                tenant: TenantNumber(tenant),
                weight_milli,
                target,
                arrivals,
                completions,
                late,
                cost: Cost(cost.0),
                device_time,
                response_time,
                slot_time,
                outstanding,
                queued,
                backlogged_percent,
                is_limited,
                floor: Cost(floor.0),
                queued_age,
                expected_per_s,
            }
        },
    )
}

fn rates() -> impl Strategy<Value = Rates> {
    let none = Just(Rates::default());
    let some = any::<(u64, u64)>().prop_map(|(requests, bytes)| Rates { requests, bytes });
    prop_oneof![none, some]
}

fn promise() -> impl Strategy<Value = Promise> {
    let name = "[a-zA-Z0-9 _\u{e4}\u{4e2d}-]{0,16}";
    (any::<(u32, u32)>(), name, target(), rates(), rates()).prop_map(
        |((tenant, weight_milli), name, target, floor, limit)| Promise {
            tenant: TenantNumber(tenant),
            name,
            weight_milli,
            target,
            floor,
            limit,
        },
    )
}

fn any_told() -> impl Strategy<Value = Told> {
    let promises = proptest::collection::vec(promise(), 1..=TOLD_MAX);
    (any::<bool>(), promises).prop_map(|(begins, promises)| Told { begins, promises })
}

fn any_array_cost() -> impl Strategy<Value = ArrayCost> {
    any::<(u32, [u64; 5])>().prop_map(|(load_s, [read, read_bytes, write, write_bytes, flush])| {
        let rate = |fixed, rate_bytes| Rate { fixed: Span(fixed), rate_bytes };
        let (read, write) = (rate(read, read_bytes), rate(write, write_bytes));
        ArrayCost { load_s, read, write, flush: Span(flush) }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_in_whole_microseconds(
        device in any::<u32>(),
        host in 0..1_u32 << 31,
        incarnation in any::<u64>(),
        period in any::<u64>(),
        (depth, period_ms) in any::<(u32, u32)>(),
        part in any_part(),
        flows in proptest::collection::vec(flow(), 0..=PART_FLOWS_MAX),
        cost in proptest::option::of(any_array_cost()),
        told in proptest::option::of(any_told()),
        sum in proptest::option::of(any_sum()),
    ) {
        let (host, device) = (HostId(host), DeviceId(device));
        let terms = Terms { method: Method::Parda, period_ms };
        let collector = sum.map(|(collector, ..)| collector);
        let host = sum.map_or(host, |(.., counted_as)| counted_as);
        let sum = sum.map(|(_, sum, _)| sum);
        let summary = Summary { host, incarnation, period, depth, part, sum, flows };
        let written = Datagram { device, terms, summary, cost, told, collector };
        let bytes = encoded(&written);
        let read = decode(&bytes).unwrap();
        let mut expected = written;
        for flow in &mut expected.summary.flows {
            *flow = flow.in_microseconds();
        }
        prop_assert_eq!(&read, &expected);
        prop_assert_eq!(encoded(&read), bytes);
    }

    #[test]
    fn a_roster_is_read_back_as_it_was_written(roster in any_roster()) {
        let bytes = encoded_roster(&roster);
        prop_assert!(bytes.len() + TAG_BYTES <= DATAGRAM_BYTES_MAX);
        prop_assert_eq!(read(&bytes).map(|(word, _)| word), Ok(Word::Roster(roster)));
    }

    /// Whatever comes in, decoding ends with a value or a reason, and a value has one encoding.
    #[test]
    fn hostile_bytes_are_refused_or_mean_what_they_say(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        (is_framed, is_sum) in any::<(bool, bool)>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        if is_framed {
            let framed = if is_sum { sum() } else { part() };
            bytes = encoded(&Datagram { cost: cost().cost, told: told().told, ..framed });
            for (index, byte) in changes {
                let position = index.index(bytes.len());
                bytes[position] = byte;
            }
        }
        if let Ok(datagram) = decode(&bytes) {
            prop_assert_eq!(encoded(&datagram), bytes);
        }
    }
}
