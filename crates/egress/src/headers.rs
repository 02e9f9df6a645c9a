//! Which headers stop at the proxy, and which would fool a server behind it.
//!
//! Answers to: `exchange`. Must not: decide; it strips and names.

use hyper::HeaderMap;
use hyper::header::{self, HeaderName};

const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers by which some servers take another method than the request's.
const METHOD_OVERRIDES: [&str; 4] =
    ["x-http-method", "x-http-method-override", "x-method-override", "x-original-method"];
/// Headers by which some servers take another path.
const PATH_OVERRIDES: [&str; 5] =
    ["x-original-uri", "x-original-url", "x-rewrite-url", "x-forwarded-path", "x-forwarded-prefix"];

/// Whether the header belongs to the message's frame, where a secret has no business.
pub(crate) fn is_framing(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(&name.as_str()) || *name == header::HOST || *name == header::CONTENT_LENGTH
}

/// Takes out all that is between two neighbours only, with what `connection` names.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        // WHY: a guest must not unframe a body by naming its length here.
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// A header by which the server might take another method.
pub(crate) fn method_override(headers: &HeaderMap) -> Option<&'static str> {
    METHOD_OVERRIDES.into_iter().find(|name| headers.contains_key(*name))
}

/// A header by which the server might take another path.
pub(crate) fn path_override(headers: &HeaderMap) -> Option<&'static str> {
    PATH_OVERRIDES.into_iter().find(|name| headers.contains_key(*name))
}
