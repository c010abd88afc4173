//! Serves a router on a listener with bounds: so many connections at once, so long for a request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

/// Connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// The longest time for the head of a request to come, and for a connection to be idle.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// The longest life of a connection; clients open another.
const LIFE_MAX: Duration = Duration::from_mins(15);

/// Serves until it is dropped.
pub async fn serve<L: Listener>(mut listener: L, router: Router) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("it is never closed");
        let (stream, _) = listener.accept().await;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME_MAX)
                .serve_connection(TokioIo::new(stream), service);
            // A peer that breaks off or breaks the protocol ends its connection and nothing else.
            let _ = tokio::time::timeout(LIFE_MAX, connection).await;
            drop(permit);
        });
    }
}
