//! A server under attack: one test for each class of bug that servers of this protocol have had.

use crate::harness::*;
use evenkeel_wire::nbd::proto::ReplyStyle;
use evenkeel_wire::nbd::server::{
    HandshakeError, ServerEvent, ServerHandshake, ServerOptions, TlsOffer,
};
use proptest::prelude::*;

fn run(options: &[Vec<u8>]) -> ServerTranscript {
    run_server(ServerOptions::default(), &session(options), usize::MAX)
}

const WITH_TLS: ServerOptions =
    ServerOptions { tls: TlsOffer::Optional, structured: true, extended: true };

#[test]
fn cve_2022_26495_a_name_of_four_gib_is_never_allocated() {
    for code in [INFO, GO, LIST_META_CONTEXT, SET_META_CONTEXT] {
        let lie = [&[0xff; 4], b"disk".as_slice(), &[0, 0]].concat();
        let transcript = run(&[option(STRUCTURED_REPLY, &[]), option(code, &lie)]);
        assert_eq!(replies(&transcript.sent)[1], (code, ERR_INVALID));
    }
    let transcript = run(&[option_claiming(EXPORT_NAME, u32::MAX, b"disk")]);
    assert!(matches!(transcript.error, Some(HandshakeError::TooMuchData { .. })));
}

#[test]
fn cve_2022_26496_lengths_within_an_option_that_contradict_it_are_invalid() {
    let good = go_data(b"disk", &[3]);
    let mut cases = vec![Vec::new(), vec![0; 3], vec![0; 5], [good.as_slice(), &[0]].concat()];
    cases.extend((0..good.len()).map(|cut| good[..cut].to_vec()));
    let mut one_more = good.clone();
    one_more[3] += 1;
    cases.push(one_more);
    for data in cases {
        let transcript = run(&[option(GO, &data)]);
        assert_eq!(replies(&transcript.sent), [(GO, ERR_INVALID)], "{data:?}");
    }
}

#[test]
fn cve_2017_15118_the_longest_name_is_taken_and_one_byte_more_is_not() {
    let longest = vec![b'n'; 4096];
    let over = vec![b'n'; 4097];
    let transcript = run(&[option(GO, &go_data(&longest, &[])), option(GO, &go_data(&over, &[]))]);
    assert_eq!(replies(&transcript.sent), [(GO, ERR_UNKNOWN), (GO, ERR_INVALID)]);
    let transcript = run(&[option(EXPORT_NAME, &over)]);
    assert!(matches!(transcript.error, Some(HandshakeError::BadExportName(_))));
}

#[test]
fn cve_2017_15119_gigabytes_of_option_data_are_not_skipped_for_free() {
    let transcript = run(&[option_claiming(99, u32::MAX, &[])]);
    assert_eq!(transcript.error, Some(HandshakeError::TooMuchData { length: u32::MAX }));
    let large = option(99, &vec![0; 300_000]);
    let transcript = run(&vec![large; 10]);
    assert_eq!(replies(&transcript.sent).len(), 3);
    assert_eq!(transcript.error, Some(HandshakeError::TooMuchData { length: 300_000 }));
    let transcript = run(&vec![option(99, &[]); 5000]);
    assert_eq!(transcript.error, Some(HandshakeError::TooManyOptions));
}

#[test]
fn cve_2019_14850_no_export_is_looked_up_before_the_tls_that_is_required() {
    let server = ServerOptions { tls: TlsOffer::Required, ..WITH_TLS };
    let options = [
        option(LIST, &[]),
        option(INFO, &go_data(b"disk", &[])),
        option(GO, &go_data(b"disk", &[])),
        option(STRUCTURED_REPLY, &[]),
        option(SET_META_CONTEXT, &meta_data(b"disk", &[])),
    ];
    let transcript = run_server(server, &session(&options), usize::MAX);
    assert!(transcript.events.iter().all(|event| *event == ServerEvent::SendOutput));
}

#[test]
fn cve_2021_3716_nothing_negotiated_in_plain_text_survives_starttls() {
    let mut server = ServerHandshake::new(WITH_TLS);
    let plain = session(&[
        option(EXTENDED_HEADERS, &[]),
        option(SET_META_CONTEXT, &meta_data(b"disk", &[b"base:allocation"])),
        option(STARTTLS, &[]),
    ]);
    let secret = [
        option(LIST_META_CONTEXT, &meta_data(b"disk", &[])),
        option(STRUCTURED_REPLY, &[]),
        option(GO, &go_data(b"disk", &[])),
    ];
    let mut events = Vec::new();
    for input in [plain, secret.concat()] {
        let mut rest = input.as_slice();
        loop {
            let (consumed, event) = server.handle(rest).unwrap();
            rest = &rest[consumed..];
            let more = serve(&mut server, &event) && event != ServerEvent::NeedInput;
            events.push(event);
            if !more {
                break;
            }
        }
    }
    // Without a framing there are no contexts to list; with it, none of the old ones comes back.
    assert!(replies(server.output()).contains(&(LIST_META_CONTEXT, ERR_INVALID)));
    let Some(ServerEvent::Ready(session)) = events.last() else { panic!() };
    assert_eq!((session.style, session.tls), (ReplyStyle::Structured, true));
    assert_eq!(session.contexts, []);
}

