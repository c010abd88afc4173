//! What the server answers, option by option, to the byte where that matters.

use crate::harness::*;
use evenkeel_wire::nbd::proto::{Context, ReplyStyle, TransmissionFlags};
use evenkeel_wire::nbd::server::{
    CloseReason, HandshakeError, Purpose, Refusal, ServerEvent, ServerHandshake, ServerOptions,
    ServerSession, TlsOffer,
};

fn run(options: &[Vec<u8>]) -> ServerTranscript {
    run_with(ServerOptions::default(), options)
}

/// Runs a session in one piece and byte by byte, which must come to the same.
fn run_with(server: ServerOptions, options: &[Vec<u8>]) -> ServerTranscript {
    let input = session(options);
    let whole = run_server(server, &input, usize::MAX);
    assert_eq!(run_server(server, &input, 1), whole);
    whole
}

fn ready(transcript: &ServerTranscript) -> &ServerSession {
    match transcript.events.last() {
        Some(ServerEvent::Ready(session)) => session,
        other => panic!("{other:?}, {:?}", transcript.error),
    }
}

#[test]
fn the_greeting_offers_fixed_newstyle_and_no_zeroes() {
    let mut server = ServerHandshake::new(ServerOptions::default());
    assert_eq!(*server.output(), greeting(3));
}

#[test]
fn go_answers_with_the_facts_asked_for_and_enters_transmission() {
    let transcript = run(&[option(GO, &go_data(b"disk", &[1, 2, 3, 999]))]);
    let flags = ready(&transcript).flags.0.to_be_bytes();
    let export = [&[0, 0], (1u64 << 40).to_be_bytes().as_slice(), &flags].concat();
    let expected = [
        greeting(3),
        reply(GO, REP_INFO, &export),
        reply(GO, REP_INFO, b"\0\x01disk"),
        reply(GO, REP_INFO, b"\0\x02a test disk"),
        reply(GO, REP_INFO, &[0, 3, 0, 0, 2, 0, 0, 0, 0x10, 0, 0, 0x10, 0, 0]),
        reply(GO, ACK, &[]),
    ];
    assert_eq!(transcript.sent, expected.concat());
    let session = ready(&transcript);
    assert_eq!((session.export.as_str(), session.style), ("disk", ReplyStyle::Simple));
    assert!(session.obeys_block_size && !session.tls);
}

#[test]
fn info_describes_and_the_handshake_goes_on() {
    let info = option(INFO, &go_data(b"disk", &[]));
    let transcript = run(&[info, option(GO, &go_data(b"disk", &[]))]);
    let purposes = transcript.events.iter().filter_map(|event| match event {
        ServerEvent::Lookup(lookup) => Some(lookup.purpose),
        _ => None,
    });
    assert_eq!(purposes.collect::<Vec<_>>(), [Purpose::Info, Purpose::Enter]);
    // Block sizes that are not the default are told unasked, but bind nobody.
    assert!(!ready(&transcript).obeys_block_size);
    let kinds = [(INFO, REP_INFO), (INFO, REP_INFO), (INFO, ACK)];
    assert_eq!(replies(&transcript.sent)[..3], kinds);
}

#[test]
fn export_name_is_answered_without_a_header_and_with_padding_unless_agreed() {
    let name = option(EXPORT_NAME, b"disk");
    let transcript = run(std::slice::from_ref(&name));
    let flags = ready(&transcript).flags.0.to_be_bytes();
    let answer = [(1u64 << 40).to_be_bytes().as_slice(), &flags].concat();
    assert_eq!(transcript.sent[18..], answer);
    for client_flags in [[0, 0, 0, 1], [0, 0, 0, 0]] {
        let input = [client_flags.as_slice(), &name].concat();
        let transcript = run_server(ServerOptions::default(), &input, usize::MAX);
        assert_eq!(transcript.sent[18..], [answer.as_slice(), &[0; 124]].concat());
        ready(&transcript);
    }
}

