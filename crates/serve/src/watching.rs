//! Follows runs for those who look at them. One task reads what a run says of itself, however many look, and only while somebody does; the
//! run itself knows nothing of it. A page that comes late, or again, gets what holds now.

use crate::answer::{self, Answer};
use crate::job_page::{chart, shown};
use crate::jobs::{Job, JobId};
use crate::site::Site;
use bytes::Bytes;
use futures_util::stream::unfold;
use maud::Markup;
use plimsoll_report::plain;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::{sleep, timeout};

/// How often it is looked what a run says: it speaks twice a second.
const LOOK: Duration = Duration::from_millis(250);
/// After so long without news something is sent all the same, so that who has gone away is noticed.
const BEAT: Duration = Duration::from_secs(15);
/// Milliseconds after which a browser connects again.
const AGAIN: &str = "retry: 1000\n\n";

/// What is shown of a run.
#[derive(Clone)]
struct View {
    markup: Arc<str>,
    /// It changes less often than the figures.
    chart: Arc<str>,
    is_over: bool,
}

/// The runs that are followed.
#[derive(Default)]
pub struct Watching {
    followed: Mutex<HashMap<JobId, Sender<View>>>,
}

/// Answers with the events of a run (server-sent events, HTML Living Standard 9.2): each has figures or a chart to be shown, and the last one
/// says that the run is over.
pub fn events(site: &Arc<Site>, job: &Job, permit: OwnedSemaphorePermit) -> Answer {
    let news = follow(site, job);
    let seen: Arc<str> = Arc::default();
    let stream = unfold((Next::Begin, news, seen, permit), |(next, mut news, mut seen, permit)| async move {
        let text = match next {
            Next::Begin => {
                news.mark_changed();
                AGAIN.to_owned()
            }
            Next::End => return None,
            Next::News => match timeout(BEAT, news.changed()).await {
                Err(_) => ":\n\n".to_owned(),
                // Who reads it is gone: the browser comes again.
                Ok(Err(_)) => return None,
                Ok(Ok(())) => {
                    let view = news.borrow_and_update().clone();
                    let mut text = event("now", &view.markup);
                    if view.chart != seen {
                        text += &event("chart", &view.chart);
                        seen = view.chart;
                    }
                    if view.is_over {
                        let last = text + &event("over", "");
                        return Some((Ok(Bytes::from(last)), (Next::End, news, seen, permit)));
                    }
                    text
                }
            },
        };
        Some((Ok(Bytes::from(text)), (Next::News, news, seen, permit)))
    });
    answer::stream("text/event-stream", stream)
}

/// Where a stream is.
enum Next {
    Begin,
    News,
    End,
}

/// An event of that name. A line of its data begins with its name.
fn event(name: &str, data: &str) -> String {
    let lines: String = data.lines().map(|line| format!("data: {line}\n")).collect();
    let lines = if lines.is_empty() { "data:\n".to_owned() } else { lines };
    format!("event: {name}\n{lines}\n")
}

/// News of a job: those of the task that follows it already, or of a new one.
fn follow(site: &Arc<Site>, job: &Job) -> Receiver<View> {
    let mut followed = site.watching.followed.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = followed.get(&job.id) {
        return sender.subscribe();
    }
    let (sender, receiver) = channel(view(job));
    followed.insert(job.id.clone(), sender.clone());
    tokio::spawn(keep_up(Arc::clone(site), job.clone(), sender));
    receiver
}

fn view(job: &Job) -> View {
    View { markup: drawn(shown(job)), chart: drawn(chart(job)), is_over: job.is_over() }
}

fn drawn(markup: Markup) -> Arc<str> {
    plain::page(markup.into_string()).into()
}

/// The same of a job that was seen before: its chart is drawn again where there is something new in it.
fn view_after(last: (&Job, Arc<str>), job: &Job) -> View {
    let (before, chart) = last;
    let past = |job: &Job| job.now.as_ref().map(|now| now.past.last().cloned());
    let is_same = past(before) == past(job) && before.goes_on == job.goes_on;
    let chart = if is_same { chart } else { drawn(self::chart(job)) };
    View { markup: drawn(shown(job)), chart, is_over: job.is_over() }
}

/// Reads what a job says again and again, as long as it goes on and somebody looks.
async fn keep_up(site: Arc<Site>, mut last: Job, sender: Sender<View>) {
    let id = last.id.clone();
    loop {
        let (own, asked) = (Arc::clone(&site), id.clone());
        // A few small files.
        let read = tokio::task::spawn_blocking(move || own.jobs.job(&asked)).await;
        let Ok(Some(job)) = read else { break };
        // A run whose turn has come has another page: one on which it can be stopped.
        let is_over = job.is_over() || last.waits.is_some() && job.waits.is_none();
        if job != last {
            let chart = Arc::clone(&sender.borrow().chart);
            sender.send_replace(View { is_over, ..view_after((&last, chart), &job) });
            last = job;
        }
        if is_over {
            break;
        }
        sleep(LOOK).await;
        let mut followed = site.watching.followed.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody comes in between: who follows takes the same lock.
        if sender.receiver_count() == 0 {
            followed.remove(&id);
            return;
        }
    }
    site.watching.followed.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_name_and_lines_of_data() {
        assert_eq!(event("now", "<p>\na</p>"), "event: now\ndata: <p>\ndata: a</p>\n\n");
        assert_eq!(event("over", ""), "event: over\ndata:\n\n");
        // What ends a line in HTML cannot end one of the stream.
        assert_eq!(event("now", &plain::page("a\r\ndata: b\rc".into())).matches("data: ").count(), 3);
    }
}