#[test]
fn starttls_injection_plain_text_behind_the_request_for_tls_ends_the_session() {
    let injected = [option(STARTTLS, &[]), option(STRUCTURED_REPLY, &[])];
    let transcript = run_server(WITH_TLS, &session(&injected), usize::MAX);
    assert_eq!(transcript.error, Some(HandshakeError::PlaintextBehindStartTls));
    assert_eq!(transcript.events, []);
    let mut server = ServerHandshake::new(WITH_TLS);
    server.handle(&session(&injected[..1])).unwrap();
    assert_eq!(server.handle(b"I"), Err(HandshakeError::PlaintextBehindStartTls));
}

/// The open report on an over-long `SET_META_CONTEXT` that aborted a server with all its exports.
#[test]
fn an_over_long_set_meta_context_is_refused_and_voids_what_was_selected() {
    let query = vec![b'a'; 5000];
    let queries: Vec<&[u8]> = vec![query.as_slice(); 20];
    let too_many: Vec<&[u8]> = vec![b"base:allocation"; 257];
    let cases = [
        (meta_data(b"disk", &queries), ERR_TOO_BIG),
        (meta_data(b"disk", &[&query]), ERR_INVALID),
        (meta_data(b"disk", &too_many), ERR_TOO_BIG),
        ([string(b"disk"), vec![0xff; 4]].concat(), ERR_INVALID),
    ];
    for (data, error) in cases {
        let transcript = run(&[
            option(STRUCTURED_REPLY, &[]),
            option(SET_META_CONTEXT, &meta_data(b"disk", &[b"base:allocation"])),
            option(SET_META_CONTEXT, &data),
            option(GO, &go_data(b"disk", &[])),
        ]);
        assert!(replies(&transcript.sent).contains(&(SET_META_CONTEXT, error)));
        let Some(ServerEvent::Ready(session)) = transcript.events.last() else { panic!() };
        assert_eq!(session.contexts, []);
    }
}

#[test]
fn client_flags_that_were_not_offered_end_the_session() {
    for flags in [4u32, 1 << 16, u32::MAX] {
        let transcript = run_server(ServerOptions::default(), &flags.to_be_bytes(), usize::MAX);
        assert_eq!(transcript.error, Some(HandshakeError::UnknownClientFlags(flags)));
    }
}

#[test]
fn a_client_without_fixed_newstyle_has_one_option() {
    let input = [[0, 0, 0, 2].as_slice(), &option(LIST, &[])].concat();
    let transcript = run_server(ServerOptions::default(), &input, usize::MAX);
    assert_eq!(transcript.error, Some(HandshakeError::NotFixedNewstyle { option: LIST }));
}

#[test]
fn names_that_are_no_strings_are_refused() {
    for name in [b"a\0b".as_slice(), b"\xff\xfe"] {
        let transcript = run(&[option(GO, &go_data(name, &[])), option(EXPORT_NAME, name)]);
        assert_eq!(replies(&transcript.sent), [(GO, ERR_INVALID)]);
        assert!(matches!(transcript.error, Some(HandshakeError::BadExportName(_))));
    }
}

#[test]
fn pipelined_options_are_answered_one_at_a_time() {
    let input = session(&vec![option(99, &[]); 1000]);
    let mut server = ServerHandshake::new(ServerOptions::default());
    server.output().clear();
    let (consumed, event) = server.handle(&input).unwrap();
    assert_eq!((consumed, event), (20, ServerEvent::SendOutput));
    assert!(server.output().len() <= 64);
}

fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just(&b"disk"[..]), Just(&b""[..]), Just(&b"nope"[..])];
    let query = prop_oneof![Just(&b"base:"[..]), Just(&b"x-test:dirty"[..]), Just(&b"q"[..])];
    let queries = prop::collection::vec(query, 0..3);
    prop_oneof![
        (1u32..13, prop::collection::vec(any::<u8>(), 0..12)).prop_map(|(c, d)| option(c, &d)),
        (1u32..13).prop_map(|code| option(code, &[])),
        (6u32..8, name.clone()).prop_map(|(code, name)| option(code, &go_data(name, &[3]))),
        (9u32..11, name, queries)
            .prop_map(|(code, name, queries)| { option(code, &meta_data(name, &queries)) }),
    ]
}

proptest! {
    /// Options in orders that nobody thought of (CVE-2019-14851, CVE-2017-7539: reachable
    /// assertions), cut off anywhere (CVE-2013-7441), in pieces of any size.
    #[test]
    fn any_order_of_options_cut_anywhere_is_answered_alike(
        options in prop::collection::vec(any_option(), 0..8),
        cut in 0usize..400,
        piece in 1usize..40,
        tls in prop_oneof![Just(TlsOffer::Off), Just(TlsOffer::Required)],
    ) {
        let input = session(&options);
        let input = &input[..cut.min(input.len())];
        let server = ServerOptions { tls, ..WITH_TLS };
        let whole = run_server(server, input, usize::MAX);
        let pieces = run_server(server, input, piece);
        if whole.error != Some(HandshakeError::PlaintextBehindStartTls) {
            prop_assert_eq!(whole, pieces);
        }
    }
}
