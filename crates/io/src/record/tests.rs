//! A recording without a gate: lanes that are filled by hand.

use std::sync::Mutex as StdMutex;

use super::*;
use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_trace::Sources;
use evenkeel_trace::codec::{Decoder, decode_all};
use evenkeel_trace::format::native::NativeDecoder;

/// One line for a record.
#[derive(Default)]
struct Lines;

impl Encoder for Lines {
    fn encode(
        &mut self,
        sources: &Sources,
        record: &Record,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let name = sources.name(record.source);
        let line = format!("{} {name} {} {:?}\n", record.at.0, record.offset, record.response);
        out.extend_from_slice(line.as_bytes());
        Ok(())
    }

    fn policy(&mut self, at: Nanos, text: Option<&str>, out: &mut Vec<u8>) -> Result<(), String> {
        if text == Some("Enforce") {
            return Err("one that does not fit".to_owned());
        }
        out.extend_from_slice(format!("{} under {text:?}\n", at.0).as_bytes());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"end\n");
    }
}

/// Keeps everything, or nothing.
struct Store {
    kept: Arc<StdMutex<Vec<u8>>>,
    fails: bool,
}

impl Sink for Store {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.fails {
            return Err(io::Error::other("the disk is full"));
        }
        self.kept.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// A policy is its mode here.
fn print(policy: &Policy) -> String {
    format!("{:?}", policy.mode)
}

fn recorder(fails: bool) -> (Arc<Recorder>, Arc<StdMutex<Vec<u8>>>) {
    let kept = Arc::<StdMutex<Vec<u8>>>::default();
    let sink = Box::new(Store { kept: Arc::clone(&kept), fails });
    let recorder = Recorder::start("test", Box::new(|| Box::new(Lines)), print, sink).unwrap();
    (recorder, kept)
}

fn text_of(kept: &StdMutex<Vec<u8>>) -> String {
    String::from_utf8(kept.lock().unwrap().clone()).unwrap()
}

fn arrive(lane: &mut Lane, at: u64, name: &str) -> Started {
    lane.arrived(Nanos(at), TenantId(0), &mut None, || name.to_owned())
}

#[test]
fn requests_that_end_out_of_order_are_written_in_the_order_of_arrival() {
    let (recorder, kept) = recorder(false);
    let (mut one, mut two) =
        (recorder.lane(Nanos(1000)).unwrap(), recorder.lane(Nanos(1000)).unwrap());
    let slow = arrive(&mut one, 1010, "a/disk");
    let quick = arrive(&mut one, 1020, "b/disk");
    let other = arrive(&mut two, 1015, "b/disk");
    one.ended(Nanos(1030), quick, Kind::Read, (2, 512), true);
    two.ended(Nanos(1040), other, Kind::Read, (3, 512), false);
    one.flush(Nanos(1050), [slow].into_iter());
    two.flush(Nanos(1050), std::iter::empty());
    one.ended(Nanos(2000), slow, Kind::Write, (1, 512), true);
    drop((one, two));
    let report = recorder.finish();
    assert_eq!((report.requests, report.dropped, report.late), (3, 0, 0));
    let text = String::from_utf8(kept.lock().unwrap().clone()).unwrap();
    let expected =
        "10 a/disk 1 Some(Span(990))\n15 b/disk 3 None\n20 b/disk 2 Some(Span(10))\nend\n";
    assert_eq!(text, expected);
    assert_eq!(report.bytes, text.len() as u64);
    assert!(recorder.lane(Nanos(3000)).is_none(), "it is finished");
}

#[test]
fn a_connection_is_named_once_for_each_recording_and_tenant() {
    let (recorder, _kept) = recorder(false);
    let mut lane = recorder.lane(Nanos(0)).unwrap();
    let (mut known, mut asked) = (None, 0);
    for tenant in [0, 0, 1, 1] {
        lane.arrived(Nanos(1), TenantId(tenant), &mut known, || {
            asked += 1;
            format!("{tenant}/disk")
        });
    }
    assert_eq!(asked, 2);
}

#[test]
fn a_request_that_arrived_under_another_lane_is_not_recorded() {
    let (recorder, _) = recorder(false);
    let mut before = recorder.lane(Nanos(0)).unwrap();
    let started = arrive(&mut before, 5, "a/disk");
    let mut lane = recorder.lane(Nanos(7)).unwrap();
    lane.ended(Nanos(9), started, Kind::Read, (0, 512), true);
    drop((before, lane));
    assert_eq!(recorder.finish().requests, 0);
}

#[test]
fn a_disk_that_refuses_stops_the_recording_and_nothing_else() {
    let (recorder, _) = recorder(true);
    let mut lane = recorder.lane(Nanos(0)).unwrap();
    for at in 0..3 {
        let started = arrive(&mut lane, at, "a/disk");
        lane.ended(Nanos(10 + at), started, Kind::Read, (0, 512), true);
    }
    drop(lane);
    let report = recorder.finish();
    assert_eq!(report.trouble.as_deref(), Some("the disk is full"));
}

/// Writes nothing before the test lets go.
struct Slow(std::sync::mpsc::Receiver<()>);

impl Sink for Slow {
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        let _ = self.0.recv();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_cannot_keep_up_costs_records_and_no_time() {
    let (held, gate) = sync_channel::<()>(0);
    let sink = Box::new(Slow(gate));
    let recorder = Recorder::start("test", Box::new(|| Box::new(Lines)), print, sink).unwrap();
    // Behind the recorder: where the test fails, the disk goes on before the writer is waited for.
    let held = held;
    let mut lane = recorder.lane(Nanos(0)).unwrap();
    // The queue holds one of five parts; the writer takes two at most before it stands still.
    let blocks = 5 * QUEUE_BLOCKS as u64;
    for at in 0..blocks * 1024 {
        let started = arrive(&mut lane, at, "a/disk");
        if lane.ended(Nanos(at), started, Kind::Read, (0, 512), true) {
            lane.flush(Nanos(at + 1), std::iter::empty());
        }
    }
    assert!(recorder.report().dropped > 0);
    drop((held, lane));
    let report = recorder.finish();
    assert_eq!(report.requests + report.dropped, blocks * 1024, "each is written or counted");
}

#[test]
fn a_writer_that_is_slower_than_its_lanes_writes_between_what_it_takes() {
    use super::writer::Queued;
    let (sender, blocks) = sync_channel(2 * QUEUE_BLOCKS);
    let block = || Block { lane: 0, names: Vec::new(), records: Vec::new(), is_last: false };
    for _ in 0..=QUEUE_BLOCKS {
        sender.send(block()).unwrap();
    }
    let waiting = AtomicU64::new(QUEUE_BLOCKS as u64 + 1);
    let sink = Box::new(Store { kept: Arc::default(), fails: false });
    let mut writer = Writer::new(Box::new(Lines), sink, Arc::default(), Span(u64::MAX));
    assert_eq!(writer.take_blocks(&blocks, &waiting), Queued::PerhapsMore);
    assert_eq!(waiting.load(Ordering::Relaxed), 1, "a queue's worth at a time");
    assert_eq!(writer.take_blocks(&blocks, &waiting), Queued::Nothing);
    drop(sender);
    assert_eq!(writer.take_blocks(&blocks, &waiting), Queued::NothingEver);
}

fn policy_of(mode: Mode) -> Policy {
    Policy { mode, ..Policy::default() }
}

#[test]
fn a_policy_is_written_in_front_of_the_requests_that_arrive_from_its_instant_on() {
    let (recorder, kept) = recorder(false);
    recorder.policy(&policy_of(Mode::Observe), || Nanos(900));
    let (mut one, mut two) =
        (recorder.lane(Nanos(1000)).unwrap(), recorder.lane(Nanos(1000)).unwrap());
    let (before, also) = (arrive(&mut one, 1010, "a/disk"), arrive(&mut two, 1020, "b/disk"));
    recorder.policy(&policy_of(Mode::Shadow), || Nanos(1020));
    recorder.policy(&policy_of(Mode::Shadow), || Nanos(1025));
    let after = arrive(&mut one, 1030, "a/disk");
    for (number, (lane, started)) in [(&mut one, after), (&mut two, also)].into_iter().enumerate() {
        lane.ended(Nanos(1040), started, Kind::Read, (number as u64, 512), false);
    }
    one.ended(Nanos(1050), before, Kind::Read, (2, 512), false);
    drop((one, two));
    recorder.finish();
    let expected = "0 under Some(\"Observe\")\n10 a/disk 2 None\n20 under Some(\"Shadow\")\n\
                    20 b/disk 1 None\n30 a/disk 0 None\nend\n";
    assert_eq!(text_of(&kept), expected);
}

#[test]
fn a_policy_that_cannot_be_recorded_leaves_none_that_would_be_wrong() {
    let (recorder, kept) = recorder(false);
    for (mode, at) in [(Mode::Observe, 5), (Mode::Enforce, 10), (Mode::Observe, 15)] {
        recorder.policy(&policy_of(mode), || Nanos(at));
        recorder.lane(Nanos(1)).unwrap();
    }
    recorder.finish();
    let expected = "0 under Some(\"Observe\")\n9 under None\n14 under Some(\"Observe\")\nend\n";
    assert_eq!(text_of(&kept), expected);
}

/// Four threads admit requests while the policy changes; each request's offset says which policy
/// its thread knew. None may stand in front of that one in the trace.
#[test]
fn no_request_stands_in_front_of_the_policy_it_was_admitted_under() {
    const ROUNDS: u64 = 200;
    /// How often a thread asks under one policy: the queue has room for all of them.
    const REQUESTS: u64 = 50;
    /// Whoever waits sleeps: on a machine with much to do, the writer gets no processor beside five
    /// threads that spin.
    const PAUSE: std::time::Duration = std::time::Duration::from_micros(200);
    let begin = std::time::Instant::now();
    let now = move || Nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap());
    let (recorder, kept) = recorder(false);
    let in_force = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (mut lane, in_force) = (recorder.lane(now()).unwrap(), Arc::clone(&in_force));
            std::thread::spawn(move || {
                let mut asked = (0, 0);
                loop {
                    let known = in_force.load(Ordering::Acquire);
                    if known == ROUNDS {
                        break;
                    }
                    asked = if asked.0 == known { (known, asked.1 + 1) } else { (known, 1) };
                    if asked.1 > REQUESTS {
                        lane.flush(now(), std::iter::empty());
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    let started =
                        lane.arrived(now(), TenantId(0), &mut None, || "a/disk".to_owned());
                    lane.ended(now(), started, Kind::Read, (known, 512), false);
                    lane.flush(now(), std::iter::empty());
                }
            })
        })
        .collect();
    for round in 1..=ROUNDS {
        // Two modes in turn, so that each is a change.
        let mode = if round % 2 == 0 { Mode::Observe } else { Mode::Shadow };
        recorder.policy(&policy_of(mode), now);
        in_force.store(round, Ordering::Release);
        // No more of them than may wait for the writer.
        while text_of(&kept).matches("under").count() as u64 + 32 < round {
            std::thread::sleep(PAUSE);
        }
    }
    for worker in workers {
        worker.join().unwrap();
    }
    recorder.finish();
    let (mut policies, mut last, mut requests) = (0, 0, 0);
    for line in text_of(&kept).lines().filter(|line| *line != "end") {
        let words: Vec<&str> = line.split(' ').collect();
        let at: u64 = words[0].parse().unwrap();
        assert!(at >= last, "{line} behind {last}");
        last = at;
        if words[1] == "under" {
            policies += 1;
        } else {
            assert!(words[2].parse::<u64>().unwrap() <= policies, "{line}: {policies}");
            requests += 1;
        }
    }
    assert!(policies == ROUNDS && requests > 0, "{policies} policies, {requests} requests");
}

