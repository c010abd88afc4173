//! The doors before peers that mean no good, on real sockets. A router of nothing but waiting
//! stands for a gate that does not answer.

use std::time::Instant;

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::*;

const HALF: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nx-slow: ";

/// Far below what a peer that is in the way could delay, far above what an answer takes.
const AT_ONCE: Duration = Duration::from_secs(2);

async fn door() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new()
        .route(HEALTH_PATH, get(|| async { "ok" }))
        .route("/metrics", get(|| async { "some" }))
        .route("/hang", get(std::future::pending::<()>));
    tokio::spawn(serve_public(listener, router));
    port
}

/// A connection from one of this machine's own addresses.
async fn connect(port: u16, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(([127, 0, 0, 1], port).into()).await.unwrap()
}

async fn send(port: u16, from: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(port, from).await;
    stream.write_all(bytes).await.unwrap();
    stream
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

async fn ask(port: u16, from: &str, path: &str) -> String {
    let mut stream = send(port, from, request(path).as_bytes()).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn assert_answers_at_once(port: u16, from: &str) {
    for path in [HEALTH_PATH, "/metrics"] {
        let answer = timeout(AT_ONCE, ask(port, from, path)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{path} from {from} is delayed"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{path} from {from}: {answer}");
    }
}

/// How many of these the door has not closed.
fn open(streams: &[TcpStream]) -> usize {
    let is_open = |stream: &&TcpStream| {
        let read = stream.try_read(&mut [0; 64]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    streams.iter().filter(is_open).count()
}

#[tokio::test]
async fn half_requests_delay_nobody_and_are_no_more_than_an_address_may_have() {
    let port = door().await;
    let neighbour = send(port, "127.0.0.2", HALF).await;
    let mut halves = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        halves.push(send(port, "127.0.0.1", HALF).await);
    }
    assert_answers_at_once(port, "127.0.0.1").await;
    assert_answers_at_once(port, "127.0.0.3").await;
    assert!(open(&halves) < CONNECTIONS_PER_ADDRESS_MAX, "{} are open", open(&halves));
    assert_eq!(open(&[neighbour]), 1, "another address has made room");
}

#[tokio::test]
async fn half_requests_from_many_addresses_delay_nobody() {
    let port = door().await;
    let mut halves = Vec::new();
    for from in 10..10 + 2 * CONNECTIONS_MAX {
        halves.push(send(port, &format!("127.0.1.{from}"), HALF).await);
    }
    assert_answers_at_once(port, "127.0.0.1").await;
    assert!(open(&halves) < CONNECTIONS_MAX);
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_cut_off() {
    let port = door().await;
    let mut stream = send(port, "127.0.0.1", HALF).await;
    let begun = Instant::now();
    while begun.elapsed() < 2 * HEAD_TIME_MAX && open(std::slice::from_ref(&stream)) == 1 {
        let _ = stream.write_all(b"x").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = begun.elapsed();
    assert!(took < HEAD_TIME_MAX + 2 * AT_ONCE, "it was open for {took:?}");
}

#[tokio::test]
async fn a_head_has_a_bound() {
    let port = door().await;
    let mut stream = send(port, "127.0.0.1", HALF).await;
    let _ = stream.write_all(&vec![b'x'; 2 * HEAD_BYTES_MAX]).await;
    let mut answer = Vec::new();
    let _ = timeout(AT_ONCE, stream.read_to_end(&mut answer)).await.expect("it is answered");
    assert!(answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn health_is_answered_while_nothing_else_is_and_the_rest_hears_why() {
    let port = door().await;
    let mut hanging = Vec::new();
    for index in 0..4 * CONNECTIONS_PER_ADDRESS_MAX {
        let from = format!("127.0.0.{}", 10 + index / CONNECTIONS_PER_ADDRESS_MAX);
        hanging.push(send(port, &from, request("/hang").as_bytes()).await);
    }
    for from in ["127.0.0.1", "127.0.0.10"] {
        let health = timeout(AT_ONCE, ask(port, from, HEALTH_PATH)).await;
        assert!(health.expect("in time").ends_with("ok"), "{from}");
    }
    let refused = timeout(TURN_TIME_MAX + 2 * AT_ONCE, ask(port, "127.0.0.1", "/metrics")).await;
    let refused = refused.expect("in time");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("ask again"), "{refused}");
    // Whoever has a turn hears the same, and the turn is free again.
    let mut first = String::new();
    let answer = timeout(ANSWER_TIME_MAX, hanging[0].read_to_string(&mut first)).await;
    answer.expect("in time").expect("an answer");
    assert!(first.starts_with("HTTP/1.1 503"), "{first}");
}

#[tokio::test]
async fn a_body_that_does_not_come_holds_nothing_up() {
    let port = door().await;
    let head = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nx";
    let mut stream = send(port, "127.0.0.1", head).await;
    let mut answer = String::new();
    let closed = timeout(HEAD_TIME_MAX + AT_ONCE, stream.read_to_string(&mut answer)).await;
    closed.expect("it is closed").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
