//! Who may open what: identities, exports and operations, directly and through reloads.

use std::fmt::Write as _;
use std::process::Command;

use crate::harness::certificates::Certificates;
use crate::harness::client::list;
use crate::harness::gate::Gate;
use crate::harness::nbd::{Client, GO, INFO, LIST_META_CONTEXT, STRUCTURED_REPLY, go_data};
use crate::harness::skip::needs;
use crate::harness::storage::{Server, Wire, text};
use crate::harness::target::{Address, Target};
use crate::harness::{Scratch, free_port};

const EXPORTS: [&str; 8] =
    ["db-main", "free", "listed", "shared", "closed", "db-log", "other", "secret"];

/// Clients by certificate, then one without on the listener where TLS may be left out, and one on
/// the unix socket.
const CALLERS: [&str; 6] = ["db", "evil", "reader", "nobody", "guest", "local"];

/// What each caller may do with each export: nothing, read, or write.
type Matrix = [[char; 8]; 6];

const AT_FIRST: Matrix = [
    // db-main, free, listed, shared, closed, db-log, other, and `secret`, where `db-vault` stands
    ['W', 'W', '-', '-', '-', 'W', 'W', '-'], // db
    ['-', 'W', 'W', '-', '-', '-', 'W', '-'], // evil
    ['-', 'R', '-', '-', '-', '-', 'R', '-'], // reader
    ['-', '-', 'W', 'W', '-', '-', '-', '-'], // nobody
    ['-', '-', 'W', 'W', '-', '-', '-', '-'], // guest
    ['W', 'W', 'W', 'W', 'W', 'W', 'W', 'W'], // local
];

/// With `db-main` for `evil`, who may only read, and what is passed through for `db`.
const AFTER_RELOAD: Matrix = [
    ['-', 'W', '-', '-', '-', 'W', 'W', '-'],
    ['R', 'R', 'R', '-', '-', '-', '-', '-'],
    ['-', 'R', '-', '-', '-', '-', '-', '-'],
    ['-', '-', 'W', 'W', '-', '-', '-', '-'],
    ['-', '-', 'W', 'W', '-', '-', '-', '-'],
    ['W', 'W', 'W', 'W', 'W', 'W', 'W', 'W'],
];

struct Scene {
    scratch: Scratch,
    gate: Gate,
    certificates: Vec<Certificates>,
    policy: String,
    _upstream: Server,
}

impl Scene {
    fn new() -> Self {
        let scratch = Scratch::new();
        let certificates = Certificates::of_clients(&scratch, &CALLERS[..4]);
        let folder = scratch.join("files");
        std::fs::create_dir_all(&folder).expect("a folder in scratch");
        for name in ["db-log", "other", "secret"] {
            std::fs::write(folder.join(name), vec![0; 1 << 20]).expect("a file in scratch");
        }
        let source = ["file".to_owned(), format!("dir={}", text(&folder))];
        let upstream =
            Server::nbdkit(&scratch, Wire::Plain, &source.each_ref().map(String::as_str));
        let ports = [free_port(), free_port()];
        let policy = policy(&scratch, ports, &upstream.target);
        let gate = Gate::start_with_ports(&scratch, &policy, &ports);
        Self { scratch, gate, certificates, policy, _upstream: upstream }
    }

    fn target(&self, caller: usize, export: &str) -> Target {
        let [secure, half] = [1, 2].map(|index| self.gate.addresses[index].clone());
        let (address, certificates) = match CALLERS[caller] {
            "guest" => (half, None),
            "local" => (Address::Unix(self.gate.socket()), None),
            _ => (secure, Some(self.certificates[caller].clone())),
        };
        Target { address, export: export.to_owned(), certificates }
    }

    /// What a caller may do with an export, as nbdinfo finds it.
    fn may(&self, caller: usize, export: &str) -> char {
        let uri = self.target(caller, export).uri();
        let mut command = Command::new("nbdinfo");
        let output = command.args(["--is", "read-only", &uri]).output().expect("nbdinfo runs");
        match output.status.code() {
            Some(0) => 'R',
            Some(2) => 'W',
            _ => '-',
        }
    }

    fn assert_matrix(&self, expected: &Matrix) {
        let found: Vec<Vec<char>> = (0..CALLERS.len())
            .map(|caller| EXPORTS.iter().map(|export| self.may(caller, export)).collect())
            .collect();
        assert!(found == expected.map(Vec::from), "found {found:#?}");
        for (caller, may) in expected.iter().enumerate() {
            let listed = list(&self.scratch, &self.target(caller, ""));
            for (export, may) in EXPORTS.iter().zip(may) {
                let is_listed = listed.iter().any(|one| one == export);
                assert_eq!(is_listed, *may != '-', "{} and {export}: {listed:?}", CALLERS[caller]);
            }
        }
    }

    /// A client without a certificate on the listener where TLS may be left out.
    fn guest(&self, export: &str) -> Client {
        Client::open(&self.target(4, export))
    }
}

