//! Ctrl-C, and its kin, for a command that must put something right before it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// What a shell makes of a process that SIGINT ended.
const ENDED_BY_SIGINT: i32 = 130;

/// Whether somebody interrupted this process. A second time ends it at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches from now on, to the end of the process.
    ///
    /// # Errors
    /// If the system refuses a thread or a handler.
    pub(crate) fn watch() -> std::io::Result<Self> {
        let is_set = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut interrupt, mut terminate, mut hangup) = {
            let _inside = runtime.enter();
            let of = |kind| signal(kind);
            (of(SignalKind::interrupt())?, of(SignalKind::terminate())?, of(SignalKind::hangup())?)
        };
        let seen = Arc::clone(&is_set);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                        _ = hangup.recv() => {}
                    }
                    if seen.swap(true, Ordering::Relaxed) {
                        std::process::exit(ENDED_BY_SIGINT);
                    }
                }
            });
        })?;
        Ok(Self(is_set))
    }

    /// Whether it has happened.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
