//! What a notification to a subscriber delivers.

use crate::content::Contents;
use crate::driver::Event;
use plimsoll_model::Nanos;

/// Tells of every message in a notification; of one without a marker, too.
pub fn notify(
    contents: &Contents,
    subscriber: u32,
    (at, lag): (Nanos, Option<Nanos>),
    body: &[u8],
    events: &mut Vec<Event>,
) {
    if !notify_marked(contents, subscriber, (at, lag), body, events) {
        let content = body.len() as u32;
        events.push(Event::Received {
            subscriber,
            marker: None,
            at,
            lag,
            retained: false,
            content,
            partition: 0,
        });
    }
}

/// Tells of every message with a marker, and returns whether there was one.
pub fn notify_marked(
    contents: &Contents,
    subscriber: u32,
    (at, lag): (Nanos, Option<Nanos>),
    body: &[u8],
    events: &mut Vec<Event>,
) -> bool {
    // All of a batch came together; its bytes are counted once.
    let mut content = body.len() as u32;
    contents.each_marker(body, &mut |marker| {
        let (marker, content) = (Some(marker), std::mem::take(&mut content));
        events.push(Event::Received { subscriber, marker, at, lag, retained: false, content, partition: 0 });
    })
}
