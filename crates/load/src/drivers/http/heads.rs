//! What requests begin with: the line with method and path, and the header fields.

use crate::drivers::words;
use plimsoll_scenario::plan::{Plan, RequestPlan, Template, Variables};
use std::io::Write;

/// Writes the heads of requests of one kind.
pub struct Heads {
    host: String,
    /// Method and URL of the requests, for people; what differs from one to the next keeps its name.
    target: String,
    /// Path before that of every request.
    base: String,
    plan: RequestPlan,
}

impl Heads {
    /// Of these requests, to a host as the user names it, over TLS or not.
    pub fn new(plan: &Plan, (host, is_secured): (String, bool), request: RequestPlan) -> Heads {
        let address = plan.platform.address.as_ref();
        let base = address.map_or("", |address| address.path.trim_end_matches('/')).to_owned();
        let target = words::target(&request.method, &place(is_secured, &host, &base), &request.path.text());
        Heads { host, target, base, plan: request }
    }

    /// What the requests are.
    pub fn plan(&self) -> &RequestPlan {
        &self.plan
    }

    /// Method and URL, for people; what differs from one request to the next keeps its name.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Appends the head of a request to that path, as far as its variables say it: neither a length nor the empty line is there.
    pub fn write(
        &self,
        path: &Template,
        variables: &Variables<'_>,
        random: &mut dyn FnMut() -> u64,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(self.plan.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.base.as_bytes());
        let start = out.len();
        path.render(variables, random, out);
        escape_path(out, start);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.host.as_bytes());
        out.extend_from_slice(b"\r\n");
        for (name, value) in &self.plan.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            let start = out.len();
            value.render(variables, random, out);
            blank_controls(out, start);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Which bytes may stand in a path: each request looks at each of its own.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b'!';
    while byte < 0x7f {
        plain[byte as usize] = !matches!(
            byte,
            b'"' | b'#' | b'<' | b'>' | b'[' | b']' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
        );
        byte += 1;
    }
    plain
};

/// Percent-encodes what may not stand in a path or its query (RFC 3986 sections 2.1 and 3.3): a row of a feed or an answer of the
/// platform may hold it.
fn escape_path(out: &mut Vec<u8>, start: usize) {
    let may_stand = |byte: u8| PLAIN.get(usize::from(byte)).is_some_and(|plain| *plain);
    if out.iter().skip(start).all(|byte| may_stand(*byte)) {
        return;
    }
    for byte in out.split_off(start) {
        if !may_stand(byte) {
            // Writing to a Vec cannot fail.
            let _ = write!(out, "%{byte:02X}");
        } else {
            out.push(byte);
        }
    }
}

/// Puts a blank for what would end a header, as RFC 9110 section 5.5 has it.
fn blank_controls(out: &mut [u8], start: usize) {
    for byte in out.iter_mut().skip(start).filter(|byte| byte.is_ascii_control() && **byte != b'\t') {
        *byte = b' ';
    }
}

/// What stands before the path of each request.
fn place(is_secured: bool, host: &str, base: &str) -> String {
    format!("{}://{host}{base}", if is_secured { "https" } else { "http" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_ends_a_path_or_a_header() {
        let mut out = b"GET /a\r\nX: 1 \x7f\xc3\xa4".to_vec();
        escape_path(&mut out, 4);
        assert_eq!(out, b"GET /a%0D%0AX:%201%20%7F%C3%A4");
        let mut out = b"/a-b_c.d~e/%20?f=g&h=(i),j;k:l@m!$'*+ \"#<>[]\\^`{|}".to_vec();
        escape_path(&mut out, 0);
        assert_eq!(out, b"/a-b_c.d~e/%20?f=g&h=(i),j;k:l@m!$'*+%20%22%23%3C%3E%5B%5D%5C%5E%60%7B%7C%7D");
        let mut out = b"A: b\r\nC: d\te".to_vec();
        blank_controls(&mut out, 3);
        assert_eq!(out, b"A: b  C: d\te");
    }
}
