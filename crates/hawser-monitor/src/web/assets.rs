use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

/// A file of the dashboard, embedded in the program.
#[derive(Clone)]
pub(super) struct Asset {
    pub(super) path: String,
    kind: &'static str,
    body: Bytes,
    /// Identifier of its content, in quotes.
    tag: String,
}

/// Returns all files of the dashboard.
pub(super) fn all() -> impl Iterator<Item = Asset> {
    FILES.iter().map(|(name, text)| {
        let hash = digest(&SHA256, text.as_bytes());
        Asset {
            path: match *name {
                "index.html" => "/".to_owned(),
                name => format!("/{name}"),
            },
            kind: kind(name),
            body: Bytes::from_static(text.as_bytes()),
            tag: format!("\"{}\"", URL_SAFE_NO_PAD.encode(hash)),
        }
    })
}

impl Asset {
    /// Returns the file, unless the browser has it.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        // Browsers must ask each time, so that no page of an earlier release stays in use.
        let cached = [(ETAG, self.tag.as_str()), (CACHE_CONTROL, "no-cache")];
        let known = headers.get_all(IF_NONE_MATCH).iter();
        let mut known = known.filter_map(|value| value.to_str().ok());
        if known.any(|list| list.split(',').any(|tag| tag.trim() == self.tag)) {
            return (StatusCode::NOT_MODIFIED, cached).into_response();
        }
        (cached, [(CONTENT_TYPE, self.kind)], self.body.clone()).into_response()
    }
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../assets/", $name)))),+]
    };
}

/// All files of the folder.
const FILES: &[(&str, &str)] = files![
    "api.js",
    "app.js",
    "change.js",
    "chart.js",
    "dom.js",
    "events.js",
    "flows.js",
    "icon.svg",
    "index.html",
    "links.js",
    "load.js",
    "policy.js",
    "samples.js",
    "style.css",
];
