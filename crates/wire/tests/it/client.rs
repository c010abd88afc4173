//! The client against servers of other makes: old ones, sparing ones, unwilling ones.

use crate::harness::*;
use evenkeel_wire::nbd::client::{
    ClientError, ClientEvent, ClientOptions, ClientSession, ContextsWanted, Goal, RefusedReason,
};
use evenkeel_wire::nbd::proto::{BlockSize, ReplyStyle, TransmissionFlags};

/// Runs the client in one piece and byte by byte, which must come to the same.
fn run(options: &ClientOptions, input: &[Vec<u8>]) -> ClientTranscript {
    let input = input.concat();
    let whole = run_client(options.clone(), &input, usize::MAX);
    let bytes = run_client(options.clone(), &input, 1);
    assert_eq!(bytes.error, whole.error);
    assert_eq!(bytes.events, whole.events);
    whole
}

fn plain() -> ClientOptions {
    ClientOptions {
        export: "disk".into(),
        structured: false,
        extended: false,
        ..ClientOptions::default()
    }
}

fn ready(transcript: &ClientTranscript) -> &ClientSession {
    match transcript.events.last() {
        Some(ClientEvent::Ready(session)) => session,
        other => panic!("{other:?}, {:?}", transcript.error),
    }
}

fn export_info(size: u64) -> Vec<u8> {
    [&[0, 0], size.to_be_bytes().as_slice(), &[0, 0x0d]].concat()
}

#[test]
fn the_first_bytes_are_the_flags_and_the_options_in_order() {
    let transcript = run(
        &ClientOptions::default(),
        &[greeting(3), reply(EXTENDED_HEADERS, ERR_UNSUP, b""), reply(STRUCTURED_REPLY, ACK, b"")],
    );
    let expected = [
        CLIENT_FLAGS.to_vec(),
        option(EXTENDED_HEADERS, &[]),
        option(STRUCTURED_REPLY, &[]),
        option(GO, &go_data(b"", &[1, 2, 3])),
    ];
    assert_eq!(transcript.sent, expected.concat());
}

#[test]
fn an_old_server_without_go_is_entered_by_export_name() {
    for (server_flags, padding) in [(3, 0), (1, 124)] {
        let transcript = run(
            &plain(),
            &[
                greeting(server_flags),
                reply(GO, ERR_UNSUP, b"what?"),
                4096u64.to_be_bytes().to_vec(),
                vec![0, 0x83],
                vec![0; padding],
            ],
        );
        let session = ready(&transcript);
        assert_eq!(session.size_bytes, 4096);
        assert_eq!(session.block_size, BlockSize::default());
        assert!(session.flags.contains(TransmissionFlags::READ_ONLY));
        assert!(!session.flags.contains(TransmissionFlags::SEND_DF));
        let sent = [option(GO, &go_data(b"disk", &[1, 2, 3])), option(EXPORT_NAME, b"disk")];
        assert_eq!(transcript.sent[4..], sent.concat());
    }
}

#[test]
fn a_newstyle_server_that_is_not_fixed_is_entered_by_export_name() {
    let answer = [4096u64.to_be_bytes().as_slice(), &[0, 1]].concat();
    let transcript = run(&plain(), &[greeting(2), answer]);
    assert_eq!(ready(&transcript).size_bytes, 4096);
    assert_eq!(transcript.sent, [&[0, 0, 0, 2], option(EXPORT_NAME, b"disk").as_slice()].concat());
    let tls = ClientOptions { tls: true, ..plain() };
    let transcript = run(&tls, &[greeting(2)]);
    assert_eq!(transcript.error, Some(ClientError::NotFixedNewstyle { wanted: "TLS" }));
}

