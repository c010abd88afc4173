//! Bodies of requests: JSON where JSON is meant, and nothing where nothing is.
//!
//! A page of the web may have a browser send a form or a text anywhere without asking, and JSON
//! only where it is asked for: so the type of the content is insisted on.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::Json;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};

use super::refusal::Refusal;

/// The longest time for a body to come.
const BODY_TIME_MAX: Duration = Duration::from_secs(5);

/// The only type of content that is taken.
const JSON: &str = "application/json";

/// A JSON object that says what is in `T`. A list in its place, which serde would take for the
/// fields in their order, is refused.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Object<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let Json(object) = in_time(Json::<Self>::from_request(request, state)).await??;
        Ok(object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object, as docs/control.md shows it for this path")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// The body of a request that says all with its path: none, or an empty JSON object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nothing;

impl<S: Send + Sync> FromRequest<S> for Nothing {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let said = request.headers().get(CONTENT_TYPE).map(|said| said.as_bytes().to_owned());
        let is_json = said.as_ref().map(|said| is_json(said));
        let body = in_time(Bytes::from_request(request, state)).await?;
        let body = body.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
        match (is_json, body.trim_ascii()) {
            (Some(false), _) => Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("this path takes no body but `{{}}`, with `Content-Type: {JSON}`"),
            )),
            (_, b"") | (Some(true), b"{}") => Ok(Self),
            _ => Err(Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("this path takes no body; leave it out, or send `{{}}` as {JSON}"),
            )),
        }
    }
}

/// Whether a type of content is JSON, whatever its parameters.
fn is_json(said: &[u8]) -> bool {
    let kind = said.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes())
}

/// What comes of reading a body, if that takes no longer than it may.
async fn in_time<T>(reading: impl Future<Output = T>) -> Result<T, Refusal> {
    tokio::time::timeout(BODY_TIME_MAX, reading).await.map_err(|_| {
        let seconds = BODY_TIME_MAX.as_secs();
        let message = format!("the body did not come in {seconds} s");
        Refusal::new(StatusCode::REQUEST_TIMEOUT, message)
    })
}

#[cfg(test)]
mod tests {
    use super::super::change::{ModeSpec, TenantSpec};
    use super::*;

    #[test]
    fn a_list_is_no_object_however_well_it_fits() {
        for list in ["[]", "[4]", "null", "4", "\"enforce\"", "true"] {
            let error = serde_json::from_str::<Object<TenantSpec>>(list).unwrap_err().to_string();
            assert!(error.contains("expected a JSON object"), "{list}: {error}");
        }
        assert!(serde_json::from_str::<Object<ModeSpec>>("[\"enforce\"]").is_err());
        let Object(spec) = serde_json::from_str::<Object<TenantSpec>>("{\"share\": 4}").unwrap();
        assert_eq!(spec.share, Some(4.0));
    }

    #[test]
    fn json_is_known_with_its_parameters_and_nothing_else_is() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/json ;"] {
            assert!(is_json(good.as_bytes()), "{good}");
        }
        for bad in ["", "text/plain", "text/plain;application/json", "application/jsonp"] {
            assert!(!is_json(bad.as_bytes()), "{bad}");
        }
    }
}
