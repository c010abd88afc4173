//! Words between gates as they travel: some are lost, which is shown, and those of a thousand gates
//! are not.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use evenkeel_core::control::name::TenantNumber;
use evenkeel_core::control::pace;
use evenkeel_core::control::summary::FlowSummary;
use evenkeel_core::control::target::Target;
use evenkeel_core::ticket::Cost;
use evenkeel_wire::exchange::{Word, opened};
use ring::hmac;

use super::*;

/// A stretch of the network before a gate: whoever sends to its address reaches the gate, unless
/// the word is lost.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    socket: UdpSocket,
    is_lossy: AtomicBool,
    is_over: AtomicBool,
    /// What has come by.
    pub(super) seen: Mutex<Vec<Vec<u8>>>,
}

impl Relay {
    pub(super) fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
        Self {
            address: socket.local_addr().expect("it is bound"),
            socket,
            is_lossy: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            seen: Mutex::new(Vec::new()),
        }
    }

    /// Passes words on until it is over; of every two one is lost while it is lossy.
    pub(super) fn run(&self, to: &str) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let mut count = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let Ok((length, _)) = self.socket.recv_from(&mut buffer) else { continue };
            self.seen.lock().expect("nobody panics").push(buffer[..length].to_vec());
            count += 1;
            if !self.is_lossy.load(Ordering::Relaxed) || count % 2 == 0 {
                self.socket.send_to(&buffer[..length], to).expect("loopback takes it");
            }
        }
    }

    /// It is over when this is dropped, so that a test that fails does end.
    pub(super) fn until_dropped(&self) -> Ending<'_> {
        Ending(&self.is_over)
    }
}

/// Ends whatever looks at this when it is dropped.
pub(super) struct Ending<'a>(pub(super) &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lost(gate: &Gate) -> u64 {
    gate.status()["exchange"]["peers"][0]["lost"].as_u64().expect("a count")
}

#[test]
fn words_that_are_lost_are_shown_by_gate_and_in_all() {
    needs!("nbdkit");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (_server, uri) = pipe(&scratch);
    let (relay, listen) = (Relay::new(), free_address());
    let all = [relay.address.to_string(), free_address()];
    let meeting = format!("listen = \"{listen}\"\nown = \"{}\"\npeers = {all:?}\n", all[0]);
    let one = Gate::start(&scratch, &policy_meeting(&scratch, &uri, &meeting, ""));
    std::thread::scope(|scope| {
        let _ending = relay.until_dropped();
        scope.spawn(|| relay.run(&listen));
        let _two = Gate::start(&other, &policy(&other, &uri, &all[1], &all, ""));
        wait_for_gates(&one, 2);
        relay.is_lossy.store(true, Ordering::Relaxed);
        wait_for("losses", || (lost(&one) > 10).then_some(()));
        relay.is_lossy.store(false, Ordering::Relaxed);
    });
    let status = one.status();
    let exchange = &status["exchange"];
    let all = exchange["expected_last_minute"].as_u64();
    assert!(exchange["lost_last_minute"].as_u64() > Some(10) && all > Some(20), "{exchange}");
    let shown = one.ctl(&["status"]);
    assert!(shown.contains("words in the last minute"), "{shown}");
}

/// The parts of the words of a period that so many gates with so many tenants send to one, in the
/// order of their instants; with the place of who speaks.
pub(super) fn words_of_a_period(
    hosts: &[HostId],
    own: HostId,
    (method, tenants): (Method, u32),
    period: u64,
) -> Vec<(Span, usize, Vec<u8>)> {
    let length = Span::from_millis(200);
    let mut words = Vec::new();
    for (place, host) in hosts.iter().enumerate() {
        let flows = (0..tenants).map(busy).collect();
        let summary = Summary { host: *host, incarnation: 1, period, flows, ..Summary::default() };
        let parts = summary.into_parts();
        let (count, window) = (parts.len(), pace::window(length, hosts.len() * parts.len()));
        for (part, summary) in parts.into_iter().enumerate() {
            let device = DeviceId::named("test", "array");
            let terms = Terms::new(method, length);
            let mut body = Vec::new();
            encode(&Datagram { device, terms, summary, ..Datagram::default() }, &mut body);
            let after = pace::offset_of_part(*host, own, window, (part, count));
            words.push((after, place, tagged(body)));
        }
    }
    words.sort_unstable();
    words
}

