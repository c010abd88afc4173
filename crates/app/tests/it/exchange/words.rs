//! Words between gates as they travel: some are lost, which is shown, and those of a thousand gates
//! are not.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use evenkeel_core::control::pace;
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

/// Ends a relay.
pub(super) struct Ending<'a>(&'a AtomicBool);

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

/// The words of a period that so many gates send to one, in the order of their instants.
fn words_of_a_period(hosts: &[HostId], own: HostId, period: u64) -> Vec<(Span, Vec<u8>)> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"a key that all gates of this test have");
    let length = Span::from_millis(200);
    let window = pace::window(length, hosts.len());
    let word = |host: &HostId| {
        let summary = Summary { host: *host, incarnation: 1, period, ..Summary::default() };
        let device = DeviceId::named("test", "array");
        let terms = Terms::new(Method::Slack, length);
        let mut body = Vec::new();
        encode(&Datagram { device, terms, summary, ..Datagram::default() }, &mut body);
        let tag = hmac::sign(&key, &body);
        let tag = *tag.as_ref().first_chunk().expect("a tag has more bytes");
        (pace::offset(*host, own, window), sealed(body, tag))
    };
    let mut words: Vec<_> = hosts.iter().map(word).collect();
    words.sort_unstable();
    words
}

/// A thousand gates that all speak in one period: their words come at instants of their own, and
/// none is lost.
#[test]
fn the_words_of_a_thousand_gates_all_come_in() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let (_server, uri) = pipe(&scratch);
    // Addresses where nobody listens, all on this machine.
    let address = |gate: u32| format!("127.1.{}.{}:9", gate / 250, 1 + gate % 250);
    let names: Vec<String> = (0..1_000).map(address).collect();
    let own = free_address();
    let gate = Gate::start(&scratch, &policy(&scratch, &uri, &own, &names, ""));
    let hosts: Vec<HostId> = names.iter().map(|name| HostId::named(name)).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let now_ms = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        u64::try_from(since.as_millis()).expect("not that late")
    };
    for _ in 0..10 {
        let period = now_ms() / 200 + 1;
        let words = words_of_a_period(&hosts, HostId::named(&own), period);
        std::thread::sleep(Duration::from_millis((period * 200).saturating_sub(now_ms())));
        let begun = Instant::now();
        for (after, word) in words {
            let wait = Duration::from_nanos(after.0).saturating_sub(begun.elapsed());
            if wait > Duration::from_millis(1) {
                std::thread::sleep(wait);
            }
            socket.send_to(&word, &own).expect("loopback takes it");
        }
    }
    let exchange = &gate.status()["exchange"];
    let taken: u64 = exchange["peers"]
        .as_array()
        .expect("peers")
        .iter()
        .map(|peer| {
            peer["received"].as_u64().expect("a count") - peer["refused"].as_u64().expect("a count")
        })
        .sum();
    assert_eq!(taken, 10_000, "{}", exchange["refused"]);
    assert_eq!(exchange["lost_last_minute"], 0);
}
