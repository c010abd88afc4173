//! Ceph's RADOS, through the library of its clients, `librados.so.2`.
//!
//! The library is loaded when a cluster is first connected to. Nothing of Ceph is needed to build
//! or to run without it, and where it is missing the error names the package.
//!
//! ```text
//! task on a worker                       librados                        cluster
//!   pool.read(name, ..) --aio_read--> its own threads --messages--> OSDs of the object
//!        ^                                  |
//!        +----- oneshot <---- completion ---+     wakes the worker, blocks neither
//! ```
//!
//! [`Cluster::connect`], its commands, and who has a [lock](Pool::locker) wait for the cluster and
//! belong `aside`, on threads of their own; locks and what moves data are asynchronous. Each
//! asynchronous call owns its memory until the library is done with it, whether or not somebody
//! still waits.
//!
//! Unsafe code stands in `library` (what the functions are), `cluster`, `pool` and `call`.

mod aside;
mod call;
mod cluster;
mod error;
mod library;
mod lock;
mod pool;
mod status;

pub(crate) use aside::aside;
pub use cluster::{Access, Cluster, Whom};
pub use error::RadosError;
pub use lock::{Locker, Term};
pub use pool::Pool;
pub use status::{GroupStatus, OsdStatus, OsdUse, PoolFull, PoolStatus, osd_uses};
