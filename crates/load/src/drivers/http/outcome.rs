//! What an answer means for its message.

use super::requests::Requests;
use crate::drivers::words;
use plimsoll_codec::http::Message;

/// What an answer means for its message.
pub(super) enum Outcome {
    /// The platform took it.
    Taken,
    /// It is to be sent again after a pause.
    ToRepeat,
    /// Why the platform did not take it.
    Refused(String),
}

impl Outcome {
    /// Of an answer with that code and its reason to a message of a device, which was sent so often before.
    pub fn of(
        answer: &Message<'_>,
        (code, reason): (u16, &str),
        requests: &Requests,
        (device, tries): (u32, u32),
    ) -> Outcome {
        if requests.is_success(code) {
            return Outcome::Taken;
        }
        if requests.is_to_be_repeated(code) && requests.retries().goes_on(tries + 1) {
            return Outcome::ToRepeat;
        }
        let whither = match (code, answer.head.field("location")) {
            (300..400, Some(location)) => {
                let location = String::from_utf8_lossy(location);
                format!(
                    " to {location}, which is not followed: write that address in the profile or the scenario"
                )
            }
            _ => String::new(),
        };
        let own = words::own(answer.body);
        let told = format!("the platform answered {code} {reason}{whither}{own}");
        let told = words::refusal(&told, requests.target());
        Outcome::Refused(requests.view().hide_captured(told, (device, 0)))
    }
}