fn policy(scratch: &Scratch, ports: [u16; 2], upstream: &Target) -> String {
    let mut policy = String::new();
    for (name, port, required) in [("secure", ports[0], true), ("half", ports[1], false)] {
        let file = |name: &str| text(&scratch.join("certificates").join(name));
        let _ = write!(
            policy,
            "[[listener]]\nname = \"{name}\"\naddress = \"127.0.0.1:{port}\"\n\
             tls = {{ certificate = \"{}\", key = \"{}\", client_authority = \"{}\", \
             required = {required} }}\n",
            file("server-cert.pem"),
            file("server-key.pem"),
            file("ca-cert.pem"),
        );
    }
    let _ = write!(
        policy,
        "[[backend]]\nname = \"memory\"\nmemory = true\n\
         [[backend]]\nname = \"array\"\nupstream = \"{}\"\npassthrough = true\n# array\n",
        upstream.server_uri()
    );
    for (export, more) in [
        ("db-main", "# db-main"),
        ("free", ""),
        ("listed", "allow = [\"evil\", \"default\"]"),
        ("shared", "allow = [\"default\"]"),
        ("closed", "allow = []"),
    ] {
        let _ = write!(
            policy,
            "[[export]]\nname = \"{export}\"\nbackend = \"memory\"\nsize = \"1 MiB\"\n{more}\n"
        );
    }
    policy
        + "[[export]]\nname = \"db-vault\"\nbackend = \"array\"\nsource = \"secret\"\n\
           [[tenant]]\nname = \"db\"\nmatch = [{ tls_name = \"db\" }, { export = \"db-*\" }]\n\
           [[tenant]]\nname = \"evil\"\nmatch = { tls_name = \"evil\" }\n# evil\n\
           [[tenant]]\nname = \"reader\"\nmatch = { tls_name = \"reader\" }\nread_only = true\n\
           [[tenant]]\nname = \"guest\"\nmatch = { listener = \"half\" }\n"
}

#[test]
fn exports_are_opened_by_those_whom_the_policy_lets_and_not_there_for_others() {
    needs!("nbdinfo", "nbdkit");
    let scene = Scene::new();
    scene.assert_matrix(&AT_FIRST);
    let status = scene.gate.status();
    assert!(status["connections"]["refused_opens"].as_u64().is_some_and(|count| count > 10));
    let changed = scene
        .policy
        .replace("# db-main", "allow = [\"evil\"]")
        .replace("# evil", "read_only = true")
        .replace("# array", "allow = [\"db\"]");
    let (status, output) = scene.gate.reload(&changed);
    assert!(status.success(), "{output}");
    scene.assert_matrix(&AFTER_RELOAD);
    let (status, output) = scene.gate.reload(&scene.policy);
    assert!(status.success(), "{output}");
    scene.assert_matrix(&AT_FIRST);
}

#[test]
fn what_is_forbidden_is_answered_like_what_is_not_there() {
    needs!("nbdkit");
    let scene = Scene::new();
    for option in [INFO, GO, LIST_META_CONTEXT] {
        let answers = ["closed", "db-main", "db-log", "nothing"].map(|export| {
            let mut client = Client::greet(&scene.target(4, "").address);
            client.option(STRUCTURED_REPLY, &[]);
            client.option_reply();
            let mut data = go_data(export);
            if option == LIST_META_CONTEXT {
                data.truncate(4 + export.len());
                data.extend(0u32.to_be_bytes());
            }
            client.option(option, &data);
            let reply = client.option_reply();
            (reply.kind, String::from_utf8_lossy(&reply.data).replace(export, "NAME"))
        });
        assert!(answers.iter().all(|answer| *answer == answers[3]), "{option}: {answers:?}");
    }
}

#[test]
fn a_reload_cuts_those_who_lose_an_export_and_leaves_the_others() {
    needs!("nbdkit");
    let scene = Scene::new();
    let mut lost = scene.guest("listed");
    let mut kept = scene.guest("shared");
    let mut local = Client::open(&scene.gate.plain("listed"));
    lost.write(0, &[1; 512]).expect("served");
    let allowed = "allow = [\"evil\", \"default\"]";
    assert!(scene.policy.contains(allowed));
    let (status, output) = scene.gate.reload(&scene.policy.replace(allowed, "allow = [\"evil\"]"));
    assert!(status.success(), "{output}");
    assert!(lost.is_hung_up(), "it lost its export");
    kept.write(0, &[1; 512]).expect("its export is not concerned");
    local.write(0, &[1; 512]).expect("its listener is not protected");
    // Who may only read from now on has to come again, to be told so.
    let reads_only = "[[tenant]]\nname = \"default\"\nread_only = true\n";
    let (status, output) = scene.gate.reload(&format!("{}{reads_only}", scene.policy));
    assert!(status.success(), "{output}");
    assert!(kept.is_hung_up(), "it was told that it may write");
    let mut again = scene.guest("shared");
    assert!(again.read(0, 512).is_ok());
    assert!(again.write(0, &[1; 512]).is_err());
}

#[test]
fn a_listener_that_comes_to_ask_for_certificates_cuts_those_who_came_without() {
    needs!("nbdkit");
    let scene = Scene::new();
    let authority = format!(
        "client_authority = \"{}\", ",
        text(&scene.scratch.join("certificates/ca-cert.pem"))
    );
    // That of the second listener.
    let at = scene.policy.rfind(&authority).expect("both ask");
    let mut open = scene.policy.clone();
    open.replace_range(at..at + authority.len(), "");
    let (status, output) = scene.gate.reload(&open);
    assert!(status.success(), "{output}");
    let mut early = scene.guest("free");
    early.write(0, &[1; 512]).expect("served");
    let (status, output) = scene.gate.reload(&scene.policy);
    assert!(status.success(), "{output}");
    assert!(early.is_hung_up(), "it has shown no certificate");
}