/// With the tag of the key that all gates have.
pub(super) fn tagged(body: Vec<u8>) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"a key that all gates of this test have");
    let tag = hmac::sign(&key, &body);
    sealed(body, *tag.as_ref().first_chunk().expect("a tag has more bytes"))
}

/// A fifth of a second of a tenant with a goal that has done something.
pub(super) fn busy(tenant: u32) -> FlowSummary {
    FlowSummary {
        tenant: TenantNumber(tenant * 4_000_000),
        weight_milli: 1_000,
        target: Some(Target::mean(Span::from_millis(20), Span::from_secs(1))),
        arrivals: 4,
        completions: 4,
        cost: Cost(560_000),
        device_time: Span::from_millis(12),
        response_time: Span::from_millis(40),
        slot_time: Span::from_millis(12),
        outstanding: 1,
        expected_per_s: 20,
        ..FlowSummary::default()
    }
}

/// Sends words of gates to one, each at its instant in its period, for so many periods; how many
/// bytes those are.
fn speak(hosts: &[HostId], to: &str, (method, tenants): (Method, u32), periods: u32) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut bytes = 0;
    speak_by((hosts, to), (method, tenants), periods, |_, word| {
        bytes += socket.send_to(word, to).expect("loopback takes it");
    });
    bytes
}

