//! The routes, and how results become answers.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post, put};
use serde_json::{Value, json};

use super::Control;
use super::body::{Nothing, Object};
use super::change::{Change, ExportSpec, ModeSpec, RecordingSpec, TenantSpec};
use super::http::HEALTH_PATH;
use super::refusal::Refusal;
use super::resize::{self, SizeSpec};
use super::scrub::ScrubRequest;
use super::trial::TrialSpec;
use super::visitor::{self, Visitors};
use super::volumes::{StoreVolumes, VolumeRequest};
use crate::config::{self, Diagnostics};
use crate::metrics;
use crate::metrics::process::Usage;
use crate::status::{Detail, Recording, Status};
use crate::trace::record;

/// Largest body of a request.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Largest body of one that brings a policy.
const POLICY_BYTES_MAX: usize = 4 << 20;

type Shared = State<Arc<Control>>;
type Answer = Result<Json<Value>, Refusal>;

/// Everything, for the operator.
pub fn operator(control: Arc<Control>) -> Router {
    let tenant = put(put_tenant).delete(remove_tenant);
    let export = put(put_export).delete(remove_export);
    let recording = get(recent).put(start_recording).delete(stop_recording);
    let on_policy = get(policy).put(try_policy).layer(DefaultBodyLimit::max(POLICY_BYTES_MAX));
    reading()
        .route("/v1/policy", on_policy)
        .route("/v1/policy/confirm", post(confirm))
        .route("/v1/policy/revert", post(revert))
        .route("/v1/policy/save", post(save))
        .route("/v1/reload", post(reload))
        .route("/v1/mode", put(put_mode))
        .route("/v1/tenants/{name}", tenant)
        .route("/v1/exports/{name}", export)
        .route("/v1/exports/{name}/size", put(resize))
        .route("/v1/volumes", get(list_volumes).post(change_volume))
        .route("/v1/scrub", post(scrub))
        .route("/v1/claims/{volume}", post(claim))
        .route("/v1/recording", recording)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(visitor::refuse_pages))
        .with_state(control)
}

/// What may be read by anyone who can connect.
pub fn public(control: Arc<Control>) -> Router {
    let visitors = Visitors::new(Arc::clone(&control));
    reading()
        .layer(DefaultBodyLimit::max(0))
        .layer(from_fn_with_state(visitors, visitor::check))
        .with_state(control)
}

fn reading() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/status", get(status))
        .route("/metrics", get(metrics))
        .route(HEALTH_PATH, get(|| async { "ok\n" }))
        .fallback(|| async { Refusal::new(StatusCode::NOT_FOUND, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method")
        })
}

async fn status(State(control): Shared, uri: Uri) -> Json<Status> {
    let wants_buckets = uri.query() == Some("detail=buckets");
    let detail = if wants_buckets { Detail::Buckets } else { Detail::Quantiles };
    let (report, policy) = (control.gate().report().await, control.gate().policy());
    let trial_left_seconds = control.trial_left().map(|left| left.as_secs_f64());
    Json(Status { trial_left_seconds, ..Status::new(&report, &policy, detail) })
}

async fn metrics(State(control): Shared) -> Response {
    let (report, policy) = (control.gate().report().await, control.gate().policy());
    let text = metrics::render(&report, &policy, Usage::now());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn policy(State(control): Shared) -> Response {
    let mut policy = control.gate().policy();
    config::absolute(&mut policy);
    let report = control.gate().report().await;
    let domains = report.domains.into_iter();
    let servers: Vec<_> = domains.flat_map(|domain| domain.servers).collect();
    let text = config::print_with_found(&policy, &servers);
    ([(CONTENT_TYPE, "application/toml")], text).into_response()
}

async fn try_policy(State(control): Shared, Object(spec): Object<TrialSpec>) -> Answer {
    let seconds = spec.confirm_within_seconds;
    // Whoever asked may go away; what was begun is carried through.
    let found = through(async move { control.try_policy(spec).await }).await?;
    tracing::info!(seconds, "a policy is on trial");
    let Json(mut answer) = done(&found);
    answer["summary"] = json!(format!(
        "in force for {seconds} s, then the previous policy returns: `evenkeel ctl confirm` keeps \
         this one, `evenkeel ctl revert` takes it back at once"
    ));
    Ok(Json(answer))
}

async fn confirm(State(control): Shared, _: Nothing) -> Answer {
    let [file, former] = through(async move { control.confirm().await }).await?;
    let (file, former) = (file.display().to_string(), former.display());
    tracing::info!(file, "the policy on trial was confirmed");
    let summary = format!("confirmed: it is in {file}; the previous file is kept as {former}");
    Ok(Json(json!({ "done": true, "summary": summary })))
}

async fn revert(State(control): Shared, _: Nothing) -> Answer {
    through(async move { control.revert().await }).await?;
    tracing::info!("the policy on trial was taken back");
    Ok(Json(json!({ "done": true, "summary": "the policy before is in force again" })))
}

async fn save(State(control): Shared, _: Nothing) -> Answer {
    let [file, former] = through(async move { control.save().await }).await?;
    let (file, former) = (file.display().to_string(), former.display());
    tracing::info!(file, "the policy in force was saved");
    let summary =
        format!("saved in {file}; the previous file, with its comments, is kept as {former}");
    Ok(Json(json!({ "done": true, "summary": summary })))
}

/// Carries work through though the connection that asked for it may end.
async fn through<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(work).await.expect("it does not panic")
}

