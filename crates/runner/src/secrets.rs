//! What a run knows and its store must not: values from the environment, passwords, and what is shown for an access token.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plimsoll_codec::credentials::query_secrets;
use plimsoll_codec::hiding::hide;
use plimsoll_scenario::plan::{Grant, Plan, TokenEndpoint};

/// Shorter ones are found in texts that have nothing to do with them.
const SHORTEST: usize = 4;

/// The secrets of a plan.
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Of a plan.
    pub fn of(plan: &Plan) -> Secrets {
        let mut plain: Vec<&str> = Vec::new();
        let mut forms = Vec::new();
        for plan in plan.populations() {
            plain.extend(plan.secrets().map(|secret| secret.0.as_str()));
            let Some(terms) = &plan.platform.roles.token else { continue };
            if let TokenEndpoint::Url(url) = &terms.endpoint {
                forms.extend(query_secrets(url));
            }
            if let Grant::Password { password, .. } = &terms.grant {
                plain.push(&password.0);
            }
            if let Some(secret) = &terms.client_secret {
                plain.push(&secret.0);
                forms.push(shown(&terms.client_id, &secret.0));
            }
        }
        forms.extend(plain.into_iter().map(str::to_owned));
        forms.retain(|form| form.len() >= SHORTEST);
        // A longer one may have a shorter one in it.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Secrets(forms)
    }

    /// A text with asterisks in the place of each of them.
    pub fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| hide(&text, secret))
    }
}

/// What the header Authorization shows of a client (RFC 6749 section 2.3.1).
pub(crate) fn shown(id: &str, secret: &str) -> String {
    BASE64_STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)))
}

/// A value as a form carries it (application/x-www-form-urlencoded).
pub(crate) fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'*' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
