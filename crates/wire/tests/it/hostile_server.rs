//! A client before hostile servers: one test for each class of bug that clients have had.

use crate::harness::*;
use evenkeel_wire::nbd::client::{
    ClientError, ClientEvent, ClientHandshake, ClientOptions, ContextsWanted, Goal,
};
use proptest::prelude::*;

fn options(goal: Goal) -> ClientOptions {
    ClientOptions { goal, structured: false, extended: false, ..ClientOptions::default() }
}

fn broken(options: ClientOptions, input: &[Vec<u8>]) -> &'static str {
    let input = [&[greeting(3)], input].concat().concat();
    match run_client(options, &input, usize::MAX).error {
        Some(ClientError::Protocol { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn cve_2017_2630_a_list_reply_longer_than_any_can_be_is_not_read() {
    let huge = reply_claiming(LIST, REP_SERVER, u32::MAX, &[]);
    assert!(broken(options(Goal::List), &[huge]).contains("longer"));
    let lie = reply(LIST, REP_SERVER, &[0xff, 0xff, 0xff, 0xff, b'x']);
    assert!(broken(options(Goal::List), &[lie]).contains("longer than its reply"));
    let long = reply(LIST, REP_SERVER, &string(&[b'n'; 4097]));
    assert!(broken(options(Goal::List), &[long]).contains("too long"));
}

#[test]
fn cve_2023_5215_a_size_that_would_turn_negative_is_refused() {
    for size in [1u64 << 63, u64::MAX] {
        let data = [&[0, 0], size.to_be_bytes().as_slice(), &[0, 1]].concat();
        let what = broken(options(Goal::Go), &[reply(GO, REP_INFO, &data)]);
        assert!(what.contains("larger than any"), "{what}");
    }
}

#[test]
fn facts_of_the_wrong_length_or_sense_are_refused() {
    let cases: [&[u8]; 9] = [
        &[],
        &[0],
        &[0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 1, 0xff],
        &[0, 3, 0, 0, 2, 0],
        &[0, 3, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0],
        &[0, 3, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0],
    ];
    for data in cases {
        broken(options(Goal::Go), &[reply(GO, REP_INFO, data)]);
    }
}

#[test]
fn consent_without_a_size_is_refused() {
    assert!(broken(options(Goal::Go), &[reply(GO, ACK, &[])]).contains("without size"));
}

#[test]
fn replies_out_of_place_are_refused() {
    broken(options(Goal::Go), &[reply(LIST, ACK, &[])]);
    broken(options(Goal::Go), &[reply(GO, REP_SERVER, &[0; 4])]);
    broken(options(Goal::Go), &[reply(GO, 77, &[])]);
    broken(options(Goal::Go), &[reply(GO, ACK, b"x")]);
    broken(options(Goal::Go), &[vec![0; 20]]);
}

/// CVE-2019-14842: what a man in the middle adds in plain text must not be taken for the server's
/// word under TLS.
#[test]
fn starttls_injection_plain_text_behind_the_consent_to_tls_ends_the_session() {
    let tls = ClientOptions { tls: true, ..options(Goal::Go) };
    let input = [greeting(3), reply(STARTTLS, ACK, &[]), reply(GO, ACK, &[])].concat();
    let transcript = run_client(tls.clone(), &input, usize::MAX);
    assert_eq!(transcript.error, Some(ClientError::PlaintextBehindStartTls));
    let mut client = ClientHandshake::new(tls);
    let (_, event) = client.handle(&input[..38]).unwrap();
    assert_eq!(event, ClientEvent::StartTls);
    assert_eq!(client.handle(&input[38..]), Err(ClientError::PlaintextBehindStartTls));
}

#[test]
fn tls_stripping_a_server_that_denies_tls_gets_nothing_else() {
    let tls = ClientOptions { tls: true, ..options(Goal::Go) };
    for code in [ERR_UNSUP, ERR_POLICY, ERR_INVALID] {
        let input = [greeting(3), reply(STARTTLS, code, b"")].concat();
        let transcript = run_client(tls.clone(), &input, usize::MAX);
        assert!(matches!(transcript.error, Some(ClientError::Refused { .. })));
        let sent = [CLIENT_FLAGS.to_vec(), option(STARTTLS, &[]), option(ABORT, &[])].concat();
        assert_eq!(transcript.sent, sent);
    }
}

#[test]
fn contexts_that_were_not_asked_for_or_come_twice_are_refused() {
    let wanted = ClientOptions {
        structured: true,
        contexts: ContextsWanted::Named(vec!["base:allocation".into()]),
        ..options(Goal::Go)
    };
    let structured = reply(STRUCTURED_REPLY, ACK, &[]);
    let context = |data: &[u8]| reply(SET_META_CONTEXT, REP_META_CONTEXT, data);
    let asked = context(b"\0\0\0\x01base:allocation");
    broken(wanted.clone(), &[structured.clone(), context(b"\0\0\0\x01x-evil:y")]);
    broken(wanted.clone(), &[structured.clone(), asked.clone(), asked]);
    broken(wanted, &[structured, context(b"\0\0\0")]);
}

#[test]
fn an_endless_list_is_cut_off_and_holds_no_memory() {
    let entry = reply(LIST, REP_SERVER, &string(b"disk"));
    let mut client = ClientHandshake::new(options(Goal::List));
    client.handle(&greeting(3)).unwrap();
    let mut listed = 0;
    let error = loop {
        match client.handle(&entry) {
            Ok((consumed, ClientEvent::Listed(_))) => {
                assert_eq!(consumed, entry.len());
                listed += 1;
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(listed, 65_536);
    assert!(error.to_string().contains("too many"), "{error}");
}

fn any_reply() -> impl Strategy<Value = Vec<u8>> {
    let code = prop_oneof![Just(EXTENDED_HEADERS), Just(STRUCTURED_REPLY), Just(GO), 1u32..12];
    let kind = prop_oneof![1u32..5, 0x8000_0001u32..0x8000_000b, Just(ACK)];
    (code, kind, prop::collection::vec(any::<u8>(), 0..20))
        .prop_map(|(code, kind, data)| reply(code, kind, &data))
}

proptest! {
    #[test]
    fn any_order_of_replies_cut_anywhere_is_taken_alike(
        replies in prop::collection::vec(any_reply(), 0..8),
        cut in 0usize..300,
        piece in 1usize..40,
        flags in 0u8..4,
    ) {
        let input = [greeting(flags), replies.concat()].concat();
        let input = &input[..cut.min(input.len())];
        let whole = run_client(ClientOptions::default(), input, usize::MAX);
        prop_assert_eq!(run_client(ClientOptions::default(), input, piece), whole);
    }
}
