//! Which NBD server an upstream is, as far as that matters to the gate: what its end of a
//! connection says of the requests that were on it.
//!
//! | word | the server ends a connection |
//! |---|---|
//! | `nbdkit` | after all requests on it have ended |
//! | `nbd-server` | so after a half-close of the gate; of itself it may end it before |
//! | `qemu-nbd`, `other` | at any time: requests on it may be carried out later |
//!
//! Tried with slow storage below, see `docs/taking-over.md`. It holds for a server that the gate
//! reaches without a proxy, and that has its storage on its own machine.

/// An NBD server, by what its end of a connection says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NbdServer {
    /// nbdkit, with any plugin that answers a request no sooner than it has ended.
    Nbdkit,
    /// The server of the nbd project.
    NbdServer,
    /// QEMU's.
    QemuNbd,
    /// Any other, and what nobody knows.
    #[default]
    Other,
}

impl NbdServer {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nbdkit, Self::NbdServer, Self::QemuNbd, Self::Other];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nbdkit => "nbdkit",
            Self::NbdServer => "nbd-server",
            Self::QemuNbd => "qemu-nbd",
            Self::Other => "other",
        }
    }

    /// Whether no request is under way any more once the server has ended a connection of itself.
    pub fn ends_last(self) -> bool {
        self == Self::Nbdkit
    }

    /// Whether that is so once it has ended one that the gate had half-closed.
    pub fn ends_last_after_half_close(self) -> bool {
        matches!(self, Self::Nbdkit | Self::NbdServer)
    }
}
