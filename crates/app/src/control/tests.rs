//! The control plane before a real gate with a backend in memory.

use evenkeel_io::gate::{DriveKind, Gate, Options};
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
            state: None,
        };
        let gate = Gate::start(policy, &options).unwrap();
        let control = Control::new(gate.handle(), file, None);
        let client = Client::new(folder.path().join("control.sock"));
        Self { folder, gate, control, client }
    }

    /// Runs `work` while the control plane is served.
    fn run(self, work: impl AsyncFnOnce(&Self)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = ControlSocket::bind(&self.folder.path().join("control.sock")).unwrap();
            let router = operator(Arc::clone(&self.control));
            tokio::spawn(serve(socket.listener().unwrap(), router));
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
        tokio::spawn(serve(listener, public(Arc::clone(&bench.control))));
        let ask = async |head: &str| {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let request = format!("{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        assert!(ask("GET /healthz").await.ends_with("ok\n"));
        assert!(ask("GET /metrics").await.contains("evenkeel_backend_up{backend=\"ram\"} 1\n"));
        assert!(ask("GET /v1/status").await.starts_with("HTTP/1.1 200"));
        for forbidden in ["POST /v1/reload", "PUT /v1/mode", "GET /v1/policy"] {
            assert!(ask(forbidden).await.starts_with("HTTP/1.1 404"), "{forbidden}");
        }
        assert!(ask("POST /v1/status").await.starts_with("HTTP/1.1 405"));
    });
}
