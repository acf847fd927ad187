//! Headers of answers: what a browser may do with them. Nothing is loaded from elsewhere, no script stands in a page, and no other site
//! may show a page or read from it.

use crate::answer::Answer;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};

/// What a page may do.
const PAGE: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
     frame-src 'self'; frame-ancestors 'none'; base-uri 'none'",
);
/// What a report may do, which has its script and its style in itself, in a frame of ours or alone: the browser gives it an origin of its
/// own, so that its script reaches neither the cookie nor the page.
const SANDBOXED: HeaderValue = HeaderValue::from_static(
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     img-src data: blob:; font-src data:; form-action 'none'; frame-ancestors 'self'; base-uri 'none'",
);
const RESOURCES: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENERS: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// Marks an answer as a document that a report is.
pub fn sandbox(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, SANDBOXED);
    answer.headers_mut().insert(X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    answer
}

/// Adds what each answer has, unless it says otherwise.
pub fn complete(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    let is_sandboxed = headers.contains_key(CONTENT_SECURITY_POLICY);
    if !is_sandboxed {
        headers.insert(CONTENT_SECURITY_POLICY, PAGE);
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        // A browser shows no document that is sandboxed with it.
        headers.insert(OPENERS, SAME_ORIGIN);
    }
    headers.insert(RESOURCES, SAME_ORIGIN);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // `no-referrer` would make the origin of our own forms unknown.
    headers.insert(REFERRER_POLICY, SAME_ORIGIN);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}
