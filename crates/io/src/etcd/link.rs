//! The connection to etcd: made with patience that ends, and made again.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};

/// A request that takes longer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// How soon a server that has vanished is noticed. etcd takes more pings than one in five seconds
/// for an attack.
const PING_EVERY: Duration = Duration::from_secs(6);

/// Between two tries: doubled from the first of these to the second.
const RETRY_AFTER: Duration = Duration::from_millis(200);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// A client of one of these servers, `http://host:port` each. It connects with the first request.
pub(super) async fn connect(servers: &[String]) -> Result<Client, String> {
    let options = ConnectOptions::new()
        .with_connect_timeout(ANSWER_WITHIN)
        .with_keep_alive(PING_EVERY, ANSWER_WITHIN)
        .with_require_leader(true);
    within(Client::connect(servers, Some(options))).await
}

/// The answer, if it comes in time.
pub(super) async fn within<T, E: Display>(
    request: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(ANSWER_WITHIN, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", ANSWER_WITHIN.as_secs())),
    }
}

/// How long to wait after each failure, one after the other.
#[derive(Debug, Default)]
pub(super) struct Retry(u32);

impl Retry {
    /// It worked: the next failure is the first.
    pub(super) fn worked(&mut self) {
        self.0 = 0;
    }

    /// It failed: wait as long as this.
    pub(super) fn failed(&mut self) -> Duration {
        let wait = RETRY_AFTER_MAX.min(RETRY_AFTER * (1 << self.0.min(16)));
        self.0 += 1;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_get_rarer_until_one_works() {
        let mut retry = Retry::default();
        let waits: Vec<u128> = (0..7).map(|_| retry.failed().as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        retry.worked();
        assert_eq!(retry.failed().as_millis(), 200);
    }
}
