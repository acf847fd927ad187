//! Requests to JetStream and its answers, as JSON texts (NATS documentation, "JetStream wire API reference").

use plimsoll_model::Nanos;
use serde_json::{Value, json};

/// How long a consumer without anybody who receives is kept, in nanoseconds: those of a run that was killed go by themselves.
const INACTIVE: u64 = 300_000_000_000;
/// How long a message may wait for the acknowledgement of the only one to whom a consumer brings it, in nanoseconds. What a lost connection
/// has cost comes by a new consumer, not by the end of that time.
const LONGEST_WORK: u64 = 3_600_000_000_000;
/// The same beyond the work on a message, where several share a consumer: what was brought to a member that is gone comes to another one
/// after that. Servers have the same by default.
const SHARED_WAIT: Nanos = Nanos::from_secs(30);
/// The code of an error: the stream does not exist.
const NO_STREAM: u64 = 10_059;
/// The code of an error: the consumer does not exist.
const NO_CONSUMER: u64 = 10_014;
/// The code of an error: a stream of that name exists and is another one.
const NAME_IN_USE: u64 = 10_058;
/// The code of an error: another stream takes some of the subjects.
const OVERLAP: u64 = 10_065;

/// The subject and the text of a request that makes a stream for these subjects, or finds that it has been made the same way.
pub fn create_stream(stream: &str, subject: &str, storage: &str) -> (String, String) {
    let wanted = json!({ "name": stream, "subjects": [subject], "storage": storage, "num_replicas": 1 });
    (format!("$JS.API.STREAM.CREATE.{stream}"), wanted.to_string())
}

/// The subject of a request that removes a stream.
pub fn delete_stream(stream: &str) -> String {
    format!("$JS.API.STREAM.DELETE.{stream}")
}

/// The subject of a request that asks for a stream.
pub fn stream_info(stream: &str) -> String {
    format!("$JS.API.STREAM.INFO.{stream}")
}

/// The subject and the text of a request for a consumer that pushes what comes at a filter to a subject, and awaits the
/// acknowledgement of each message. It begins behind the message of that number, or with what is new. With a group, all its members
/// ask for the same one, and each works so long on a message.
pub fn create_consumer(
    stream: &str,
    (filter, behind): (&str, Option<u64>),
    deliver: &str,
    group: Option<(&str, Nanos)>,
) -> (String, String) {
    let mut config = json!({
        "deliver_subject": deliver,
        "filter_subject": filter,
        "deliver_policy": "new",
        "ack_policy": "explicit",
        // A platform that waits for acknowledgements would send less than was due without a sign of it.
        "max_ack_pending": -1,
        // Who works long on a message would get it again.
        "ack_wait": LONGEST_WORK,
        "inactive_threshold": INACTIVE,
    });
    if let Some(behind) = behind {
        config["deliver_policy"] = "by_start_sequence".into();
        config["opt_start_seq"] = behind.saturating_add(1).into();
    }
    let subject = match group {
        Some((group, work)) => {
            config["durable_name"] = group.into();
            config["deliver_group"] = group.into();
            config["ack_wait"] = (SHARED_WAIT + work).0.into();
            format!("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{group}")
        }
        None => format!("$JS.API.CONSUMER.CREATE.{stream}"),
    };
    (subject, json!({ "stream_name": stream, "config": config }).to_string())
}

/// The subject of a request that asks for a consumer.
pub fn consumer_info(stream: &str, consumer: &str) -> String {
    format!("$JS.API.CONSUMER.INFO.{stream}.{consumer}")
}

/// The name of a consumer, by the answer about it.
pub fn name_of_consumer(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    answer.get("name")?.as_str().map(str::to_owned)
}

/// Whether a consumer is gone, or its stream, by the answer about it.
pub fn is_gone(answer: &[u8]) -> bool {
    let answer: Option<Value> = serde_json::from_slice(answer).ok();
    matches!(answer.and_then(|answer| code(answer.get("error")?)), Some(NO_CONSUMER | NO_STREAM))
}

/// The number of the last message of a stream, by the answer about the stream.
pub fn last_of_stream(answer: &[u8]) -> Option<u64> {
    number(answer, "/state/last_seq")
}

/// When a stream was made, by the answer about the stream, in the server's words. One that was lost and made again has another time.
pub fn birth_of_stream(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    answer.get("created")?.as_str().map(str::to_owned)
}

