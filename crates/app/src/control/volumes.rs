//! Volumes and snapshots of the stores that a gate has open.

use evenkeel_engine::policy::{Policy, Source};
use evenkeel_io::store::VolumeError;
use serde::{Deserialize, Serialize};

use super::Control;
use crate::units::UnitError;
use crate::volumes::{self, VolumeDocument, VolumeSpec};

/// The body of `POST /v1/volumes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRequest {
    /// The backend that is the store; may be left out where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// What is to be done.
    pub order: VolumeSpec,
}

/// One store in the answer of `GET /v1/volumes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreVolumes {
    /// The backend that is the store.
    pub store: String,
    /// Its volumes and snapshots, by number.
    pub volumes: Vec<VolumeDocument>,
    /// Why they are not known, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Why a volume was not changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VolumeChangeError {
    /// A size that cannot be read.
    #[error("{error}; write it like {}", error.examples)]
    Size {
        /// What is wrong with it.
        #[from]
        error: UnitError,
    },
    /// It is not clear which store is meant.
    #[error("{0}")]
    Which(String),
    /// The store refuses.
    #[error("{}", volumes::explain(.0))]
    Volume(#[from] VolumeError),
}

impl Control {
    /// The volumes and snapshots of all stores of the policy.
    pub async fn volumes(&self) -> Vec<StoreVolumes> {
        let mut stores = Vec::new();
        for store in names(&self.gate.policy()) {
            let (volumes, trouble) = match self.gate.volumes(&store).await {
                Ok(volumes) => (volumes, None),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            let volumes = volumes.iter().map(VolumeDocument::from).collect();
            stores.push(StoreVolumes { store, volumes, trouble });
        }
        stores
    }

    /// Carries out what is asked, and gives the volume that it was about.
    ///
    /// # Errors
    /// [`VolumeChangeError`]; nothing has changed, unless the store stopped.
    pub async fn change_volume(
        &self,
        request: &VolumeRequest,
    ) -> Result<VolumeDocument, VolumeChangeError> {
        // What an export stands on must not go while the export comes.
        let _changing = self.changing.lock().await;
        let store = self.store_meant(request.store.as_deref()).map_err(VolumeChangeError::Which)?;
        let changed = self.gate.change_volume(&store, request.order.order()?).await?;
        Ok(VolumeDocument::from(&changed))
    }

    /// The store that a request is about.
    ///
    /// # Errors
    /// Why that is not clear.
    pub(super) fn store_meant(&self, named: Option<&str>) -> Result<String, String> {
        named.map_or_else(|| only(names(&self.gate.policy())), |store| Ok(store.to_owned()))
    }
}

/// The stores of a policy.
fn names(policy: &Policy) -> Vec<String> {
    let is_store =
        |backend: &&evenkeel_engine::policy::Backend| matches!(backend.source, Source::Store(_));
    policy.backends.iter().filter(is_store).map(|backend| backend.name.clone()).collect()
}

/// The store that is meant where none is named.
fn only(mut names: Vec<String>) -> Result<String, String> {
    let why = match (names.pop(), names.is_empty()) {
        (Some(only), true) => return Ok(only),
        (None, _) => "the policy has no store; a backend with `store = [..]` is one",
        (Some(_), false) => "the policy has several stores; say which, with --store NAME",
    };
    Err(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_store_needs_no_name() {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(only(names(&["log"])), Ok("log".to_owned()));
        let of = |list| only(names(list)).unwrap_err();
        assert!(of(&[]).contains("no store"));
        assert!(of(&["a", "b"]).contains("--store"));
    }
}
