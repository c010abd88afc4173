//! Integration tests of the wire crate: whole handshakes, friendly and hostile.

mod client;
mod exchange;
mod harness;
mod hostile_client;
mod hostile_server;
mod pair;
mod proof;
mod server;
mod service;