#[test]
fn names_that_no_lane_knows_any_more_are_forgotten_and_the_others_stay_right() {
    let (recorder, kept) = recorder(false);
    let mut lane = recorder.lane(Nanos(0)).unwrap();
    let mut other = recorder.lane(Nanos(0)).unwrap();
    let mut at = 0;
    let mut asked = |lane: &mut Lane, name: &str| {
        at += 1;
        let started = arrive(lane, at, name);
        if lane.ended(Nanos(at), started, Kind::Read, (at, 512), false) {
            lane.flush(Nanos(at + 1), std::iter::empty());
        }
        at
    };
    let mut expected = vec![(asked(&mut other, "other"), "other".to_owned())];
    for number in 0..40_000 {
        let name = format!("name {number}");
        expected.push((asked(&mut lane, &name), name));
        if lane.is_worn() {
            lane = recorder.lane(Nanos(number)).unwrap();
        }
        if number % 1_000 == 0 {
            expected.push((asked(&mut other, "other"), "other".to_owned()));
        }
    }
    drop((lane, other));
    recorder.finish();
    let text = text_of(&kept);
    let found: Vec<_> = text.lines().filter(|line| *line != "end").collect();
    assert_eq!(found.len(), expected.len());
    for (line, (at, name)) in found.iter().zip(&expected) {
        assert_eq!(*line, format!("{at} {name} {at} None"));
    }
}

