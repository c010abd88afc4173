//! Clients that misbehave before transmission.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::Besieged;
use crate::harness::certificates::Certificates;
use crate::harness::nbd::{
    ACK, Client, ERROR_TLS_REQUIRED, ERROR_UNSUPPORTED, EXPORT_NAME, GO, INFO, LIST,
    LIST_META_CONTEXT, SET_META_CONTEXT, STARTTLS, STRUCTURED_REPLY, Stream, be32, go_data,
    option_header,
};

fn greet(besieged: &Besieged) -> Client {
    Client::greet(&besieged.gate.plain("disk").address)
}

/// nbd-server trusted the length of a name (CVE-2022-26495, -26496), qemu a buffer of 256 bytes
/// (CVE-2017-15118).
#[test]
fn an_over_long_export_name_is_refused() {
    let mut besieged = Besieged::new();
    for option in [GO, INFO] {
        let mut client = greet(&besieged);
        let data = go_data(&"x".repeat(5000));
        client.throw(&option_header(option, u32::try_from(data.len()).expect("short")));
        client.throw(&data);
        // The gate may hang up instead of an answer.
        if let Ok(reply) = client.try_take(20) {
            assert!(be32(&reply[12..16]) >= 0x8000_0000, "option {option}: {reply:x?}");
        }
    }
    let mut client = greet(&besieged);
    client.option(EXPORT_NAME, "x".repeat(5000).as_bytes());
    assert!(client.is_hung_up(), "EXPORT_NAME has no other way to say no");
    besieged.assert_unharmed();
}

/// The length of the name inside GO claims more than the option holds.
#[test]
fn a_name_longer_than_its_option_is_refused() {
    let mut besieged = Besieged::new();
    for claim in [5_u32, 4096, 0x7fff_ffff, 0xffff_fffb, 0xffff_ffff] {
        for option in [GO, INFO, SET_META_CONTEXT, LIST_META_CONTEXT] {
            let mut client = greet(&besieged);
            client.option(STRUCTURED_REPLY, &[]);
            assert_eq!(client.option_reply().kind, ACK);
            let mut data = claim.to_be_bytes().to_vec();
            data.extend(*b"disk");
            client.option(option, &data);
            let refused = client.option_replies().pop().expect("a reply");
            assert!(refused.kind >= 0x8000_0000, "{option} claims {claim}: {refused:x?}");
        }
    }
    besieged.assert_unharmed();
}

/// An export's name is bytes from a stranger: it may reach no file system, log or reply raw.
#[test]
fn names_with_odd_bytes_are_plainly_unknown() {
    let mut besieged = Besieged::new();
    for name in ["../policy.toml", "/etc/passwd", "a\0b", "\u{1b}[2J", "%s%n", "disk\n", " disk"] {
        let mut client = greet(&besieged);
        client.option(GO, &go_data(name));
        let refused = client.option_replies().pop().expect("a reply");
        assert!(refused.kind >= 0x8000_0000, "{name:?}: {refused:x?}");
    }
    let mut client = greet(&besieged);
    client.option(GO, &[0, 0, 0, 2, 0xff, 0xfe, 0, 0]);
    assert!(client.option_replies().pop().is_some_and(|reply| reply.kind >= 0x8000_0000));
    let log = besieged.gate.process.log();
    assert!(!log.contains("\u{1b}[2J"), "an escape reached the log");
    besieged.assert_unharmed();
}

/// qemu's servers abort on an over-long option of this kind (work item 4843).
#[test]
fn an_over_long_meta_context_is_refused_or_hung_up_on() {
    let mut besieged = Besieged::new();
    for length in [5000_usize, 65_536, 40 << 20] {
        let mut client = greet(&besieged);
        client.option(STRUCTURED_REPLY, &[]);
        assert_eq!(client.option_reply().kind, ACK);
        let mut data = go_data("disk");
        data.truncate(data.len() - 2);
        data.extend(1_u32.to_be_bytes());
        let rest = u32::try_from(length).expect("short enough");
        data.extend(rest.to_be_bytes());
        data.resize(data.len() + length, b'q');
        let header = option_header(SET_META_CONTEXT, u32::try_from(data.len()).expect("short"));
        client.throw(&header);
        client.throw(&data);
        if let Ok(reply) = client.try_take(20) {
            assert!(be32(&reply[12..16]) >= 0x8000_0000, "{length} bytes: {reply:x?}");
        }
    }
    besieged.assert_unharmed();
}

