//! The page's files, which are in the binary. Nothing is read from disk, so no path leads anywhere else.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, Response};
use rust_embed::RustEmbed;

/// What `scripts/page` made, or nothing.
#[derive(RustEmbed)]
#[folder = "page/"]
struct Files;

/// Where the page was not built.
const NOT_BUILT: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Wakepath</title>\
<h1>The page is not in this binary</h1><p>Wakepath was built without it, as happens without Node. To have it, in the \
source tree: <code>scripts/page &amp;&amp; cargo build --release -p wakepath</code>. The answers are there all the same, \
below <code>/api/</code> (docs/openapi.json), and on the command line.";

/// For every answer: the page loads nothing from elsewhere, runs no code but its own, is in no frame, and says nobody where
/// it was.
pub const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cache-control"), HeaderValue::from_static("no-store")),
];

/// Whether the page is in this binary.
pub fn is_built() -> bool {
    Files::get("index.html").is_some()
}

/// The file of a path; `None` where there is none.
pub fn file(path: &str) -> Option<Response<Body>> {
    let name = if path == "/" { "index.html" } else { path.strip_prefix('/')? };
    let kind = kind_of(name)?;
    let body = match Files::get(name) {
        Some(file) => Body::from(file.data),
        None if path == "/" => Body::from(NOT_BUILT),
        None => return None,
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Some(response)
}

/// What a page may consist of.
fn kind_of(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}