#[test]
fn an_oldstyle_server_and_a_stranger_are_told_apart() {
    let oldstyle = [b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53".as_slice(), &[0; 136]].concat();
    let error = run(&plain(), &[oldstyle]).error.unwrap();
    assert!(error.to_string().contains("oldstyle"), "{error}");
    let error = run(&plain(), &[b"SSH-2.0-OpenSSH_9.6p1".to_vec()]).error.unwrap();
    assert_eq!(error, ClientError::NotNbd);
    assert!(error.to_string().contains("check address and port"));
}

#[test]
fn contexts_that_are_refused_are_done_without() {
    let options =
        ClientOptions { structured: true, contexts: ContextsWanted::All { max: 4 }, ..plain() };
    let transcript = run(
        &options,
        &[
            greeting(3),
            reply(STRUCTURED_REPLY, ACK, b""),
            reply(LIST_META_CONTEXT, ERR_UNSUP, b""),
            reply(GO, REP_INFO, &export_info(1 << 20)),
            reply(GO, ACK, b""),
        ],
    );
    assert_eq!(ready(&transcript).contexts, []);
    assert_eq!(ready(&transcript).style, ReplyStyle::Structured);
}

#[test]
fn wildcards_in_a_list_of_contexts_are_not_selected() {
    let options =
        ClientOptions { structured: true, contexts: ContextsWanted::All { max: 4 }, ..plain() };
    let transcript = run(
        &options,
        &[
            greeting(3),
            reply(STRUCTURED_REPLY, ACK, b""),
            reply(LIST_META_CONTEXT, REP_META_CONTEXT, b"\0\0\0\0qemu:dirty-bitmap:"),
            reply(LIST_META_CONTEXT, REP_META_CONTEXT, b"\0\0\0\0base:allocation"),
            reply(LIST_META_CONTEXT, ACK, b""),
            reply(SET_META_CONTEXT, REP_META_CONTEXT, b"\0\0\0\x07base:allocation"),
            reply(SET_META_CONTEXT, ACK, b""),
            reply(GO, REP_INFO, &export_info(1 << 20)),
            reply(GO, ACK, b""),
        ],
    );
    let contexts = &ready(&transcript).contexts;
    assert_eq!((contexts.len(), contexts[0].id), (1, 7));
}

#[test]
fn a_refusal_that_matters_is_told_with_the_servers_words_and_a_goodbye_follows() {
    let cases = [
        (ERR_UNKNOWN, RefusedReason::UnknownExport, "list them"),
        (ERR_TLS_REQD, RefusedReason::TlsRequired, "nbds://"),
        (ERR_SHUTDOWN, RefusedReason::Shutdown, "shutting down"),
        (ERR_POLICY, RefusedReason::Policy, "forbids"),
        (0x8000_0099, RefusedReason::Other(0x8000_0099), "0x80000099"),
    ];
    for (code, expected, words) in cases {
        let transcript = run(&plain(), &[greeting(3), reply(GO, code, b"no\nway\x1b[0m")]);
        let error = transcript.error.unwrap();
        let ClientError::Refused { reason, .. } = &error else { panic!("{error}") };
        assert_eq!(*reason, expected);
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains(r#""no\nway\x1b[0m""#), "{error}");
        assert!(transcript.sent.ends_with(&option(ABORT, &[])));
    }
}

#[test]
fn a_server_that_insists_on_tls_is_understood_at_the_first_option() {
    let transcript =
        run(&ClientOptions::default(), &[greeting(3), reply(EXTENDED_HEADERS, ERR_TLS_REQD, b"")]);
    let error = transcript.error.unwrap();
    assert!(matches!(error, ClientError::Refused { reason: RefusedReason::TlsRequired, .. }));
}

#[test]
fn facts_that_are_not_known_here_are_ignored() {
    let transcript = run(
        &plain(),
        &[
            greeting(3),
            reply(GO, REP_INFO, &[0, 99, 1, 2, 3]),
            reply(GO, REP_INFO, &export_info(1 << 20)),
            reply(GO, ACK, b""),
        ],
    );
    assert_eq!(ready(&transcript).size_bytes, 1 << 20);
}

#[test]
fn what_follows_the_handshake_is_left_for_the_transmission_phase() {
    use evenkeel_wire::nbd::client::ClientHandshake;
    let handshake =
        [greeting(3), reply(GO, REP_INFO, &export_info(1 << 20)), reply(GO, ACK, b"")].concat();
    let mut client = ClientHandshake::new(plain());
    let (consumed, event) = client.handle(&[handshake.as_slice(), b"reply"].concat()).unwrap();
    assert_eq!(consumed, handshake.len());
    assert!(matches!(event, ClientEvent::Ready(_)));
    assert_eq!(client.handle(b"reply"), Err(ClientError::Finished));
}

#[test]
fn a_description_ends_with_a_goodbye() {
    let info = ClientOptions { goal: Goal::Info, ..plain() };
    let transcript = run(
        &info,
        &[greeting(3), reply(INFO, REP_INFO, &export_info(1 << 20)), reply(INFO, ACK, b"")],
    );
    assert!(matches!(transcript.events.last(), Some(ClientEvent::Info(_))));
    assert!(transcript.sent.ends_with(&option(ABORT, &[])));
}
