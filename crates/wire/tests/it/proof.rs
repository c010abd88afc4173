//! What words carry behind their figures: questions and answers of gates that doubt each other,
//! read back as they were written, and refused if a single byte is not as it should be.

use evenkeel_core::control::challenge::{ANSWERS_MAX, ASKS_MAX, Entry, Proof};
use evenkeel_core::control::service::Service;
use evenkeel_core::control::summary::{HostId, Summary};
use evenkeel_wire::exchange::proof::push;
use evenkeel_wire::exchange::service::{self, ServiceDatagram};
use evenkeel_wire::exchange::{Datagram, Malformed, Word, decode, encode, read};
use proptest::prelude::*;

/// Both kinds of words with nothing in them but this.
fn words(proof: &Proof) -> [Vec<u8>; 2] {
    let (mut summary, mut service) = (Vec::new(), Vec::new());
    encode(&Datagram::default(), &mut summary);
    service::encode(&ServiceDatagram::default(), &mut service);
    [summary, service].map(|mut body| {
        push(proof, &mut body);
        body
    })
}

#[test]
fn a_question_and_an_answer_are_the_bytes_that_other_gates_know() {
    let proof = Proof { asks: vec![(HostId(2), 77)], answers: vec![(HostId(3), u64::MAX)] };
    let [plain, _] = words(&Proof::default());
    let [body, _] = words(&proof);
    let hex: Vec<String> = body[plain.len()..].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex.join(" "),
        "01 01 00 00 00 02 00 00 00 00 00 00 00 4d 00 00 00 03 ff ff ff ff ff ff ff ff"
    );
    // A recording has the figures alone.
    assert_eq!(decode(&plain), Ok(Datagram::default()));
    assert_eq!(decode(&body), Err(Malformed::Trailing));
}

#[test]
fn the_speaker_is_that_of_the_figures() {
    let summary = Summary { host: HostId(5), incarnation: 9, ..Summary::default() };
    let datagram = Datagram { summary, ..Datagram::default() };
    assert_eq!(Word::Summary(datagram).speaker(), (HostId(5), 9));
    let service = Service { host: HostId(6), incarnation: 8, ..Service::default() };
    let datagram = ServiceDatagram { service, ..ServiceDatagram::default() };
    assert_eq!(Word::Service(datagram).speaker(), (HostId(6), 8));
}

#[test]
fn what_is_no_list_of_questions_is_refused() {
    let proof = Proof {
        asks: vec![(HostId(2), 77), (HostId(3), 77)],
        answers: vec![(HostId(3), 1), (HostId(3), 2)],
    };
    let [plain, _] = words(&Proof::default());
    let at = plain.len();
    for good in words(&proof) {
        assert_eq!(read(&good).map(|(_, read)| read), Ok(proof.clone()));
        let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            read(&bytes).unwrap_err()
        };
        let number = Malformed::Field { name: "number of questions" };
        let order = Malformed::Field { name: "order of questions" };
        // A service word begins with as many bytes as a summary, and has fewer of its own.
        let at = at - (words(&proof)[0].len() - good.len());
        assert_eq!(refusal(&|bytes| bytes[at..at + 2].fill(0)), number);
        assert_eq!(refusal(&|bytes| bytes[at] = 9), number);
        assert_eq!(refusal(&|bytes| bytes[at + 1] = 65), number);
        assert_eq!(refusal(&|bytes| bytes[at + 1] = 3), Malformed::Short);
        assert_eq!(refusal(&|bytes| bytes[at + 1] = 1), Malformed::Trailing);
        assert_eq!(refusal(&|bytes| bytes[at + 5] = 3), order, "one gate twice");
        assert_eq!(refusal(&|bytes| bytes[at + 2 + 36 + 11] = 1), order, "one answer twice");
        assert_eq!(refusal(&|bytes| bytes.push(0)), Malformed::Trailing);
        for cut in at + 1..good.len() {
            assert_eq!(read(&good[..cut]), Err(Malformed::Short));
        }
    }
}

fn entries(most: usize) -> impl Strategy<Value = Vec<Entry>> {
    let entry = (any::<u32>(), any::<u64>()).prop_map(|(host, number)| (HostId(host), number));
    proptest::collection::vec(entry, 0..=most).prop_map(|mut entries| {
        entries.sort_unstable();
        entries.dedup_by_key(|(host, _)| *host);
        entries
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(asks in entries(ASKS_MAX), answers in entries(ANSWERS_MAX)) {
        let proof = Proof { asks, answers };
        for body in words(&proof) {
            prop_assert_eq!(read(&body).map(|(_, read)| read), Ok(proof.clone()));
        }
    }

    /// Whatever comes in, reading ends with a value or a reason, and a value has one encoding.
    #[test]
    fn hostile_bytes_are_refused_or_mean_what_they_say(
        tail in proptest::collection::vec(any::<u8>(), 0..200),
        counts in (0..9u8, 0..4u8),
    ) {
        for mut body in words(&Proof::default()) {
            let plain = body.clone();
            body.extend([counts.0, counts.1]);
            body.extend(&tail);
            if let Ok((_, proof)) = read(&body) {
                let mut out = plain;
                push(&proof, &mut out);
                prop_assert_eq!(out, body);
            }
        }
    }
}
