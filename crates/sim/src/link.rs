//! A network link: two directions, each a pipe of some rate with a delay, which may lose what it
//! carries and then sends it again.
//!
//! A message waits for those before it, takes `bytes / rate` to leave, and arrives a propagation
//! delay later. A lost one arrives a retransmission delay later still, and whatever follows it
//! waits: the order is that of a byte stream, as over TCP.
//!
//! ```text
//!  sent at 0, 1, 2 ms      |#1#|#2#|#3#|                   leave one after the other
//!                               \   \   \
//!  arrive                        1   lost .. again ->2,3   the third waits for the second
//! ```

use evenkeel_core::time::Span;

/// A link, alike in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bytes per second and direction; zero for no bound.
    pub rate_bytes: u64,
    /// Propagation, one way.
    pub delay: Span,
    /// Messages that are lost, in millionths.
    pub loss_ppm: u32,
    /// From the loss of a message to its arrival at the second attempt, beside the delay.
    pub retransmission: Span,
}
