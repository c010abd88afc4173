//! The control plane before a real gate with a backend in memory.

use evenkeel_io::gate::{DriveKind, Gate, Options};
use evenkeel_io::record::Flight;
use evenkeel_trace::codec::decode_all;
use evenkeel_trace::format::native::NativeDecoder;
use hyper::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::socket::ControlSocket;
use super::*;
use crate::emulate;
use crate::exit::Exit;
use crate::status::Status;

const POLICY: &str = "mode = \"observe\"\nlisten = [\"unix:nbd.sock\"]\n\
    [[backend]]\nname = \"ram\"\nmemory = true\n\
    [[export]]\nname = \"a\"\nsize = \"1 MiB\"\n\
    [[tenant]]\nname = \"t\"\nmatch = { export = \"a\" }\nshare = 2\n";

/// A gate with its control socket, in a folder of its own.
struct Bench {
    folder: tempfile::TempDir,
    gate: Gate,
    control: Arc<Control>,
    client: Client,
}

impl Bench {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.toml");
        std::fs::write(&file, POLICY).unwrap();
        let policy = config::load_valid(&file).unwrap();
        let options = Options {
            cores: 1,
            drive: DriveKind::Threads,
            drive_models: emulate::model,
            recorder: None,
            flight: Some(Flight::start(config::recorded).unwrap()),
            state: None,
        };
        let gate = Gate::start(policy, &options).unwrap();
        let control = Control::new(gate.handle(), file, None);
        let client = Client::at(folder.path().join("control.sock"));
        Self { folder, gate, control, client }
    }

    /// Runs `work` while the control plane is served.
    fn run(self, work: impl AsyncFnOnce(&Self)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = ControlSocket::bind(&self.folder.path().join("control.sock")).unwrap();
            let router = operator(Arc::clone(&self.control));
            tokio::spawn(serve_operator(socket.listener().unwrap(), router));
            work(&self).await;
        });
        drop(runtime);
        self.gate.stop(evenkeel_core::time::Span::ZERO);
    }

    fn write(&self, policy: &str) {
        std::fs::write(self.folder.path().join("policy.toml"), policy).unwrap();
    }

    async fn put(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.client.ask(Method::PUT, path, Some(&body)).await
    }

    async fn reload(&self) -> anyhow::Result<Value> {
        self.client.ask(Method::POST, "/v1/reload", None).await
    }
}

#[test]
fn a_change_holds_until_the_file_is_loaded_again() {
    Bench::start().run(async |bench| {
        bench.put("/v1/mode", json!({ "mode": "enforce" })).await.unwrap();
        bench.put("/v1/tenants/t", json!({ "share": 0.5, "limit": ["5 iops"] })).await.unwrap();
        bench.put("/v1/exports/b%20c", json!({ "size": "2 MiB" })).await.unwrap();
        let text = bench.client.text("/v1/policy").await.unwrap();
        let changed = config::parse(&text, "in force").unwrap();
        assert_eq!(changed.mode, Mode::Enforce);
        assert_eq!(changed.tenants[0].share.weight_milli, 500);
        assert_eq!(changed.exports[1].name, "b c");

        bench.reload().await.unwrap();
        let text = bench.client.text("/v1/policy").await.unwrap();
        let restored = config::parse(&text, "in force").unwrap();
        assert_eq!(restored.exports.len(), 1);
        assert_eq!((restored.mode, restored.tenants[0].share.weight_milli), (Mode::Observe, 2000));
    });
}

async fn share_in_force(bench: &Bench) -> u32 {
    let text = bench.client.text("/v1/policy").await.unwrap();
    config::parse(&text, "in force").unwrap().tenants[0].share.weight_milli
}

fn trial(share: u32, seconds: f64) -> Value {
    let text = POLICY.replace("share = 2", &format!("share = {share}"));
    json!({ "text": text, "name": "new.toml", "confirm_within_seconds": seconds })
}

#[test]
fn a_policy_on_trial_is_gone_unless_it_is_confirmed() {
    Bench::start().run(async |bench| {
        let file = bench.folder.path().join("policy.toml");
        bench.put("/v1/policy", trial(7, 1.0)).await.unwrap();
        assert_eq!(share_in_force(bench).await, 7000);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), POLICY, "it is written nowhere");
        let status: Status = bench.client.get("/v1/status").await.unwrap();
        assert!(status.trial_left_seconds.is_some_and(|left| left <= 1.0));
        let error = bench.put("/v1/mode", json!({ "mode": "shadow" })).await.unwrap_err();
        assert!(error.to_string().contains("on trial"), "{error}");
        for _ in 0..100 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            if share_in_force(bench).await == 2000 {
                break;
            }
        }
        assert_eq!(share_in_force(bench).await, 2000, "the one before is back");
        let confirm = async || bench.client.ask(Method::POST, "/v1/policy/confirm", None).await;
        assert!(confirm().await.is_err(), "there is nothing left to confirm");

        bench.put("/v1/policy", trial(8, 60.0)).await.unwrap();
        confirm().await.unwrap();
        assert!(std::fs::read_to_string(&file).unwrap().contains("share = 8"));
        let former = bench.folder.path().join("policy.toml.before");
        assert_eq!(std::fs::read_to_string(former).unwrap(), POLICY);
        bench.reload().await.unwrap();
        assert_eq!(share_in_force(bench).await, 8000);
    });
}

