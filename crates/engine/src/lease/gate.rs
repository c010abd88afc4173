//! What a gate says of itself on the servers of its volume.

use super::Times;

/// What a gate says of itself to others that want its volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// What people call it; a name that is too long loses its end.
    pub name: String,
    /// The lease that it keeps to.
    pub times: Times,
    /// Its addresses as the servers see them, with a space between any two, for whoever fences it.
    pub addresses: String,
    /// The folder that keeps its state, and that one process at a time uses; zeroes if it has none.
    pub state: [u8; 16],
    /// This run of its process: 8 bytes that stay the same while the machine runs, or zeroes if
    /// they are not known, and 8 random ones.
    pub run: [u8; 16],
}

impl Gate {
    /// Whether this was a process that used the same state folder, and is gone since another uses
    /// it.
    pub(crate) fn is_gone_for(&self, now: &Self) -> bool {
        now.state != [0; 16] && self.state == now.state && self.run != now.run
    }

    /// Whether this was a process on a machine that has run on since. A folder may have been copied
    /// to another machine, whose process has locked nothing here.
    pub(crate) fn is_of_same_boot(&self, now: &Self) -> bool {
        now.run[..8] != [0; 8] && self.run[..8] == now.run[..8]
    }
}
