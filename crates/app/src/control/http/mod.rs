//! Serves a router on a listener with bounds, so that whoever may connect can delay nobody else.
//!
//! ```text
//! connection --slot--> head, 5 s --turn--> answer --> taken by the peer, 10 s --> next head, 5 s
//!              |                   |
//!              |                   health has turns of its own
//!              at the bound whoever waits longest for a head, or a turn, makes room
//! ```
//!
//! A connection that sends half a request costs a slot, until somebody else needs it.

mod patience;
mod slots;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use evenkeel_io::admission::network_of;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::refusal::Refusal;
use patience::Patient;
use slots::Slots;

/// Where it is asked whether the gate is well.
pub(super) const HEALTH_PATH: &str = "/healthz";

/// Connections at once on one listener.
const CONNECTIONS_MAX: usize = 64;

/// Connections at once from one address over TCP, of which all of a /64 are one.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 16;

/// Requests over TCP that are answered at once. Others wait for their turn.
const TURNS: usize = 8;

/// The longest wait for a turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest time for the head of a request to come, and for a connection to be idle.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest time for an answer over TCP to be made. What the operator asks takes its time.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// The longest time for a peer to take what it is sent, once it is slow with that.
const TAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// The longest life of a connection; clients open another.
const LIFE_MAX: Duration = Duration::from_mins(15);

/// Bytes of the longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Serves the operator until it is dropped.
pub async fn serve_operator(listener: tokio::net::UnixListener, router: Router) {
    let slots = Slots::new(CONNECTIONS_MAX, CONNECTIONS_MAX);
    Door { slots: Mutex::new(slots), router, turns: None }.serve(listener, |_| None).await;
}

/// Serves whoever can connect until it is dropped.
pub async fn serve_public(listener: tokio::net::TcpListener, router: Router) {
    let slots = Slots::new(CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX);
    let turns = Some(Turns { health: Semaphore::new(TURNS), others: Semaphore::new(TURNS) });
    let door = Door { slots: Mutex::new(slots), router, turns };
    door.serve(listener, |address| Some(network_of(address.ip()))).await;
}

/// Who may be answered at once.
struct Turns {
    health: Semaphore,
    others: Semaphore,
}

struct Door {
    slots: Mutex<Slots<AbortHandle>>,
    router: Router,
    turns: Option<Turns>,
}

impl Door {
    async fn serve<L: Listener>(
        self,
        mut listener: L,
        address_of: impl Fn(&L::Addr) -> Option<IpAddr>,
    ) {
        let door = Arc::new(self);
        loop {
            let (stream, address) = listener.accept().await;
            let mut slots = door.slots();
            let Some(room) = slots.admit(address_of(&address)) else {
                // All that are there are being answered. The peer sees an end, and may come again.
                continue;
            };
            if let Some(evicted) = room.evicted {
                evicted.abort();
            }
            let seat = Seat { door: Arc::clone(&door), id: room.id };
            // The slots are held until the task is among them, so that it cannot end before.
            let task = tokio::spawn(seat.serve(Patient::new(stream, TAKE_TIME_MAX)));
            slots.hold(room.id, task.abort_handle());
        }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Slots<AbortHandle>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place among the others; it is free again when this is dropped.
struct Seat {
    door: Arc<Door>,
    id: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.door.slots().leave(self.id);
    }
}

impl Seat {
    async fn serve<S>(self, stream: Patient<S>)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service_fn(|request| self.answer(request)));
        // A peer that breaks off or breaks the protocol ends its connection and nothing else.
        let _ = timeout(LIFE_MAX, connection).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let service = TowerToHyperService::new(self.door.router.clone());
        let Some(turns) = &self.door.turns else {
            let _answering = Answering::begin(self);
            return service.call(request).await;
        };
        let is_health = request.uri().path() == HEALTH_PATH;
        let turns = if is_health { &turns.health } else { &turns.others };
        let Ok(turn) = timeout(TURN_TIME_MAX, turns.acquire()).await else {
            return Ok(unavailable("too many requests are being answered; ask again later"));
        };
        let _turn = turn.expect("turns are never closed");
        let _answering = Answering::begin(self);
        let answered = timeout(ANSWER_TIME_MAX, service.call(request)).await;
        answered.unwrap_or_else(|_| Ok(unavailable("the gate's threads do not answer")))
    }
}

/// While a request is answered, its connection makes room for nobody.
struct Answering<'a>(&'a Seat);

impl<'a> Answering<'a> {
    fn begin(seat: &'a Seat) -> Self {
        seat.door.slots().set_waiting(seat.id, false);
        Self(seat)
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.door.slots().set_waiting(self.0.id, true);
    }
}

fn unavailable(message: &str) -> Response {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

#[cfg(test)]
mod tests;
