//! What the hosts of a spread volume's servers tell of their memory and processors, now and then:
//! asked beside the data path, and only where the volume prefers servers by that.
//!
//! ```text
//! node_exporter on the server's host <--- GET /metrics, every 5 s --- this gate
//!        meminfo, cpu                -----------------------------> Input::HostTold
//! ```
//!
//! A host that has not told anything for a while counts as one of which nothing is known.

mod page;

use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_core::id::ServerId;
use evenkeel_engine::policy::{HostFigures, MetricsPage, Source};
use evenkeel_engine::spread::host_page::Sample;

use crate::domain::Domain;
use crate::worker::Worker;

/// Between two looks at a host.
const EVERY: Duration = Duration::from_secs(5);
/// What was told so long ago does not count any more.
const OLD: Duration = Duration::from_secs(16);

/// Looks at the host of one server.
pub(crate) struct Host {
    pub(crate) worker: Rc<Worker>,
    pub(crate) domain: Rc<Domain>,
    /// The backend that is the volume.
    pub(crate) volume: String,
    /// The backend that is the server.
    pub(crate) backend: String,
    pub(crate) server: ServerId,
}

/// What was told last, and when.
struct Told {
    at: Instant,
    sample: Sample,
}

impl Host {
    /// Looks again and again, for as long as the gate runs.
    pub(crate) async fn watch(self) {
        let mut told: Option<Told> = None;
        loop {
            match self.page() {
                Some(page) => self.look(&page, &mut told).await,
                None => self.forget(&mut told),
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Where to look, if the policy in force wants it.
    fn page(&self) -> Option<MetricsPage> {
        let plan = self.worker.plan();
        let volume = plan.backend(&self.volume)?.spread()?;
        volume.prefer.iter().find(|one| one.is_of_hosts())?;
        match &plan.backend(&self.backend)?.source {
            Source::Upstream(upstream) => upstream.metrics.clone(),
            _ => None,
        }
    }

    async fn look(&self, page: &MetricsPage, told: &mut Option<Told>) {
        match page::sample(page).await {
            Ok(sample) => {
                let before = told.as_ref().map(|told| &told.sample);
                self.tell(Some(sample.figures(before)));
                *told = Some(Told { at: Instant::now(), sample });
            }
            Err(why) => {
                tracing::debug!(server = self.backend, %page, %why, "its host does not tell");
                if told.as_ref().is_some_and(|told| told.at.elapsed() > OLD) {
                    self.forget(told);
                }
            }
        }
    }

    fn forget(&self, told: &mut Option<Told>) {
        if told.take().is_some() {
            self.tell(None);
        }
    }

    fn tell(&self, host: Option<HostFigures>) {
        self.domain.host_told(self.server, host);
    }
}