/// As many queries as fit, each of them tiny: work per byte must stay bounded.
#[test]
fn thousands_of_meta_context_queries_are_bounded() {
    let mut besieged = Besieged::new();
    for claim in [3000_u32, 0xffff_ffff] {
        let mut client = greet(&besieged);
        client.option(STRUCTURED_REPLY, &[]);
        assert_eq!(client.option_reply().kind, ACK);
        let mut data = go_data("disk");
        data.truncate(data.len() - 2);
        data.extend(claim.to_be_bytes());
        for _ in 0..3000 {
            data.extend(5_u32.to_be_bytes());
            data.extend(*b"base:");
        }
        client.throw(&option_header(LIST_META_CONTEXT, u32::try_from(data.len()).expect("short")));
        client.throw(&data);
        drop(client.try_take(20));
    }
    besieged.assert_unharmed();
}

/// qemu skipped up to 4 GiB for any client that asked (CVE-2017-15119).
#[test]
fn an_option_of_4_gib_is_not_swallowed() {
    let mut besieged = Besieged::new();
    for option in [EXPORT_NAME, GO, LIST, SET_META_CONTEXT, STRUCTURED_REPLY, STARTTLS, 77] {
        let mut client = greet(&besieged);
        client.option_header(option, u32::MAX);
        let chunk = vec![0_u8; 1 << 20];
        let swallowed_mib = (0..256).take_while(|_| client.throw(&chunk)).count();
        assert!(swallowed_mib < 64, "option {option}: the gate took {swallowed_mib} MiB");
    }
    besieged.assert_unharmed();
}

#[test]
fn unknown_options_are_answered_and_unknown_flags_end_the_connection() {
    let mut besieged = Besieged::new();
    let mut client = greet(&besieged);
    for option in [0_u32, 4, 99, 0x7fff_ffff, 0xffff_ffff] {
        client.option(option, b"anything");
        assert_eq!(client.option_reply().kind, ERROR_UNSUPPORTED, "option {option}");
    }
    client.go("disk");
    let mut client = Client::over(crate::harness::nbd::dial(&besieged.gate.plain("").address));
    client.read_greeting();
    client.send(&0xffff_fff0_u32.to_be_bytes());
    assert!(client.is_hung_up());
    besieged.assert_unharmed();
}

#[test]
fn options_with_data_that_they_must_not_have_are_refused() {
    let mut besieged = Besieged::new();
    let mut client = greet(&besieged);
    for option in [LIST, STRUCTURED_REPLY] {
        client.option(option, b"superfluous");
        let refused = client.option_replies().pop().expect("a reply");
        assert!(refused.kind >= 0x8000_0000, "option {option}: {refused:x?}");
    }
    client.go("disk");
    besieged.assert_unharmed();
}

#[test]
fn garbage_instead_of_options_ends_the_connection() {
    let mut besieged = Besieged::new();
    let mut client = greet(&besieged);
    client.throw(&crate::harness::noise(1, 4096));
    assert!(client.is_hung_up());
    besieged.assert_unharmed();
}

/// The same option again and again: each may cost, none may leave something behind.
#[test]
fn endless_negotiation_leaves_nothing_behind() {
    let mut besieged = Besieged::new();
    let mut client = greet(&besieged);
    for _ in 0..2000 {
        client.option(INFO, &go_data("disk"));
        if client.try_take(1).is_err() {
            break; // A server may tire of a client that never comes to the point.
        }
        drop(client.try_take(19 + 12 + 20));
    }
    besieged.assert_unharmed();
}

/// nbdkit opened the backend before TLS (CVE-2019-14850).
#[test]
fn nothing_is_told_before_tls_where_tls_is_required() {
    let mut besieged = Besieged::with_tls();
    let address = besieged.gate.secure(&besieged.scratch, "disk").address;
    let mut client = Client::greet(&address);
    for option in [LIST, STRUCTURED_REPLY] {
        client.option(option, &[]);
        assert_eq!(client.option_reply().kind, ERROR_TLS_REQUIRED, "option {option}");
    }
    client.option(GO, &go_data("disk"));
    assert_eq!(client.option_reply().kind, ERROR_TLS_REQUIRED);
    client.option(EXPORT_NAME, b"disk");
    assert!(client.is_hung_up());
    besieged.assert_unharmed();
}

/// Bytes sent along with STARTTLS were taken as if they came under TLS (nbdkit CVE-2021-3716).
#[test]
fn plaintext_behind_starttls_is_not_taken_for_protected() {
    let mut besieged = Besieged::with_tls();
    let address = besieged.gate.secure(&besieged.scratch, "disk").address;
    let mut client = Client::greet(&address);
    let mut injected = option_header(STARTTLS, 0);
    injected.extend(option_header(STRUCTURED_REPLY, 0));
    client.send(&injected);
    assert_eq!(client.option_reply().kind, ACK);
    // The gate now waits for TLS and finds an option instead.
    assert!(client.is_hung_up(), "plaintext after STARTTLS must end the connection");
    besieged.assert_unharmed();
}

