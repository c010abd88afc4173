//! Fetches the page of a host over HTTP.

use std::time::Duration;

use evenkeel_engine::policy::MetricsPage;
use evenkeel_engine::spread::host_page::Sample;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Largest page that is read.
const BYTES_MAX: usize = 4 << 20;
/// The longest wait for one.
const PATIENCE: Duration = Duration::from_secs(4);

/// Fetches a page.
///
/// # Errors
/// In words: nobody is there, or it says something else.
pub(super) async fn sample(page: &MetricsPage) -> Result<Sample, String> {
    let text = tokio::time::timeout(PATIENCE, fetch(page)).await;
    let text = text.map_err(|_| "no answer in time".to_owned())??;
    Sample::read(&text).ok_or_else(|| "its page says nothing of memory".to_owned())
}

async fn fetch(page: &MetricsPage) -> Result<String, String> {
    let told = |error: &dyn std::error::Error| error.to_string();
    let stream = TcpStream::connect(&page.address).await.map_err(|error| told(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| told(&error))?;
    let request = Request::get(&page.path).header(header::HOST, &page.address);
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| told(&error))?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|error| told(&error))?;
        if !answer.status().is_success() {
            return Err(format!("it answers {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    tokio::pin!(exchange, connection);
    // The connection works for as long as the exchange waits.
    tokio::select! {
        text = &mut exchange => text,
        ended = &mut connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(told(&error)),
        },
    }
}