#[test]
fn a_trial_is_ended_by_hand_or_by_a_reload_and_a_bad_policy_begins_none() {
    Bench::start().run(async |bench| {
        bench.put("/v1/policy", trial(7, 60.0)).await.unwrap();
        assert!(bench.put("/v1/policy", trial(9, 60.0)).await.is_err(), "one at a time");
        bench.client.ask(Method::POST, "/v1/policy/revert", None).await.unwrap();
        assert_eq!(share_in_force(bench).await, 2000);
        bench.put("/v1/policy", trial(7, 60.0)).await.unwrap();
        bench.reload().await.unwrap();
        assert_eq!(share_in_force(bench).await, 2000);
        bench.put("/v1/mode", json!({ "mode": "shadow" })).await.unwrap();
        for (body, what) in [
            (json!({ "text": "nonsense", "name": "n", "confirm_within_seconds": 9 }), "n:1"),
            (trial(7, 0.0), "1 to 3600"),
            (trial(7, 1e9), "1 to 3600"),
        ] {
            let error = bench.put("/v1/policy", body).await.unwrap_err();
            assert!(error.to_string().contains(what), "{what}: {error}");
        }
        assert_eq!(share_in_force(bench).await, 2000);
    });
}

#[test]
fn a_temporary_policy_cannot_be_confirmed() {
    Bench::start().run(async |bench| {
        let mut body = trial(7, 60.0);
        body["temporary"] = json!(true);
        bench.put("/v1/policy", body).await.unwrap();
        assert_eq!(share_in_force(bench).await, 7000);
        let confirmed = bench.client.ask(Method::POST, "/v1/policy/confirm", None).await;
        let said = confirmed.unwrap_err().to_string();
        assert!(said.contains("for its time alone"), "{said}");
        let file = std::fs::read_to_string(bench.folder.path().join("policy.toml")).unwrap();
        assert_eq!(file, POLICY, "it is written nowhere");
        bench.client.ask(Method::POST, "/v1/policy/revert", None).await.unwrap();
        assert_eq!(share_in_force(bench).await, 2000);
    });
}

#[test]
fn what_was_changed_by_hand_can_be_saved() {
    Bench::start().run(async |bench| {
        let answer = bench.put("/v1/tenants/t", json!({ "share": 0.5 })).await.unwrap();
        assert!(answer["summary"].as_str().unwrap().contains("evenkeel ctl save"), "{answer}");
        bench.client.ask(Method::POST, "/v1/policy/save", None).await.unwrap();
        bench.reload().await.unwrap();
        assert_eq!(share_in_force(bench).await, 500);
    });
}

#[test]
fn a_bad_file_is_refused_with_its_line_and_the_old_policy_stays() {
    Bench::start().run(async |bench| {
        bench.write(&POLICY.replace("share = 2", "shrae = 2"));
        let error = bench.reload().await.unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Invalid);
        let message = error.to_string();
        assert!(message.contains("policy.toml:12:1") && message.contains("`share`"), "{message}");
        let status: Status = bench.client.get("/v1/status").await.unwrap();
        assert_eq!(status.domains[0].name, "ram");
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    Bench::start().run(async |bench| {
        let cases = [
            ("/v1/mode", json!({ "mode": "enfroce" }), "enfroce"),
            ("/v1/tenants/t", json!({ "shrae": 1 }), "shrae"),
            ("/v1/tenants/t", json!({ "share": 0 }), "up to three decimals"),
            ("/v1/tenants/t", json!({ "limit": ["fast"] }), "200 MiB/s"),
            ("/v1/exports/x", json!({ "backend": "nowhere", "size": "1 MiB" }), "nowhere"),
            ("/v1/nothing", json!({}), "no such path"),
        ];
        let before = bench.client.text("/v1/policy").await.unwrap();
        for (path, body, expected) in cases {
            let error = bench.put(path, body).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{path}: {error}");
        }
        let gone = bench.client.ask(Method::DELETE, "/v1/exports/x", None).await.unwrap_err();
        assert!(gone.to_string().contains("no export `x`"), "{gone}");
        assert_eq!(bench.client.text("/v1/policy").await.unwrap(), before);
    });
}

#[test]
fn a_word_is_taken_only_by_a_volume_that_waits_for_one() {
    Bench::start().run(async |bench| {
        for no_volume in ["ram", "nowhere"] {
            let path = format!("/v1/claims/{no_volume}");
            let refused = bench.client.ask(Method::POST, &path, None).await.unwrap_err();
            assert_eq!(Exit::of(&refused), Exit::Runtime);
            assert!(refused.to_string().contains("there is no volume"), "{refused}");
        }
    });
}

#[test]
fn a_body_has_a_bound() {
    Bench::start().run(async |bench| {
        let body = json!({ "limit": [" ".repeat(100 << 10)] });
        let error = bench.put("/v1/tenants/t", body).await.unwrap_err().to_string();
        assert!(error.contains("length limit"), "{error}");
    });
}

#[test]
fn the_public_side_reads_and_changes_nothing() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    Bench::start().run(async |bench| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_public(listener, public(Arc::clone(&bench.control))));
        let ask = async |head: &str| {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let request =
                format!("{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        assert!(ask("GET /healthz").await.ends_with("ok\n"));
        assert!(ask("GET /metrics").await.contains("evenkeel_backend_up{backend=\"ram\"} 1\n"));
        assert!(ask("GET /v1/status").await.starts_with("HTTP/1.1 200"));
        for forbidden in ["POST /v1/reload", "PUT /v1/mode", "GET /v1/policy", "GET /v1/recording"]
        {
            assert!(ask(forbidden).await.starts_with("HTTP/1.1 404"), "{forbidden}");
        }
        assert!(ask("POST /v1/status").await.starts_with("HTTP/1.1 405"));
    });
}

