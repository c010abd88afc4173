//! Another size for the volume behind an export, while clients use it.

use evenkeel_core::bytes::Bytes;
use evenkeel_engine::policy::{Export, Policy, Source};
use evenkeel_io::gate::ResizeError;
use serde::{Deserialize, Serialize};

use super::{ApplyError, Control};
use crate::units::{self, UnitError};

/// The body of `PUT /v1/exports/{name}/size`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeSpec {
    /// The size, such as `2 TiB`.
    pub size: String,
}

/// Why an export keeps its size.
#[derive(Debug, thiserror::Error)]
pub enum ResizeRefusal {
    /// There is no such export.
    #[error("there is no export `{0}`")]
    Unknown(String),
    /// A size that cannot be read.
    #[error("{error}; write it like {}", error.examples)]
    Size {
        /// What is wrong with it.
        #[from]
        error: UnitError,
    },
    /// The export is a part of its backend.
    #[error(
        "export `{0}` is a part of its backend: `evenkeel ctl export add {0} --size SIZE` changes \
         which"
    )]
    Part(String),
    /// Another export would lose a part of what it shows.
    #[error("export `{name}` of the same volume reaches up to {}: shrink that first", Bytes(*.end))]
    Other {
        /// Its name.
        name: String,
        /// Where it ends in the volume.
        end: u64,
    },
    /// The volume keeps its size.
    #[error(transparent)]
    Volume(#[from] ResizeError),
    /// The policy in force cannot be changed now.
    #[error(transparent)]
    Policy(#[from] ApplyError),
}

impl Control {
    /// Gives the volume behind an export another size, in the policy in force as well; returns it,
    /// as the volume has it.
    ///
    /// # Errors
    /// [`ResizeRefusal`].
    pub async fn resize(&self, export: &str, spec: &SizeSpec) -> Result<u64, ResizeRefusal> {
        let size_bytes = units::parse_size(&spec.size)?;
        let _changing = self.changing.lock().await;
        self.trials.refuse_changes().map_err(ApplyError::from)?;
        let mut policy: Policy = self.gate.policy();
        let known = policy.exports.iter().find(|known| known.name == export);
        let known = known.ok_or_else(|| ResizeRefusal::Unknown(export.to_owned()))?;
        if known.size_bytes.is_some() || known.offset_bytes > 0 {
            return Err(ResizeRefusal::Part(export.to_owned()));
        }
        let name = known.backend.clone();
        refuse_to_cut(&policy, &name, size_bytes)?;
        let resized = self.gate.resize(&name, size_bytes).await?;
        let backend = policy.backends.iter_mut().find(|backend| backend.name == name);
        match backend.map(|backend| &mut backend.source) {
            Some(Source::Ceph(volume)) => volume.shape.size_bytes = size_bytes,
            Some(Source::Spread(volume)) => volume.shape.size_bytes = Some(resized),
            _ => {}
        }
        self.gate.reload(policy).await.map_err(ApplyError::from)?;
        Ok(resized)
    }
}

/// Refuses a size of a backend that an export of it reaches beyond.
fn refuse_to_cut(policy: &Policy, backend: &str, size_bytes: u64) -> Result<(), ResizeRefusal> {
    let end = |export: &Export| {
        let end = export.offset_bytes.saturating_add(export.size_bytes.unwrap_or(0));
        (export.backend == backend && end > size_bytes).then_some(end)
    };
    let cut = policy.exports.iter().find_map(|export| Some((export, end(export)?)));
    cut.map_or(Ok(()), |(export, end)| Err(ResizeRefusal::Other { name: export.name.clone(), end }))
}

/// What to say of it.
pub(super) fn summary(export: &str, size_bytes: u64) -> String {
    format!(
        "export {export} has {} for clients that connect from now on; `evenkeel ctl save` keeps it \
         in the policy file",
        Bytes(size_bytes)
    )
}