#[test]
fn what_follows_the_handshake_is_left_for_the_transmission_phase() {
    let go = session(&[option(GO, &go_data(b"disk", &[]))]);
    let mut server = ServerHandshake::new(ServerOptions::default());
    let (consumed, event) = server.handle(&[go.as_slice(), b"request"].concat()).unwrap();
    assert_eq!(consumed, go.len());
    serve(&mut server, &event);
    let (consumed, event) = server.handle(b"request").unwrap();
    assert!(matches!((consumed, event), (0, ServerEvent::Ready(_))));
}

#[test]
fn a_list_names_every_export() {
    let transcript = run(&[option(LIST, &[]), option(ABORT, &[])]);
    let expected = [
        greeting(3),
        reply(LIST, REP_SERVER, b"\0\0\0\x04diska test disk"),
        reply(LIST, REP_SERVER, b"\0\0\0\x05vault"),
        reply(LIST, ACK, &[]),
        reply(ABORT, ACK, &[]),
    ];
    assert_eq!(transcript.sent, expected.concat());
    assert_eq!(transcript.events, [ServerEvent::List, ServerEvent::Closed(CloseReason::Aborted)]);
}

#[test]
fn a_list_may_be_refused() {
    let mut server = ServerHandshake::new(ServerOptions::default());
    let input = session(&[option(LIST, &[])]);
    assert!(matches!(server.handle(&input), Ok((_, ServerEvent::List))));
    server.list_end(Err(Refusal::Policy("no".into())));
    assert_eq!(replies(server.output()), [(LIST, ERR_POLICY)]);
}

#[test]
fn an_unknown_option_is_refused_and_the_next_one_is_understood() {
    let transcript = run(&[
        option(4, b"what"),
        option(77, &vec![0xff; 100_000]),
        option(GO, &go_data(b"", &[])),
    ]);
    assert_eq!(replies(&transcript.sent)[..2], [(4, ERR_UNSUP), (77, ERR_UNSUP)]);
    assert_eq!(ready(&transcript).export, "");
}

#[test]
fn options_without_data_refuse_it_and_abort_ignores_it() {
    let codes = [LIST, STARTTLS, STRUCTURED_REPLY, EXTENDED_HEADERS];
    for code in codes {
        let transcript = run(&[option(code, b"x"), option(ABORT, b"bye")]);
        assert_eq!(replies(&transcript.sent), [(code, ERR_INVALID), (ABORT, ACK)]);
    }
}

#[test]
fn each_refusal_of_an_export_has_its_error() {
    let cases = [
        (b"nope".as_slice(), ERR_UNKNOWN),
        (b"vault", ERR_POLICY),
        (b"tls", ERR_TLS_REQD),
        (b"wide", ERR_EXT_HEADER_REQD),
    ];
    for (name, error) in cases {
        let transcript = run(&[option(GO, &go_data(name, &[]))]);
        assert_eq!(replies(&transcript.sent), [(GO, error)]);
    }
    let transcript = run(&[option(GO, &go_data(b"blocks", &[]))]);
    assert_eq!(replies(&transcript.sent), [(GO, REP_INFO), (GO, ERR_BLOCK_SIZE_REQD)]);
}

#[test]
fn a_refused_export_name_ends_the_session() {
    let transcript = run(&[option(EXPORT_NAME, b"nope")]);
    let refused = ServerEvent::Closed(CloseReason::ExportNameRefused(Refusal::Unknown));
    assert_eq!(transcript.events.last(), Some(&refused));
    assert_eq!(transcript.sent, greeting(3));
}