/// A downgrade by order: what was agreed in the clear does not count under TLS.
#[test]
fn what_was_agreed_before_tls_is_forgotten() {
    let mut besieged = Besieged::with_tls();
    let address = besieged.gate.secure(&besieged.scratch, "disk").address;
    let mut client = Client::greet(&address);
    client.option(STRUCTURED_REPLY, &[]);
    client.option_reply();
    client.option(STARTTLS, &[]);
    assert_eq!(client.option_reply().kind, ACK);
    let mut client = under_tls(client, &Certificates::of(&besieged.scratch), true);
    client.go("disk");
    // A simple reply: the structured ones were never agreed under TLS.
    assert_eq!(client.read(0, 4096).map(|data| data.len()), Ok(4096));
    besieged.assert_unharmed();
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_wanted() {
    let mut besieged = Besieged::with_tls();
    let address = besieged.gate.secure(&besieged.scratch, "disk").address;
    let mut client = Client::greet(&address);
    client.option(STARTTLS, &[]);
    assert_eq!(client.option_reply().kind, ACK);
    let mut client = under_tls(client, &Certificates::of(&besieged.scratch), false);
    client.throw(&option_header(LIST, 0));
    assert!(client.try_take(20).is_err(), "the gate lists its exports to a stranger");
    besieged.assert_unharmed();
}

/// nbd-server spun at an end of file within TLS (7a64238); others died of it (CVE-2013-7441).
#[test]
fn a_disconnect_at_any_byte_of_a_session_harms_nobody() {
    let mut besieged = Besieged::new();
    let mut session = 3_u32.to_be_bytes().to_vec();
    session.extend(option_header(STRUCTURED_REPLY, 0));
    let data = go_data("disk");
    session.extend(option_header(GO, u32::try_from(data.len()).expect("short")));
    session.extend(data);
    session.extend(super::clients::write_of_a_block());
    session.extend(super::clients::read_of_a_block());
    for cut in 0..=session.len() {
        // The payload is a plain run of bytes: every 97th place in it is enough.
        if cut > 120 && cut + 40 < session.len() && cut % 97 != 0 {
            continue;
        }
        let mut client = Client::over(crate::harness::nbd::dial(&besieged.gate.plain("").address));
        client.throw(&session[..cut]);
    }
    let busy = crate::harness::wait_for("the gate to notice", || {
        let open = besieged.gate.status()["connections"]["open"].as_u64().expect("a number");
        (open == 0).then_some(open)
    });
    assert_eq!(busy, 0);
    let cpu_before = cpu_ticks(&besieged);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let cpu_ticks = cpu_ticks(&besieged) - cpu_before;
    assert!(cpu_ticks < 20, "the gate spins: {cpu_ticks} ticks of CPU in an idle second");
    besieged.assert_unharmed();
}

/// User and system time so far, in ticks of 10 ms.
fn cpu_ticks(besieged: &Besieged) -> u64 {
    let path = format!("/proc/{}/stat", besieged.gate.process.id());
    let stat = std::fs::read_to_string(path).expect("the gate runs");
    let fields = stat.rsplit_once(") ").expect("a name in brackets").1;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    ticks.sum::<Result<u64, _>>().expect("numbers")
}

/// Goes on under TLS over the same connection.
fn under_tls(client: Client, certificates: &Certificates, with_identity: bool) -> Client {
    let read = |name: &str| certificates.file(name);
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(read("ca-cert.pem")).expect("an authority");
    roots.add(authority).expect("a good authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = if with_identity {
        let chain = vec![CertificateDer::from_pem_file(read("client-cert.pem")).expect("a chain")];
        let key = PrivateKeyDer::from_pem_file(read("client-key.pem")).expect("a key");
        config.with_client_auth_cert(chain, key).expect("an identity")
    } else {
        config.with_no_client_auth()
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let session = rustls::ClientConnection::new(Arc::new(config), name).expect("a session");
    Client::over(Box::new(Tls(rustls::StreamOwned::new(session, client.stream))))
}

/// TLS over the stream of a test's client.
struct Tls(rustls::StreamOwned<rustls::ClientConnection, Box<dyn Stream>>);

impl Read for Tls {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Tls {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.0.write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
