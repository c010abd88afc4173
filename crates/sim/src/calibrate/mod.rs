//! From measurements of a live backend to a model of it: what a request costs, how latency grows
//! with depth, how much runs in parallel, and a device that behaves alike in the simulator.
//!
//! ```text
//! points: load, size, depth -> IOPS, latency          (many, noisy, some repeated)
//!    |  median of repetitions, monotone in depth
//!    +-> cost of a request at saturation    1 / IOPS  = fixed + bytes / rate
//!    +-> latency of a lone request          L(1)      = fixed + bytes / rate
//!    +-> latency over depth                 L(N)      = a + b N
//!    +-> knee                               N*        = L(1) * IOPS at saturation  (Little's law)
//!    +-> a queueing device, its parallelism chosen by replaying the points on it
//! ```
//!
//! Nothing here reads a clock or a file: whoever measures gives the points, the address and the
//! date, and stores the text that [`Model::to_toml`] returns.

mod fit;
mod line;
mod measured;
mod model;
mod monotone;
mod point;
mod recorded;
mod replay;
#[cfg(test)]
mod tests;

pub use fit::{FitError, fit};
pub use measured::{Direction, Measured, MeasuredSpec};
pub(crate) use model::whole;
pub use model::{DepthLine, Fit, FittedPoint, Model, ModelError, Provenance, SizeLine};
pub use point::{Load, Point};
pub use recorded::{Served, candidates, varies};
