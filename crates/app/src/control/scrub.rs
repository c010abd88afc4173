//! Scrubs of the stores that a gate has open.

use evenkeel_io::store::{ScrubError, ScrubOrder, VolumeError};
use serde::{Deserialize, Serialize};

use super::Control;

/// The body of `POST /v1/scrub`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubRequest {
    /// The backend that is the store; may be left out where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// What is to be done.
    pub order: ScrubWord,
}

/// What is to be done, as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScrubWord {
    /// Begin.
    Start,
    /// End the one under way.
    Stop,
}

/// Why nothing was started or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrubRefusal {
    /// It is not clear which store is meant.
    #[error("{0}")]
    Which(String),
    /// The gate refuses.
    #[error(transparent)]
    Gate(#[from] ScrubError),
}

impl ScrubRefusal {
    /// Whether there is no such store.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Gate(ScrubError::Store(VolumeError::UnknownStore(_))))
    }
}

impl Control {
    /// Starts or ends the scrub of a store, and gives the store's name.
    ///
    /// # Errors
    /// [`ScrubRefusal`]; nothing has changed.
    pub async fn scrub(&self, request: &ScrubRequest) -> Result<String, ScrubRefusal> {
        let store = self.store_meant(request.store.as_deref()).map_err(ScrubRefusal::Which)?;
        let order = match request.order {
            ScrubWord::Start => ScrubOrder::Start,
            ScrubWord::Stop => ScrubOrder::Stop,
        };
        self.gate.scrub(&store, order).await?;
        Ok(store)
    }
}