#[test]
fn extended_headers_take_precedence_over_structured_replies() {
    let go = option(GO, &go_data(b"disk", &[]));
    let structured = option(STRUCTURED_REPLY, &[]);
    let extended = option(EXTENDED_HEADERS, &[]);
    let transcript = run(&[structured.clone(), extended.clone(), structured.clone(), go.clone()]);
    let kinds =
        [(STRUCTURED_REPLY, ACK), (EXTENDED_HEADERS, ACK), (STRUCTURED_REPLY, ERR_EXT_HEADER_REQD)];
    assert_eq!(replies(&transcript.sent)[..3], kinds);
    assert_eq!(ready(&transcript).style, ReplyStyle::Extended);
    let transcript = run(&[extended.clone(), option(EXPORT_NAME, b"disk")]);
    assert!(matches!(transcript.error, Some(HandshakeError::BadExportName(_))));
    let old = ServerOptions { structured: false, extended: false, ..ServerOptions::default() };
    let transcript = run_with(old, &[extended, structured, go]);
    let kinds = [(EXTENDED_HEADERS, ERR_UNSUP), (STRUCTURED_REPLY, ERR_UNSUP)];
    assert_eq!(replies(&transcript.sent)[..2], kinds);
    assert_eq!(ready(&transcript).style, ReplyStyle::Simple);
}

#[test]
fn flags_that_the_framing_cannot_carry_are_not_told() {
    let go = option(GO, &go_data(b"disk", &[]));
    let flags = ready(&run(std::slice::from_ref(&go))).flags;
    assert!(flags.contains(TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FUA));
    assert!(!flags.contains(TransmissionFlags::SEND_DF));
    assert!(!flags.contains(TransmissionFlags::SEND_RESIZE));
    assert!(!flags.contains(TransmissionFlags::BLOCK_STATUS_PAYLOAD));
    let set = option(SET_META_CONTEXT, &meta_data(b"disk", &[b"base:allocation"]));
    let transcript = run(&[option(EXTENDED_HEADERS, &[]), set, go]);
    assert!(ready(&transcript).flags.contains(TransmissionFlags::BLOCK_STATUS_PAYLOAD));
}

fn contexts_after(options: &[Vec<u8>]) -> Vec<Context> {
    let options = [&[option(STRUCTURED_REPLY, &[])], options].concat();
    ready(&run(&options)).contexts.clone()
}

fn set(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    option(SET_META_CONTEXT, &meta_data(name, queries))
}

#[test]
fn selected_contexts_hold_for_their_export_only_and_the_last_selection_counts() {
    let go = option(GO, &go_data(b"disk", &[]));
    let dirty = [Context { id: 2, name: "x-test:dirty".into() }];
    let one = set(b"disk", &[b"x-test:dirty", b"x-other:thing"]);
    assert_eq!(contexts_after(&[one.clone(), go.clone()]), dirty);
    assert_eq!(contexts_after(&[one.clone(), option(GO, &go_data(b"", &[]))]), []);
    assert_eq!(contexts_after(&[one.clone(), set(b"disk", &[]), go.clone()]), []);
    assert_eq!(contexts_after(&[one.clone(), set(b"nope", &[b"base:x"]), go.clone()]), []);
    assert_eq!(contexts_after(&[one.clone(), set(b"disk", &[b"no colon"]), go.clone()]), []);
    assert_eq!(contexts_after(&[set(b"disk", &[b"base:"]), go]), []);
    assert_eq!(contexts_after(&[one, option(EXPORT_NAME, b"disk")]), dirty);
}

#[test]
fn the_reply_to_a_selection_carries_number_and_name() {
    let transcript =
        run(&[option(STRUCTURED_REPLY, &[]), set(b"disk", &[b"x-test:dirty", b"base:allocation"])]);
    let expected = [
        greeting(3),
        reply(STRUCTURED_REPLY, ACK, &[]),
        reply(SET_META_CONTEXT, REP_META_CONTEXT, b"\0\0\0\x01base:allocation"),
        reply(SET_META_CONTEXT, REP_META_CONTEXT, b"\0\0\0\x02x-test:dirty"),
        reply(SET_META_CONTEXT, ACK, &[]),
    ];
    assert_eq!(transcript.sent, expected.concat());
}

