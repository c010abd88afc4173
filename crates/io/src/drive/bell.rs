//! The event descriptor by which a drive tells its domain that jobs have finished.

#![expect(unsafe_code, reason = "the descriptor is registered with the runtime")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits for a drive's event descriptor.
#[derive(Debug)]
pub(crate) struct Bell {
    event: AsyncFd<OwnedFd>,
}

impl Bell {
    /// Registers the descriptor with this thread's runtime.
    pub(crate) fn new(event: OwnedFd) -> io::Result<Self> {
        // SAFETY: the descriptor is owned by the registration and stays the same, open one until
        // that is dropped.
        let event = unsafe { AsyncFd::register_with_interest(event, Interest::READABLE) }?;
        Ok(Self { event })
    }

    /// Waits until jobs have finished since the last time.
    pub(crate) async fn rung(&self) -> io::Result<()> {
        let mut ready = self.event.readable().await?;
        let _ = rustix::io::read(self.event.get_ref(), &mut [0; 8]);
        ready.clear_ready();
        Ok(())
    }
}
