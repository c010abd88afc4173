//! Scrubbing stores in the background: each step is a turn at the backend, like any upkeep.

use std::rc::Rc;

use evenkeel_core::ticket::Kind;
use evenkeel_store::SCRUB_STEP_BYTES;
use tokio::task::spawn_local;

use super::Worker;
use crate::device::store::StoreHost;
use crate::store::{Progress, ScrubError, ScrubOrder};

impl Worker {
    /// Starts or ends the scrub of a store.
    pub(super) fn scrub(self: &Rc<Self>, store: &str, order: ScrubOrder) -> Result<(), ScrubError> {
        let host = self.host(store)?;
        match order {
            ScrubOrder::Start => {
                let number = host.begin_scrub()?;
                spawn_local(Rc::clone(self).keep_scrubbing(store.to_owned(), host, number));
            }
            ScrubOrder::Stop => host.stop_scrub()?,
        }
        tracing::info!(store, ?order, "scrub");
        Ok(())
    }

    /// Reads step by step until all is read, somebody ends it, or the store or the gate stops.
    async fn keep_scrubbing(self: Rc<Self>, backend: String, host: Rc<StoreHost>, number: u64) {
        let Some(store) = host.once_open().await else { return };
        let mut scrub = store.scrub();
        let end = loop {
            let step = scrub.step();
            let outcome = match self.account(&backend) {
                Some(account) => account.pay(Kind::Read, SCRUB_STEP_BYTES, step).await,
                None => step.await,
            };
            match outcome {
                Ok(Some(step)) if !self.stopping.get() => {
                    if !host.note_scrub(number, &step, scrub.report()) {
                        return;
                    }
                }
                Ok(None) => break Progress::Complete,
                Ok(Some(_)) | Err(_) => break Progress::Stopped,
            }
        };
        let report = scrub.report();
        let (bad, lost) = (report.bad_blocks + report.bad_headers, report.lost_blocks);
        if lost > 0 {
            tracing::error!(store = backend, bad, lost, "scrubbed: blocks are lost on all copies");
        } else {
            tracing::info!(store = backend, bad, ?end, "scrubbed");
        }
        host.finish_scrub(number, end, report);
    }
}
