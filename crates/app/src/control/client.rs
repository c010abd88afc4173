//! Talks to a gate over its control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;

use super::running;
use crate::exit::Exit;
use crate::terminal;

/// Where gates put their sockets, in the order in which they are looked for.
const USUAL_PLACES: [&str; 2] = ["evenkeel-data/control.sock", "/run/evenkeel/control.sock"];

/// Names the socket where the command line does not.
const VARIABLE: &str = "EVENKEEL_CONTROL";

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A gate, by its control socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    /// Others that may have been meant: nobody said which, and there are several.
    others: Vec<PathBuf>,
}

/// Options of every command that talks to a gate.
#[derive(Clone, Debug, clap::Args)]
pub struct ControlArgs {
    /// The gate's control socket [default: that of the variable `EVENKEEL_CONTROL`, else
    /// ./evenkeel-data/control.sock, else /run/evenkeel/control.sock, else that of the only gate
    /// that this user runs].
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
}

impl ControlArgs {
    /// The gate that is meant.
    pub fn client(&self) -> Client {
        let from_variable = || std::env::var_os(VARIABLE).map(PathBuf::from);
        let usual = || {
            let mut places = USUAL_PLACES.iter().map(PathBuf::from);
            places.find(|place| place.exists())
        };
        match self.control.clone().or_else(from_variable).or_else(usual) {
            Some(socket) => Client::at(socket),
            None => Client::running(running::gates()),
        }
    }
}

impl Client {
    /// The gate whose control socket is at `socket`.
    pub fn at(socket: PathBuf) -> Self {
        Self { socket, others: Vec::new() }
    }

    /// Its control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The only one of these gates.
    fn running(mut gates: Vec<PathBuf>) -> Self {
        if gates.len() != 1 {
            return Self { socket: USUAL_PLACES[0].into(), others: gates };
        }
        let socket = gates.swap_remove(0);
        // Whoever changes something should know of which gate.
        terminal::say(&format!("evenkeel: using the gate at {}", socket.display()));
        Self::at(socket)
    }

    /// Asks for a JSON document.
    ///
    /// # Errors
    /// Nobody there ([`Exit::Unreachable`]), a refusal, or an answer that is not understood.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let body = self.send(Method::GET, path, None).await?;
        serde_json::from_slice(&body)
            .with_context(|| format!("the gate at {} speaks otherwise", self.socket.display()))
    }

    /// Asks for a text.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn text(&self, path: &str) -> anyhow::Result<String> {
        let body = self.send(Method::GET, path, None).await?;
        Ok(String::from_utf8(body.into())?)
    }

    /// Asks for the requests of the last minutes: a whole trace in the native format.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn recording(&self) -> anyhow::Result<Vec<u8>> {
        Ok(self.send(Method::GET, "/v1/recording", None).await?.into())
    }

    /// Asks for a change and gives the answer.
    ///
    /// # Errors
    /// As [`Client::get`]; a policy that is not valid is [`Exit::Invalid`].
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let answer = self.send(method, path, body).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Bytes> {
        let exchange = self.exchange(method, path, body);
        let answered = tokio::time::timeout(PATIENCE, exchange).await;
        let (status, answer) = answered.map_err(|_| {
            let (place, seconds) = (self.socket.display(), PATIENCE.as_secs());
            Exit::Unreachable.because(format!("the gate at {place} did not answer in {seconds} s"))
        })??;
        if status.is_success() { Ok(answer) } else { Err(refusal(status, &answer)) }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| nobody(&self.socket, &self.others, &error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "evenkeel");
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let bytes = body.map(Value::to_string).unwrap_or_default();
        let response = sender.send_request(request.body(Full::<Bytes>::from(bytes))?).await?;
        let status = response.status();
        let limited = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let answer = limited.map_err(|error| anyhow::anyhow!("broken answer: {error}"))?;
        Ok((status, answer.to_bytes()))
    }
}

fn nobody(socket: &Path, others: &[PathBuf], error: &io::Error) -> anyhow::Error {
    if !others.is_empty() {
        let others: Vec<_> = others.iter().map(|one| one.display().to_string()).collect();
        return Exit::Unreachable.because(format!(
            "several gates are running; choose one with `--control PATH`: {}",
            others.join(", ")
        ));
    }
    let place = socket.display();
    let message = match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "may not use the control socket {place}: run this as the user that runs the gate"
        ),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no gate answers at {place}: start one with `evenkeel serve`, or name its socket with \
             `--control PATH`"
        ),
        _ => format!("cannot use the control socket {place}: {error}"),
    };
    Exit::Unreachable.because(message)
}

fn refusal(status: StatusCode, answer: &[u8]) -> anyhow::Error {
    let body: Value = serde_json::from_slice(answer).unwrap_or_default();
    let message = body["error"].as_str().map_or_else(|| status.to_string(), str::to_owned);
    let exit =
        if status == StatusCode::UNPROCESSABLE_ENTITY { Exit::Invalid } else { Exit::Runtime };
    if body.get("findings").is_some() {
        let heading = "the policy would not be valid; the gate keeps the one it has";
        return exit.because(format!("{heading}\n\n{message}"));
    }
    exit.because(message)
}

/// A path segment, with everything escaped that has a meaning in a URI.
pub fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if plain(byte) { text.push(char::from(byte)) } else { text += &format!("%{byte:02X}") }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_segment() {
        assert_eq!(segment("a/../b c?"), "a%2F..%2Fb%20c%3F");
    }

    #[tokio::test]
    async fn nobody_there_is_said_with_the_next_step() {
        let client = Client::at("/nowhere/control.sock".into());
        let error = client.text("/v1/policy").await.unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Unreachable);
        assert!(error.to_string().contains("evenkeel serve"), "{error}");
    }

    #[tokio::test]
    async fn of_several_gates_one_has_to_be_named() {
        let client = Client::running(vec!["/a.sock".into(), "/b.sock".into()]);
        let error = client.text("/v1/policy").await.unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Unreachable);
        assert!(error.to_string().ends_with("`--control PATH`: /a.sock, /b.sock"), "{error}");
    }
}
