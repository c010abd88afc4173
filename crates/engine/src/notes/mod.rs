//! What volumes over several devices have in common: blocks that describe themselves, the questions
//! that an opening asks of its driver, why it refuses a device, and the steps that a volume in
//! service asks for.

pub(crate) mod blank;
pub(crate) mod block;
pub(crate) mod copying;
pub(crate) mod head;
mod opening;
mod step;
mod unfit;

pub use block::VolumeId;
pub use copying::PASSES_MAX;
pub use opening::{Answer, Ask, Opens, PartDevice};
pub use step::{STEP_BYTES_MAX, Step, StepKind};
pub use unfit::{Parlance, Unfit, Unproven};
