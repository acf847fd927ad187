//! Tells other programs that a run has ended: a request to each address that the user has named. One that is not taken is made again a few
//! times. A server that ends meanwhile leaves it to the next one of the folder.

use crate::jobs::{Job, JobId, Kind};
use crate::site::Site;
use plimsoll_model::RunId;
use plimsoll_model::text::one_line;
use ring::hmac;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// How often it is looked whether a run has ended.
const LOOK: Duration = Duration::from_secs(1);
/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pauses before further attempts.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120)];
/// The header that shows who has made the message: an HMAC over the body with the secret (RFC 2104, SHA-256).
const SIGNATURE: &str = "X-Plimsoll-Signature";
/// Bytes of an answer that are shown.
const SHOWN: u64 = 200;

/// Who is told.
pub struct Webhooks {
    urls: Vec<String>,
    secret: Option<String>,
    agent: ureq::Agent,
}

impl Webhooks {
    /// Tells these addresses, and signs what it says with that secret.
    pub fn new(urls: Vec<String>, secret: Option<String>) -> Webhooks {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            // What was signed is for that address alone.
            .max_redirects(0);
        Webhooks { urls, secret, agent: ureq::Agent::new_with_config(config.build()) }
    }

    /// Whether anybody is told.
    pub fn are_any(&self) -> bool {
        !self.urls.is_empty()
    }

    /// Tells one of them; why it has not taken it.
    fn tell(&self, url: &str, message: &str) -> Result<(), String> {
        let mut post = self.agent.post(url).header("Content-Type", "application/json");
        if let Some(secret) = &self.secret {
            post = post.header(SIGNATURE, &signature(secret, message));
        }
        let mut answer = post.send(message).map_err(|error| error.to_string())?;
        if answer.status().is_success() {
            return Ok(());
        }
        let mut said = Vec::new();
        // What cannot be read is not shown.
        let _ = answer.body_mut().as_reader().take(SHOWN).read_to_end(&mut said);
        Err(format!(
            "HTTP {}: {}",
            answer.status(),
            one_line(&String::from_utf8_lossy(&said), SHOWN as usize)
        ))
    }
}

fn signature(secret: &str, message: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, message.as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

/// What was tried for a run that has ended.
struct Attempts {
    /// Places of the addresses that have not taken it.
    left: Vec<usize>,
    made: usize,
    next: Instant,
}

/// Tells of runs that end, for ever.
pub async fn keep(site: &Arc<Site>) {
    if !site.webhooks.are_any() {
        return std::future::pending().await;
    }
    let mut known = HashMap::new();
    loop {
        sleep(LOOK).await;
        let own = Arc::clone(site);
        // Who waits for a receiver keeps no page waiting.
        let looked = spawn_blocking(move || {
            look(&own, &mut known);
            known
        });
        known = looked.await.unwrap_or_default();
    }
}

fn look(site: &Site, known: &mut HashMap<JobId, Attempts>) {
    for job in site.jobs.to_be_told() {
        // Its exit code may come a moment after its end.
        let fresh = || Attempts {
            left: (0..site.webhooks.urls.len()).collect(),
            made: 0,
            next: Instant::now() + LOOK,
        };
        let attempts = known.entry(job.id.clone()).or_insert_with(fresh);
        if Instant::now() < attempts.next {
            continue;
        }
        let message = message(site, &job).to_string();
        let mut problems = Vec::new();
        attempts.left.retain(|place| {
            let Some(url) = site.webhooks.urls.get(*place) else { return false };
            let told = site.webhooks.tell(url, &message);
            problems.extend(told.as_ref().err().map(|why| format!("webhook {}: {why}", place + 1)));
            told.is_err()
        });
        match PAUSES.get(attempts.made).filter(|_| !attempts.left.is_empty()) {
            Some(pause) => {
                attempts.made += 1;
                attempts.next = Instant::now() + *pause;
            }
            None => {
                site.jobs.was_told(&job.id, &problems);
                known.remove(&job.id);
            }
        }
    }
}

/// What is said of a run that has ended.
fn message(site: &Site, job: &Job) -> Value {
    let id = job.now.as_ref().filter(|_| job.kind == Kind::Run).and_then(|now| RunId::parse(&now.run));
    let run = id.and_then(|id| site.archive.run(id).ok()).map(|told| {
        let (record, summary) = (told.record, told.summary);
        json!({ "id": record.id, "name": record.name, "verdict": summary.verdict.name(), "reason": summary.reason })
    });
    let path = match (&id, job.has_report) {
        (Some(id), _) => format!("/runs/{id}"),
        (None, true) => format!("/jobs/{}/report", job.id),
        (None, false) => format!("/jobs/{}", job.id),
    };
    json!({
        "event": if job.not_started.is_some() { "not_started" } else { "ended" },
        "job": job.id.to_string(),
        "kind": job.kind,
        "scenarios": job.scenarios,
        "not_started": job.not_started,
        "exit": job.exit,
        "run": run,
        "path": path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_signed() {
        // The second test case of RFC 4231.
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signature("Jefe", "what do ya want for nothing?"), expected);
    }
}