#[test]
fn a_list_of_contexts_shows_all_or_what_matches() {
    let shown = |queries: &[&[u8]]| {
        let list = option(LIST_META_CONTEXT, &meta_data(b"disk", queries));
        let transcript = run(&[option(STRUCTURED_REPLY, &[]), list]);
        let replies = replies(&transcript.sent);
        assert_eq!(replies.last(), Some(&(LIST_META_CONTEXT, ACK)));
        replies.len() - 2
    };
    assert_eq!(shown(&[]), 2);
    assert_eq!(shown(&[b"base:"]), 1);
    assert_eq!(shown(&[b"x-test:dirty"]), 1);
    assert_eq!(shown(&[b"base:", b"x-test:"]), 2);
    assert_eq!(shown(&[b"x-none:", b"x-test:dir"]), 0);
}

#[test]
fn contexts_take_a_chunked_framing_first() {
    let transcript = run(&[
        set(b"disk", &[b"base:allocation"]),
        option(LIST_META_CONTEXT, &meta_data(b"disk", &[])),
    ]);
    let kinds = [(SET_META_CONTEXT, ERR_INVALID), (LIST_META_CONTEXT, ERR_INVALID)];
    assert_eq!(replies(&transcript.sent), kinds);
}

#[test]
fn tls_that_is_required_comes_before_anything_else() {
    let server = ServerOptions { tls: TlsOffer::Required, ..ServerOptions::default() };
    let mut options: Vec<Vec<u8>> =
        [LIST, INFO, GO, STRUCTURED_REPLY, LIST_META_CONTEXT, SET_META_CONTEXT, 99]
            .map(|code| option(code, &[]))
            .into();
    options.push(option(ABORT, &[]));
    let transcript = run_with(server, &options);
    let replies = replies(&transcript.sent);
    assert!(replies[..7].iter().all(|(_, kind)| *kind == ERR_TLS_REQD));
    assert_eq!(replies[7], (ABORT, ACK));
    let transcript = run_with(server, &[option(EXPORT_NAME, b"disk")]);
    let refused = ServerEvent::Closed(CloseReason::ExportNameRefused(Refusal::TlsRequired));
    assert_eq!(transcript.events, [refused]);
}

#[test]
fn tls_is_refused_where_there_is_none_and_where_it_is_on_already() {
    let transcript = run(&[option(STARTTLS, &[])]);
    assert_eq!(replies(&transcript.sent), [(STARTTLS, ERR_POLICY)]);
    let mut server =
        ServerHandshake::new(ServerOptions { tls: TlsOffer::Required, ..Default::default() });
    let (_, event) = server.handle(&session(&[option(STARTTLS, &[])])).unwrap();
    assert_eq!(event, ServerEvent::StartTls);
    server.tls_established();
    let second = [option(STARTTLS, &[]), option(GO, &go_data(b"tls", &[]))].concat();
    let (consumed, _) = server.handle(&second).unwrap();
    let (_, event) = server.handle(&second[consumed..]).unwrap();
    serve(&mut server, &event);
    // With TLS on, "TLS required" would be a lie.
    let kinds = [(STARTTLS, ACK), (STARTTLS, ERR_INVALID), (GO, ERR_POLICY)];
    assert_eq!(replies(server.output()), kinds);
}

#[test]
fn a_server_that_goes_down_says_so_to_everything_but_goodbye() {
    let mut server = ServerHandshake::new(ServerOptions::default());
    server.shut_down();
    let input = session(&[option(GO, &go_data(b"disk", &[])), option(ABORT, &[])]);
    let (consumed, _) = server.handle(&input).unwrap();
    let (_, event) = server.handle(&input[consumed..]).unwrap();
    assert_eq!(event, ServerEvent::Closed(CloseReason::Aborted));
    assert_eq!(replies(server.output()), [(GO, ERR_SHUTDOWN), (ABORT, ACK)]);
}