/// The same by whatever way: `send` is given the place of who speaks, and its word.
pub(super) fn speak_by(
    (hosts, to): (&[HostId], &str),
    (method, tenants): (Method, u32),
    periods: u32,
    mut send: impl FnMut(usize, &[u8]),
) {
    // Their words take a while to be made, and follow each other without a gap.
    let first = now_ms() / 200 + 20;
    let said = (first..first + u64::from(periods)).map(|period| {
        (period, words_of_a_period(hosts, HostId::named(to), (method, tenants), period))
    });
    for (period, words) in said.collect::<Vec<_>>() {
        std::thread::sleep(Duration::from_millis((period * 200).saturating_sub(now_ms())));
        let begun = Instant::now();
        for (after, place, word) in words {
            let wait = Duration::from_nanos(after.0).saturating_sub(begun.elapsed());
            if wait > Duration::from_millis(1) {
                std::thread::sleep(wait);
            }
            send(place, &word);
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("not that late")
}

/// Datagrams of other gates that a gate has taken.
pub(super) fn taken(gate: &Gate) -> u64 {
    let status = gate.status();
    let peers = status["exchange"]["peers"].as_array().expect("peers").clone();
    let count = |peer: &Value, what: &str| peer[what].as_u64().expect("a count");
    peers.iter().map(|peer| count(peer, "received") - count(peer, "refused")).sum()
}

/// Addresses where nobody listens, all on this machine.
pub(super) fn nobodies(count: u32) -> Vec<String> {
    (0..count).map(|gate| format!("127.1.{}.{}:9", gate / 250, 1 + gate % 250)).collect()
}

/// A thousand gates that all speak in one period: their words come at instants of their own, and
/// none is lost.
#[test]
fn the_words_of_a_thousand_gates_all_come_in() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let (_server, uri) = pipe(&scratch);
    let names = nobodies(1_000);
    let own = free_address();
    let gate = Gate::start(&scratch, &policy(&scratch, &uri, &own, &names, ""));
    let hosts: Vec<HostId> = names.iter().map(|name| HostId::named(name)).collect();
    speak(&hosts, &own, (Method::Slack, 0), 10);
    assert_eq!(taken(&gate), 10_000, "{}", gate.status()["exchange"]["refused"]);
    assert_eq!(gate.status()["exchange"]["lost_last_minute"], 0);
}

/// Ticks of the processor that a process has had, a hundredth of a second each.
pub(super) fn ticks(gate: &Gate) -> u64 {
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", gate.process.id())).expect("it runs");
    let fields = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace();
    fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// Fifty gates that each have something to tell of a thousand tenants with goals: all parts are
/// taken, and the gate decides by all of them.
#[test]
fn the_words_of_fifty_gates_of_a_thousand_tenants_all_come_in() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let (_server, uri) = pipe(&scratch);
    let (names, own) = (nobodies(49), free_address());
    let meeting = format!("listen = \"{own}\"\npeers = {names:?}\n");
    let gate = Gate::start(&scratch, &policy_of_a_thousand(&scratch, &uri, &meeting));
    let hosts: Vec<HostId> = names.iter().map(|name| HostId::named(name)).collect();
    let (begun, before) = (Instant::now(), ticks(&gate));
    let bytes = speak(&hosts, &own, (Method::Shares, 1_000), 10);
    let (took, used) = (begun.elapsed(), ticks(&gate) - before);
    let status = gate.status();
    assert_eq!(taken(&gate), 10 * 49 * 32, "{}", status["exchange"]["refused"]);
    let device = &status["exchange"]["devices"][0];
    assert_eq!(device["gates"].as_array().map(Vec::len), Some(50), "{}", device["reason"]);
    let memory = gate.resident_bytes() >> 20;
    println!("{used} ticks in {took:?} for ten words of each, {bytes} bytes; {memory} MiB");
}

/// The policy of one of two gates before `server`, with a thousand tenants with goals, the first
/// forty of which have an export.
fn policy_of_a_thousand(scratch: &Scratch, server: &str, meeting: &str) -> String {
    std::fs::write(scratch.join("exchange.key"), "a key that all gates of this test have")
        .expect("write the key");
    let policy = format!(
        "mode = \"enforce\"\n[[backend]]\nname = \"array\"\nupstream = \"{server}\"\n\
         control = \"shares\"\n[exchange]\nname = \"test\"\n{meeting}key = \"exchange.key\"\n\
         record = \"exchange.rec\"\n"
    );
    let tenant = |tenant: u32| {
        let export = format!("[[export]]\nname = \"t{tenant}\"\nsource = \"\"\n");
        let export = if tenant < 40 { export } else { String::new() };
        format!(
            "{export}[[tenant]]\nname = \"t{tenant}\"\nmatch = {{ export = \"t{tenant}\" }}\n\
             latency = \"200 ms\"\n"
        )
    };
    policy + &(0..1_000).map(tenant).collect::<String>()
}

/// Of forty tenants that have asked lately a gate with a thousand tells in two datagrams: the other
/// takes both, once, and knows of all forty.
#[test]
fn many_tenants_with_goals_are_told_of_in_parts() {
    needs!("nbdkit");
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (_server, uri) = pipe(&scratch);
    let (relay, listen) = (Relay::new(), free_address());
    let all = [free_address(), relay.address.to_string()];
    let meeting = format!("listen = \"{}\"\npeers = {all:?}\n", all[0]);
    let _one = Gate::start(&scratch, &policy_of_a_thousand(&scratch, &uri, &meeting));
    std::thread::scope(|scope| {
        let _ending = relay.until_dropped();
        scope.spawn(|| relay.run(&listen));
        let meeting = format!("listen = \"{listen}\"\nown = \"{}\"\npeers = {all:?}\n", all[1]);
        let two = Gate::start(&other, &policy_of_a_thousand(&other, &uri, &meeting));
        wait_for_gates(&two, 2);
        let four = |first: u32| {
            std::thread::scope(|scope| {
                for tenant in first..first + 4 {
                    let (scratch, export) = (&scratch, format!("t{tenant}"));
                    scope.spawn(move || bench_of(scratch, &export, "--depth 2 --runtime 300ms"));
                }
            });
        };
        (0..10).for_each(|round| four(4 * round));
        wait_for("all forty to be known", || {
            let status = two.status();
            let tenants = status["exchange"]["devices"][0]["tenants"].as_array()?.len();
            (tenants == 40).then_some(())
        });
        let peer = two.status()["exchange"]["peers"][0].clone();
        assert_eq!(peer["refused"], 0, "{peer}");
        let seen = relay.seen.lock().expect("nobody panics");
        let parts = seen.iter().filter_map(|word| {
            let (body, _) = opened(word).ok()?;
            Some(decode_word(body)?.part.count)
        });
        assert_eq!(parts.max(), Some(2));
    });
    assert_replays(&scratch);
}

fn decode_word(body: &[u8]) -> Option<Summary> {
    match evenkeel_wire::exchange::read(body).ok()? {
        (Word::Summary(datagram), _) => Some(datagram.summary),
        (Word::Service(_) | Word::Roster(_), _) => None,
    }
}
