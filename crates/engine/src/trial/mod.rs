//! What trials of volumes stand on: drives that reorder, tear and fail, the truth about what a
//! client may read, and the world that brings both together with an engine.

pub(crate) mod disk;
pub(crate) mod oracle;
pub(crate) mod world;
