//! The body of a request.

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use serde_json::{Map, Value};
use uniqueue_http::MAX_BODY;

use crate::exact;
use crate::problem::Problem;

/// A body that is a JSON object. An empty body counts as an empty object. Depth is limited to 127.
pub(crate) struct Object(pub(crate) Map<String, Value>);

impl<S: Sync> FromRequest<S> for Object {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Problem> {
        let given = request.headers().get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
        if let Some(given) = given.filter(|given| !is_json(given)) {
            return Err(Problem::invalid(format!(
                "unsupported Content-Type: must be application/openjobspec+json or application/json: {given:?}"
            )));
        }
        // The checks around the router have read it.
        let bytes =
            to_bytes(request.into_body(), MAX_BODY).await.map_err(|error| Problem::payload(error.to_string()))?;
        read(&bytes).map(Self)
    }
}

/// Whether a media type is JSON. Parameters, such as the character set, do not count.
fn is_json(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default().trim();
    ["application/openjobspec+json", "application/json"].iter().any(|json| name.eq_ignore_ascii_case(json))
}

/// Reads a body. Its numbers are as [`exact`] has them.
pub(crate) fn read(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::payload("the body is not UTF-8"))?;
    match exact::read(text)? {
        Value::Object(members) => Ok(members),
        _ => Err(Problem::payload("the body must be a JSON object")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_body_that_is_nested_too_deeply_is_refused() {
        let nested = |depth| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(120).as_bytes()).is_ok());
        assert!(read(nested(100_000).as_bytes()).is_err());
        assert!(read(b"[]").is_err() && read(b"").is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
