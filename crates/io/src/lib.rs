//! Ring 2: the real machine. Sockets, drives, threads, and the data path between them.
//!
//! ```text
//! listen -> handshake --hand over--> worker: client task <-> domain <-> device
//!                                                            engine     memory | file | remote
//! ```
//!
//! The only crate with unsafe code, sockets, files and threads. What to do when is decided in
//! `evenkeel-engine`; how bytes are framed, in `evenkeel-wire`.

pub mod admission;
mod alarm;
mod buffer;
pub mod built;
pub mod care;
pub mod child;
mod client;
mod clock;
mod device;
mod domain;
mod drive;
pub mod etcd;
pub mod exchange;
mod fence;
pub mod gate;
mod handshake;
pub mod hosts;
mod known;
mod lease;
mod listen;
pub mod load;
mod memory;
mod op;
mod out_queue;
mod outbox;
mod plan;
pub mod rados;
pub mod record;
mod report;
mod resize;
mod state;
pub mod store;
mod text_file;
mod tls;
mod transport;
mod underway;
mod word;
mod worker;