#[test]
fn the_operator_may_have_the_requests_of_the_last_minutes() {
    Bench::start().run(async |bench| {
        let mut decoder = NativeDecoder::new();
        let trace = bench.client.recording().await.unwrap();
        // Nobody has asked for anything yet; the policy comes with the writer's first round.
        let (records, defects) = decode_all(&mut decoder, &trace);
        assert_eq!((records, defects), (Vec::new(), Vec::new()));
    });
}

/// The whole answer to bytes on the control socket.
async fn raw(bench: &Bench, bytes: &[u8]) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let socket = bench.folder.path().join("control.sock");
    let mut stream = tokio::net::UnixStream::connect(socket).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn send(bench: &Bench, line: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nhost: gate\r\nconnection: close\r\n{headers}");
    raw(bench, format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes()).await
}

#[test]
fn a_list_where_an_object_is_meant_changes_nothing() {
    Bench::start().run(async |bench| {
        let before = bench.client.text("/v1/policy").await.unwrap();
        for (method, path, body) in [
            (Method::PUT, "/v1/tenants/new", json!([])),
            (Method::PUT, "/v1/tenants/t", json!([0.5])),
            (Method::PUT, "/v1/exports/new", json!(["ram", null, null, "1 MiB"])),
            (Method::PUT, "/v1/mode", json!(["enforce"])),
            (Method::POST, "/v1/volumes", json!([])),
            (Method::POST, "/v1/scrub", json!([])),
            (Method::POST, "/v1/reload", json!([])),
            (Method::POST, "/v1/claims/ram", json!([])),
            (Method::DELETE, "/v1/tenants/t", json!([])),
        ] {
            let error = bench.client.ask(method, path, Some(&body)).await.unwrap_err().to_string();
            let names_it = error.contains("JSON object") || error.contains("takes no body");
            assert!(names_it, "{path}: {error}");
        }
        assert_eq!(bench.client.text("/v1/policy").await.unwrap(), before);
    });
}

#[test]
fn what_is_not_said_to_be_json_is_not_taken() {
    Bench::start().run(async |bench| {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            let header = format!("content-type: {kind}\r\n");
            for (line, body) in [
                ("PUT /v1/mode", "{\"mode\": \"enforce\"}"),
                ("POST /v1/reload", ""),
                ("POST /v1/reload", "{}"),
                ("POST /v1/claims/ram", ""),
                ("DELETE /v1/tenants/t", ""),
            ] {
                let answer = send(bench, line, &header, body).await;
                assert!(answer.starts_with("HTTP/1.1 415"), "{line} as {kind}: {answer}");
                assert!(answer.contains("application/json"), "{answer}");
            }
        }
        let json = "content-type: application/json\r\n";
        for (headers, body, status) in [("", "", 200), (json, "", 200), (json, " {} ", 200)] {
            let answer = send(bench, "POST /v1/reload", headers, body).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{body}: {answer}");
        }
        let answer = send(bench, "POST /v1/reload", "", "{}").await;
        assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
    });
}

#[test]
fn no_web_page_may_use_the_control_socket() {
    Bench::start().run(async |bench| {
        for page in ["http://evil.example", "http://gate", "null"] {
            let header = format!("origin: {page}\r\n");
            for line in ["POST /v1/reload", "GET /v1/policy", "GET /v1/nothing"] {
                let answer = send(bench, line, &header, "").await;
                assert!(answer.starts_with("HTTP/1.1 403"), "{line} from {page}: {answer}");
            }
        }
    });
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    Bench::start().run(async |bench| {
        for line in ["PUT /v1/mode", "POST /v1/reload"] {
            let request = format!(
                "{line} HTTP/1.1\r\nhost: gate\r\nconnection: close\r\ncontent-length: 100\r\n\
                 content-type: application/json\r\n\r\n{{"
            );
            let answered = raw(bench, request.as_bytes());
            let answer = tokio::time::timeout(std::time::Duration::from_secs(8), answered).await;
            let answer = answer.expect("it is given up");
            assert!(answer.starts_with("HTTP/1.1 408"), "{line}: {answer}");
        }
    });
}