async fn reload(State(control): Shared, _: Nothing) -> Answer {
    let found = control.reload().await?;
    tracing::info!("policy reloaded");
    Ok(done(&found))
}

async fn put_mode(State(control): Shared, Object(spec): Object<ModeSpec>) -> Answer {
    change(&control, Change::Mode(spec.mode.into())).await
}

async fn put_tenant(
    State(control): Shared,
    Path(name): Path<String>,
    Object(spec): Object<TenantSpec>,
) -> Answer {
    change(&control, Change::PutTenant(name, spec)).await
}

async fn remove_tenant(State(control): Shared, Path(name): Path<String>, _: Nothing) -> Answer {
    change(&control, Change::RemoveTenant(name)).await
}

async fn put_export(
    State(control): Shared,
    Path(name): Path<String>,
    Object(spec): Object<ExportSpec>,
) -> Answer {
    change(&control, Change::PutExport(name, spec)).await
}

async fn remove_export(State(control): Shared, Path(name): Path<String>, _: Nothing) -> Answer {
    change(&control, Change::RemoveExport(name)).await
}

async fn resize(
    State(control): Shared,
    Path(name): Path<String>,
    Object(spec): Object<SizeSpec>,
) -> Answer {
    let export = name.clone();
    // Whoever asked may go away; what was begun is carried through.
    let size_bytes = through(async move { control.resize(&name, &spec).await }).await?;
    tracing::info!(export, size_bytes, "resized");
    let summary = resize::summary(&export, size_bytes);
    Ok(Json(json!({ "done": true, "summary": summary, "size_bytes": size_bytes })))
}

async fn recent(State(control): Shared) -> Result<Response, Refusal> {
    let trace = control.recent().await?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], trace).into_response())
}

async fn start_recording(State(control): Shared, Object(spec): Object<RecordingSpec>) -> Answer {
    let file = control.start_recording(spec.file).await?;
    tracing::info!(file, "recording started");
    Ok(Json(json!({ "done": true, "file": file })))
}

async fn stop_recording(State(control): Shared, _: Nothing) -> Answer {
    let report = control.stop_recording().await?;
    let summary = record::summary(&report);
    tracing::info!(summary, "recording ended");
    Ok(Json(json!({ "done": true, "summary": summary, "recording": Recording::from(&report) })))
}

async fn list_volumes(State(control): Shared) -> Json<Vec<StoreVolumes>> {
    Json(control.volumes().await)
}

async fn change_volume(State(control): Shared, Object(request): Object<VolumeRequest>) -> Answer {
    let volume = control.change_volume(&request).await?;
    Ok(Json(json!({ "done": true, "volume": volume })))
}

async fn scrub(State(control): Shared, Object(request): Object<ScrubRequest>) -> Answer {
    let store = control.scrub(&request).await?;
    Ok(Json(json!({ "done": true, "store": store })))
}

async fn claim(State(control): Shared, Path(volume): Path<String>, _: Nothing) -> Answer {
    let question = control.gate().claim(&volume).await?;
    let summary = format!("your word is taken on volume {volume}, which said: {question}");
    Ok(Json(json!({ "done": true, "summary": summary, "question": question })))
}

async fn change(control: &Control, change: Change) -> Answer {
    // Who changed what belongs in the log.
    let what = format!("{change:?}");
    let found = control.change(change).await?;
    tracing::info!(change = what, "policy changed until the next reload");
    let Json(mut answer) = done(&found);
    answer["summary"] =
        json!("done, until the policy file is read again: `evenkeel ctl save` keeps it");
    Ok(Json(answer))
}

fn done(found: &Diagnostics) -> Json<Value> {
    Json(json!({ "done": true, "warnings": found.render(false).trim_end() }))
}
