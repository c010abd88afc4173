//! Who may ask: requests that a web page made some browser send are refused.
//!
//! ```text
//! Host: 127.0.0.1:9809, [::1], localhost      answered: nobody rebinds those
//! Host: gate.example                          answered if `[metrics] hosts` lists it
//! Host: evil.example                          421: its owner has it point at this machine
//! Origin: http://gate.example                 answered if it is listed, or is the Host itself
//! Origin: http://evil.example, null           403
//! ```
//!
//! Monitors and command lines send no `Origin`; browsers send it with whatever a page may read
//! from elsewhere, and with every change.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel_wire::http::{Authority, Host, Origin};
use evenkeel_wire::nbd::text::Escaped;
use tokio::time::Instant;

use super::Control;
use super::refusal::Refusal;
use crate::config::metrics::OWN_NAME;

/// Between two lines of the log about requests that were refused.
const LOG_PAUSE: Duration = Duration::from_mins(1);

/// Tells browsers that no other site may have the answer, not even to embed it.
const KEEP_TO_SITE: [(&str, &str); 2] =
    [("cross-origin-resource-policy", "same-origin"), ("x-content-type-options", "nosniff")];

/// Looks at the requests of a port that anyone may connect to.
#[derive(Debug)]
pub(super) struct Visitors {
    control: Arc<Control>,
    logged: Mutex<Option<Instant>>,
}

impl Visitors {
    pub(super) fn new(control: Arc<Control>) -> Arc<Self> {
        Arc::new(Self { control, logged: Mutex::new(None) })
    }

    /// Whether it is time for a line in the log.
    fn may_log(&self) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = logged.is_none_or(|last| last.elapsed() >= LOG_PAUSE);
        if is_time {
            *logged = Some(Instant::now());
        }
        is_time
    }
}

/// Answers requests that may be answered.
pub(super) async fn check(
    State(visitors): State<Arc<Visitors>>,
    request: Request,
    next: Next,
) -> Response {
    let looked = visitors.control.gate().with_policy(|policy| {
        look(&request, |host| policy.metrics.hosts.iter().any(|name| host.is(Host::Name(name))))
    });
    let mut response = match looked {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            if visitors.may_log() {
                let why = refusal.message();
                tracing::warn!(why, "request for metrics or status refused; others may follow");
            }
            refusal.into_response()
        }
    };
    for (name, value) in KEEP_TO_SITE {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}

/// Refuses every web page: nobody looks at the control socket with a browser.
pub(super) async fn refuse_pages(request: Request, next: Next) -> Response {
    if request.headers().contains_key(ORIGIN) {
        let message = "this is the operator's socket: requests of web pages (`Origin`) are refused";
        return Refusal::new(StatusCode::FORBIDDEN, message).into_response();
    }
    next.run(request).await
}

/// Looks at what a request says of where it goes and comes from.
fn look(request: &Request, is_listed: impl Fn(Host<'_>) -> bool) -> Result<(), Refusal> {
    let headers = request.headers();
    let misdirected = |text: &[u8]| {
        let text = Escaped(text);
        let message = format!(
            "this gate does not answer for the host \"{text}\": ask by address or as `localhost`, \
             or list the name in the policy, as `hosts` in `[metrics]`"
        );
        Refusal::new(StatusCode::MISDIRECTED_REQUEST, message)
    };
    let is_ours =
        |host: Host<'_>| matches!(host, Host::Address(_)) || host.is(OWN_NAME) || is_listed(host);
    let server = |text: &[u8]| match Authority::parse(text) {
        Some(server) if is_ours(server.host) => Ok(()),
        _ => Err(misdirected(text)),
    };
    // A request to a proxy has the host in its first line too, and that one counts.
    if let Some(authority) = request.uri().authority() {
        server(authority.as_str().as_bytes())?;
    }
    let host = only(headers, &HOST)?;
    match host {
        Some(host) => server(host)?,
        // Browsers have sent it since before HTTP/1.1; old monitors do not.
        None if request.version() < Version::HTTP_11 => {}
        None => return Err(Refusal::new(StatusCode::BAD_REQUEST, "the request names no `Host`")),
    }
    let Some(page) = only(headers, &ORIGIN)? else { return Ok(()) };
    let server = host.and_then(Authority::parse);
    let may_ask = Origin::parse(page).is_some_and(|origin| {
        is_listed(origin.authority.host) || server.is_some_and(|server| origin.is_of(server))
    });
    if may_ask {
        return Ok(());
    }
    let page = Escaped(page);
    let message = format!(
        "pages of \"{page}\" may not ask this gate; those of hosts that the policy lists, as \
         `hosts` in `[metrics]`, may"
    );
    Err(Refusal::new(StatusCode::FORBIDDEN, message))
}

/// The value of a header that may be there once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(HeaderValue::as_bytes)),
        _ => Err(Refusal::new(StatusCode::BAD_REQUEST, format!("`{name}` stands there twice"))),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    /// The status with which a request is refused.
    fn refused(headers: &[(&str, &str)]) -> Option<u16> {
        refused_at("/metrics", headers)
    }

    fn refused_at(uri: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        let is_listed = |host: Host<'_>| host.is(Host::Name("gate.example"));
        look(&request, is_listed).err().map(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn addresses_and_localhost_are_answered_and_names_if_they_are_listed() {
        for good in [
            "127.0.0.1:9809",
            "10.0.0.5",
            "[::1]:9809",
            "localhost:9809",
            "LOCALHOST",
            "gate.example",
            "Gate.Example.:9809",
        ] {
            assert_eq!(refused(&[("host", good)]), None, "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:9809",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.gate.example",
            "127.0.0.1@evil.example",
            "evil.example#127.0.0.1",
            "127.1",
            "",
            "a b",
            "[::1",
            "gate.example:x",
        ] {
            assert_eq!(refused(&[("host", bad)]), Some(421), "{bad}");
        }
        let twice = [("host", "127.0.0.1"), ("host", "evil.example")];
        assert_eq!(refused(&twice), Some(400));
        assert_eq!(refused(&[]), Some(400));
    }

    #[test]
    fn a_host_in_the_first_line_counts_too() {
        let local = [("host", "127.0.0.1")];
        assert_eq!(refused_at("http://evil.example/metrics", &local), Some(421));
        assert_eq!(refused_at("http://127.0.0.1:9809/metrics", &local), None);
    }

    #[test]
    fn pages_of_other_hosts_may_not_ask() {
        let from = |host, origin| refused(&[("host", host), ("origin", origin)]);
        assert_eq!(from("localhost:9809", "http://localhost:9809"), None);
        assert_eq!(from("127.0.0.1:9809", "https://gate.example"), None);
        for (host, page) in [
            ("127.0.0.1:9809", "http://evil.example"),
            ("localhost:9809", "http://localhost:3000"),
            ("localhost:9809", "http://6.6.6.6"),
            ("localhost:9809", "null"),
            ("localhost:9809", ""),
            ("gate.example", "http://gate.example.evil.example"),
        ] {
            assert_eq!(from(host, page), Some(403), "{page}");
        }
    }
}