#[test]
fn a_flight_recorder_has_a_whole_trace_of_what_came_up_to_now() {
    let flight = Flight::start(print).unwrap();
    flight.recorder().policy(&policy_of(Mode::Observe), || Nanos(900));
    let mut lanes = Lanes { asked: None, flight: flight.recorder().lane(Nanos(1_000)) };
    let mut known = Both::default();
    for number in 0..10_000 {
        let now = Nanos(2_000 + number);
        let started = lanes.arrived(now, TenantId(0), &mut known, || "a/disk".to_owned());
        assert_eq!(started.asked, None, "nobody asked");
        let is_due = lanes.ended(now, started, Kind::Read, (number, 512), true);
        lanes.flush(now, is_due, std::iter::empty());
    }
    drop(lanes);
    flight.recorder().finish();
    let trace = flight.trace(Nanos(3_000_000_000));
    let mut decoder = NativeDecoder::new();
    let (records, defects) = decode_all(&mut decoder, &trace);
    assert_eq!((records.len(), defects), (10_000, Vec::new()));
    assert_eq!(records[0].at, Nanos(0));
    assert_eq!(decoder.policies()[0].text.as_deref(), Some("Observe"));
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ago_ns = u64::try_from(since.as_nanos()).unwrap() - decoder.origin_ns().unwrap();
    assert!((2_900_000_000..60_000_000_000).contains(&ago_ns), "{ago_ns} ns ago");
}

#[test]
fn a_request_that_does_not_end_holds_the_others_up_for_a_while_only() {
    let kept = Arc::<StdMutex<Vec<u8>>>::default();
    let sink = Box::new(Store { kept: Arc::clone(&kept), fails: false });
    let encoder = Box::new(|| Box::new(Lines) as _);
    let recorder = Recorder::holding(Span(1_000), "test", encoder, print, sink).unwrap();
    let mut lane = recorder.lane(Nanos(0)).unwrap();
    let slow = arrive(&mut lane, 10, "a/disk");
    for at in [20, 3_000, 4_500] {
        let started = arrive(&mut lane, at, "a/disk");
        lane.ended(Nanos(at + 1), started, Kind::Read, (at, 512), false);
    }
    lane.flush(Nanos(5_000), [slow].into_iter());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while text_of(&kept).is_empty() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(text_of(&kept), "20 a/disk 20 None\n3000 a/disk 3000 None\n");
    lane.ended(Nanos(5_010), slow, Kind::Read, (10, 512), true);
    drop(lane);
    assert_eq!(recorder.finish().late, 1);
    assert!(
        text_of(&kept).contains("3000 a/disk 10 Some(Span(5000))\n4500 "),
        "the slow one is late"
    );
}
