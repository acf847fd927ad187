//! HTTP/1.1 as a plain client speaks it (RFC 9112): POST with a body of known length, answers with one.

use super::Answer;
use std::io::Write;

/// Largest head of an answer, in bytes.
const LARGEST_HEAD: usize = 64 * 1024;
/// Characters of a status line that are shown.
const LONGEST_STATUS: usize = 100;

/// Writes a request to `PATH/TOPIC`.
pub fn request(host: &str, path: &str, topic: &[u8], content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"POST ");
    out.extend_from_slice(path.as_bytes());
    out.push(b'/');
    for &byte in topic {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte);
        } else {
            // Writing to a Vec cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    let _ = write!(
        out,
        " HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    out.extend_from_slice(content);
}

/// Takes an answer off the front of the bytes once it is whole.
pub fn answer(bytes: &mut Vec<u8>) -> Result<Answer, String> {
    loop {
        let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
            return match bytes.len() > LARGEST_HEAD {
                true => Err("the head of an answer is longer than 64 KiB".into()),
                false => Ok(Answer::NotYet),
            };
        };
        let head = std::str::from_utf8(bytes.get(..end).unwrap_or_default());
        let head = head.map_err(|_| "what the platform answers is no HTTP".to_owned())?;
        let mut lines = head.split("\r\n");
        let status_line = lines.next().unwrap_or_default();
        let code: u16 = status_line
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.get(2..5)?.parse().ok())
            .ok_or_else(|| "what the platform answers is no HTTP".to_owned())?;
        let mut stays = status_line.starts_with("HTTP/1.1");
        let mut length = None;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    let number: usize =
                        value.parse().map_err(|_| format!("Content-Length `{value}` is no number"))?;
                    length = Some(number);
                }
                "transfer-encoding" => {
                    return Err(
                        "the platform answers in chunks, which this plain driver does not read".into()
                    );
                }
                "connection" if value.eq_ignore_ascii_case("close") => stays = false,
                "connection" if value.eq_ignore_ascii_case("keep-alive") => stays = true,
                _ => {}
            }
        }
        let bodiless = code == 204 || code == 304 || code < 200;
        let length = match (bodiless, length) {
            (true, _) => 0,
            (false, Some(length)) => length,
            (false, None) => return Err("an answer without Content-Length ends with its connection".into()),
        };
        let whole = end.saturating_add(4).saturating_add(length);
        if whole > super::LARGEST_ANSWER {
            return Err(format!("an answer of {whole} bytes is announced, more than we take"));
        }
        if bytes.len() < whole {
            return Ok(Answer::NotYet);
        }
        let status: String =
            status_line.chars().filter(|character| !character.is_control()).take(LONGEST_STATUS).collect();
        bytes.drain(..whole);
        match code {
            // An interim answer (RFC 9110 section 15.2): the real one follows.
            100..200 => {}
            200..300 => return Ok(Answer::Done { stays }),
            _ => return Ok(Answer::Refused { reason: format!("the platform answered {status}"), stays }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(text: &str) -> String {
        match answer(&mut text.as_bytes().to_vec()) {
            Ok(Answer::NotYet) => "not yet".into(),
            Ok(Answer::Done { stays }) => format!("done {stays}"),
            Ok(Answer::Refused { reason, stays }) => format!("{reason} {stays}"),
            Err(reason) => format!("error: {reason}"),
        }
    }

    #[test]
    fn answers_are_whole_refused_or_wrong() {
        assert_eq!(told("HTTP/1.1 204 No Content\r\n\r\n"), "done true");
        assert_eq!(told("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"), "not yet");
        assert_eq!(told("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close\r\n\r\nok"), "done false");
        assert_eq!(
            told("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"),
            "done true"
        );
        assert_eq!(
            told("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
            "the platform answered HTTP/1.1 503 Busy true"
        );
        for wrong in [
            "SMTP\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
        ] {
            assert!(told(wrong).starts_with("error"), "{wrong:?}: {}", told(wrong));
        }
    }

    #[test]
    fn a_topic_becomes_a_path() {
        let mut out = Vec::new();
        request("h:1", "/in", b"a/b c", b"xy", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("POST /in/a/b%20c HTTP/1.1\r\nHost: h:1\r\n") && text.ends_with("\r\n\r\nxy"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = answer(&mut bytes);
            let mut framed = b"HTTP/1.1 ".to_vec();
            framed.extend(bytes);
            framed.extend(b"\r\n\r\n");
            let _ = answer(&mut framed);
        }
    }
}
