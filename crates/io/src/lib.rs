//! Ring 2: the real machine.

pub mod gate;
pub mod buffer;
pub mod clock;
mod device;
mod drive;
mod outbox;
mod transport;
