//! Another size for a volume that clients use.

use evenkeel_core::bytes::Bytes;

/// Why a volume keeps its size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// There is no such volume.
    #[error(
        "backend {0:?} has no size of its own to change; volumes in Ceph (`ceph`) and over servers \
         (`choices`) have one, and volumes of a store are resized by `evenkeel ctl volume resize`"
    )]
    NotResizable(String),
    /// The volume is not open.
    #[error("volume {0:?} is not open; `evenkeel ctl status` says why")]
    NotOpen(String),
    /// It cannot have this size.
    #[error("{0}")]
    Refused(String),
    /// The gate is about to end.
    #[error("the gate is stopping")]
    Stopping,
}

/// What to say of a volume that has grown beyond what the policy says.
pub(crate) fn said_less(has_bytes: u64, wanted_bytes: u64) -> String {
    let (has, wanted) = (Bytes(has_bytes), Bytes(wanted_bytes));
    format!(
        "the volume has {has}, and the policy says {wanted}; write `size = \"{has}\"` there, or \
         shrink it with `evenkeel ctl export resize`"
    )
}

/// What to say of a volume that has not grown to what the policy says.
pub(crate) fn said_more(has_bytes: u64, wanted_bytes: u64) -> String {
    let (has, wanted) = (Bytes(has_bytes), Bytes(wanted_bytes));
    format!(
        "the volume has {has}, and the policy says {wanted}; `evenkeel ctl export resize` says \
         what stands in the way"
    )
}
