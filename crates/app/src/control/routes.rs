//! The routes, and how results and refusals become answers.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post, put};
use evenkeel_io::gate::ClaimError;
use evenkeel_io::store::VolumeError;
use evenkeel_store::StoreError;
use serde_json::{Value, json};

use super::change::{Change, ChangeError, ExportSpec, ModeSpec, RecordingSpec, TenantSpec};
use super::scrub::{ScrubRefusal, ScrubRequest};
use super::volumes::{StoreVolumes, VolumeChangeError, VolumeRequest};
use super::{ApplyError, Control, RecordError};
use crate::config::{self, Diagnostics, LoadError};
use crate::exit::Exit;
use crate::metrics;
use crate::metrics::process::Usage;
use crate::status::{Detail, Recording, Status};
use crate::trace::record;
use crate::volumes;

/// Largest body of a request.
const BODY_BYTES_MAX: usize = 64 << 10;

type Shared = State<Arc<Control>>;
type Answer = Result<Json<Value>, Refusal>;
type Body<T> = Result<Json<T>, JsonRejection>;

/// Everything, for the operator.
pub fn operator(control: Arc<Control>) -> Router {
    let tenant = put(put_tenant).delete(remove_tenant);
    let export = put(put_export).delete(remove_export);
    reading()
        .route("/v1/policy", get(policy))
        .route("/v1/reload", post(reload))
        .route("/v1/mode", put(put_mode))
        .route("/v1/tenants/{name}", tenant)
        .route("/v1/exports/{name}", export)
        .route("/v1/volumes", get(list_volumes).post(change_volume))
        .route("/v1/scrub", post(scrub))
        .route("/v1/claims/{volume}", post(claim))
        .route("/v1/recording", put(start_recording).delete(stop_recording))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(control)
}

/// What may be read by anyone who can connect.
pub fn public(control: Arc<Control>) -> Router {
    reading().layer(DefaultBodyLimit::max(0)).with_state(control)
}

fn reading() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/status", get(status))
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .fallback(|| async { Refusal::new(StatusCode::NOT_FOUND, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method")
        })
}

async fn status(State(control): Shared, uri: Uri) -> Json<Status> {
    let wants_buckets = uri.query() == Some("detail=buckets");
    let detail = if wants_buckets { Detail::Buckets } else { Detail::Quantiles };
    let (report, policy) = (control.gate().report().await, control.gate().policy());
    Json(Status::new(&report, &policy, detail))
}

async fn metrics(State(control): Shared) -> Response {
    let (report, policy) = (control.gate().report().await, control.gate().policy());
    let text = metrics::render(&report, &policy, Usage::now());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn policy(State(control): Shared) -> Response {
    let mut policy = control.gate().policy();
    config::absolute(&mut policy);
    let text = config::print(&policy);
    ([(CONTENT_TYPE, "application/toml")], text).into_response()
}

async fn reload(State(control): Shared) -> Answer {
    let found = control.reload().await?;
    tracing::info!("policy reloaded");
    Ok(done(&found))
}

async fn put_mode(State(control): Shared, body: Body<ModeSpec>) -> Answer {
    let Json(spec) = body?;
    change(&control, Change::Mode(spec.mode.into())).await
}

async fn put_tenant(
    State(control): Shared,
    Path(name): Path<String>,
    body: Body<TenantSpec>,
) -> Answer {
    let Json(spec) = body?;
    change(&control, Change::PutTenant(name, spec)).await
}

async fn remove_tenant(State(control): Shared, Path(name): Path<String>) -> Answer {
    change(&control, Change::RemoveTenant(name)).await
}

async fn put_export(
    State(control): Shared,
    Path(name): Path<String>,
    body: Body<ExportSpec>,
) -> Answer {
    let Json(spec) = body?;
    change(&control, Change::PutExport(name, spec)).await
}

async fn remove_export(State(control): Shared, Path(name): Path<String>) -> Answer {
    change(&control, Change::RemoveExport(name)).await
}

async fn start_recording(State(control): Shared, body: Body<RecordingSpec>) -> Answer {
    let Json(spec) = body?;
    let file = control.start_recording(spec.file).await?;
    tracing::info!(file, "recording started");
    Ok(Json(json!({ "done": true, "file": file })))
}

async fn stop_recording(State(control): Shared) -> Answer {
    let report = control.stop_recording().await?;
    let summary = record::summary(&report);
    tracing::info!(summary, "recording ended");
    Ok(Json(json!({ "done": true, "summary": summary, "recording": Recording::from(&report) })))
}

async fn list_volumes(State(control): Shared) -> Json<Vec<StoreVolumes>> {
    Json(control.volumes().await)
}

async fn change_volume(State(control): Shared, body: Body<VolumeRequest>) -> Answer {
    let Json(request) = body?;
    let volume = control.change_volume(&request).await?;
    Ok(Json(json!({ "done": true, "volume": volume })))
}

async fn scrub(State(control): Shared, body: Body<ScrubRequest>) -> Answer {
    let Json(request) = body?;
    let store = control.scrub(&request).await?;
    Ok(Json(json!({ "done": true, "store": store })))
}

async fn claim(State(control): Shared, Path(volume): Path<String>) -> Answer {
    let question = control.gate().claim(&volume).await?;
    let summary = format!("your word is taken on volume {volume}, which said: {question}");
    Ok(Json(json!({ "done": true, "summary": summary, "question": question })))
}

async fn change(control: &Control, change: Change) -> Answer {
    // Who changed what belongs in the log.
    let what = format!("{change:?}");
    let found = control.change(change).await?;
    tracing::info!(change = what, "policy changed until the next reload");
    Ok(done(&found))
}

fn done(found: &Diagnostics) -> Json<Value> {
    Json(json!({ "done": true, "warnings": found.render(false).trim_end() }))
}

/// A refusal: a status, and a JSON body with one `error`.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    message: String,
    findings: Option<Value>,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), findings: None }
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
        }
    }
}

impl From<RecordError> for Refusal {
    fn from(error: RecordError) -> Self {
        let status = match error {
            RecordError::File(_) => StatusCode::UNPROCESSABLE_ENTITY,
            RecordError::Twice | RecordError::None => StatusCode::CONFLICT,
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