/// The number of the message behind which a consumer begins, by the answer about the consumer.
pub fn begin_of_consumer(answer: &[u8]) -> Option<u64> {
    number(answer, "/delivered/stream_seq")
}

fn number(answer: &[u8], pointer: &str) -> Option<u64> {
    serde_json::from_slice::<Value>(answer).ok()?.pointer(pointer)?.as_u64()
}

/// The number that a message has in its stream, by the subject at which its acknowledgement is awaited: `$JS.ACK.`, with domain and
/// account since version 2.10 or without them, then stream, consumer, how often it was delivered, and that number.
pub fn number_of_message(reply: &str) -> Option<u64> {
    let place = if reply.split('.').count() > 10 { 7 } else { 5 };
    reply.split('.').nth(place)?.parse().ok()
}

/// Why a request was refused, for people, with what to do where that is known; `None` where it was not.
pub fn refusal(answer: &[u8]) -> Option<String> {
    // Nearly all answers are acknowledgements, which name no error.
    memchr::memmem::find(answer, b"\"error\"")?;
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let error = answer.get("error")?;
    let description = error.get("description").and_then(Value::as_str).unwrap_or("no reason given");
    let code = code(error);
    let advice = match code {
        Some(NO_STREAM) => "; make the stream before, or write `nats.create_stream: memory`",
        Some(OVERLAP) => "; write the name of that stream at `nats.stream`, or remove it",
        Some(NAME_IN_USE) => "; write another name at `nats.stream`",
        _ => "",
    };
    let code = code.map(|code| format!(" (code {code})")).unwrap_or_default();
    Some(format!("{description}{code}{advice}"))
}

/// Whether a stream was not made because another one takes some of its subjects.
pub fn overlaps(answer: &[u8]) -> bool {
    let answer: Option<Value> = serde_json::from_slice(answer).ok();
    answer.and_then(|answer| code(answer.get("error")?)) == Some(OVERLAP)
}

fn code(error: &Value) -> Option<u64> {
    error.get("err_code").and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_with_what_to_do() {
        assert_eq!(refusal(br#"{"stream":"S","seq":7}"#), None);
        let missing =
            br#"{"type":"x","error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        let told = refusal(missing).unwrap();
        assert!(told.starts_with("stream not found (code 10059); make the stream before"), "{told}");
        assert_eq!(refusal(br#"{"error":{}}"#).as_deref(), Some("no reason given"));
        assert_eq!(refusal(br#"{"error"#), None);
    }

    #[test]
    fn members_of_a_group_ask_for_the_same_consumer() {
        let (subject, text) = create_consumer("S", ("a.>", None), "d.1", Some(("g", Nanos::from_secs(2))));
        assert_eq!(subject, "$JS.API.CONSUMER.DURABLE.CREATE.S.g");
        let asked: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&asked["config"]["deliver_group"], &asked["stream_name"]), (&"g".into(), &"S".into()));
        assert_eq!(
            asked["config"]["ack_wait"], 32_000_000_000_u64,
            "what a dead member had comes to another one"
        );
        let (subject, text) = create_consumer("S", ("a.>", None), "d.1", None);
        assert_eq!(subject, "$JS.API.CONSUMER.CREATE.S");
        assert!(!text.contains("durable_name") && text.contains("\"new\""));
        let (_, text) = create_consumer("S", ("a.>", Some(7)), "d.1", None);
        assert!(text.contains("\"opt_start_seq\":8") && text.contains("\"by_start_sequence\""), "{text}");
    }

    #[test]
    fn numbers_are_read_of_answers_and_of_subjects() {
        let stream = br#"{"created":"2026-01-01T00:00:00.5Z","state":{"last_seq":9}}"#;
        assert_eq!(last_of_stream(stream), Some(9));
        assert_eq!(birth_of_stream(stream).as_deref(), Some("2026-01-01T00:00:00.5Z"));
        assert_eq!(begin_of_consumer(br#"{"delivered":{"stream_seq":4}}"#), Some(4));
        assert_eq!(begin_of_consumer(b"{"), None);
        assert_eq!(number_of_message("$JS.ACK.S.c.1.12.3.1700000000000000000.0"), Some(12));
        assert_eq!(number_of_message("$JS.ACK.d.a.S.c.1.12.3.1700000000000000000.0.x"), Some(12));
        assert_eq!(number_of_message("a.b"), None);
    }
}
