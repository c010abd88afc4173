//! How refusals become answers: a status, and a JSON body with one `error`.

use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use evenkeel_io::gate::{ClaimError, ResizeError};
use evenkeel_io::store::VolumeError;
use evenkeel_store::StoreError;
use serde_json::{Value, json};

use super::change::ChangeError;
use super::resize::ResizeRefusal;
use super::scrub::ScrubRefusal;
use super::trial::TrialError;
use super::volumes::VolumeChangeError;
use super::{ApplyError, RecordError};
use crate::config::{Diagnostics, LoadError};
use crate::exit::Exit;
use crate::volumes;

/// A refusal: a status, and a JSON body with one `error`.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
    findings: Option<Value>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), findings: None }
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// What is wrong, for people.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    fn invalid(found: &Diagnostics) -> Self {
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            message: found.to_string(),
            findings: Some(found.to_json()),
        }
    }
}

impl From<ApplyError> for Refusal {
    fn from(error: ApplyError) -> Self {
        match &error {
            ApplyError::Load(LoadError::Invalid(found))
            | ApplyError::Change(ChangeError::Invalid(found)) => Self::invalid(found),
            ApplyError::Load(LoadError::Unreadable { .. })
            | ApplyError::Change(ChangeError::Unit { .. } | ChangeError::Value(_)) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            }
            ApplyError::Change(ChangeError::Unknown { .. }) => {
                Self::new(StatusCode::NOT_FOUND, error.to_string())
            }
            ApplyError::Gate(_) => Self::new(StatusCode::CONFLICT, error.to_string()),
            ApplyError::Trial(trial) => trial.into(),
        }
    }
}

impl From<&TrialError> for Refusal {
    fn from(error: &TrialError) -> Self {
        let status = match error {
            TrialError::UnderWay { .. }
            | TrialError::None
            | TrialError::Temporary { .. }
            | TrialError::Elsewhere(_) => StatusCode::CONFLICT,
            TrialError::Length => StatusCode::UNPROCESSABLE_ENTITY,
            TrialError::File(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<TrialError> for Refusal {
    fn from(error: TrialError) -> Self {
        Self::from(&error)
    }
}

impl From<RecordError> for Refusal {
    fn from(error: RecordError) -> Self {
        let status = match error {
            RecordError::File(_) => StatusCode::UNPROCESSABLE_ENTITY,
            RecordError::Twice | RecordError::None | RecordError::NotKept => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<VolumeChangeError> for Refusal {
    fn from(error: VolumeChangeError) -> Self {
        let status = match &error {
            VolumeChangeError::Volume(
                VolumeError::Store(StoreError::UnknownVolume(_)) | VolumeError::UnknownStore(_),
            ) => StatusCode::NOT_FOUND,
            VolumeChangeError::Volume(refused) => match volumes::exit_of(refused) {
                Exit::Usage | Exit::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
                _ => StatusCode::CONFLICT,
            },
            VolumeChangeError::Size { .. } | VolumeChangeError::Which(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<ClaimError> for Refusal {
    fn from(error: ClaimError) -> Self {
        let status = match &error {
            ClaimError::UnknownVolume(_) => StatusCode::NOT_FOUND,
            ClaimError::NotAsked(_) | ClaimError::Stopping => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ResizeRefusal> for Refusal {
    fn from(error: ResizeRefusal) -> Self {
        let status = match error {
            ResizeRefusal::Policy(error) => return error.into(),
            ResizeRefusal::Unknown(_) => StatusCode::NOT_FOUND,
            ResizeRefusal::Size { .. }
            | ResizeRefusal::Part(_)
            | ResizeRefusal::Other { .. }
            | ResizeRefusal::Volume(ResizeError::NotResizable(_)) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            ResizeRefusal::Volume(_) => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ScrubRefusal> for Refusal {
    fn from(error: ScrubRefusal) -> Self {
        let status = match &error {
            ScrubRefusal::Which(_) => StatusCode::UNPROCESSABLE_ENTITY,
            ScrubRefusal::Gate(_) if error.is_unknown() => StatusCode::NOT_FOUND,
            ScrubRefusal::Gate(_) => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": self.message });
        if let Some(findings) = self.findings {
            body["findings"] = findings;
        }
        (self.status, Json(body)).into_response()
    }
}
