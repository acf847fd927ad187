//! What a device's messages are as requests.

use crate::content::Contents;
use crate::drivers::words;
use crate::run_context::{RunContext, View};
use plimsoll_model::RunId;
use plimsoll_scenario::plan::{Plan, RequestPlan};
use std::io::{self, Write};
use std::sync::Arc;

/// Writes requests as the plan says.
pub struct Requests {
    host: String,
    /// Method and URL of the requests, for people; what differs from message to message keeps its name.
    target: String,
    /// Path before that of every request.
    base: String,
    plan: RequestPlan,
    /// Whether the body is a device's message; else it is that of a query.
    says_message: bool,
    contents: Contents,
    content: Vec<u8>,
    /// The generation of the access token in the request written last.
    generation: u64,
}

impl Requests {
    /// Requests of the devices of a run to a host; captures may come later.
    ///
    /// # Errors
    /// The plan says no request.
    pub fn new(plan: &Plan, run: RunId, host: String, run_context: &Arc<RunContext>) -> io::Result<Requests> {
        Requests::with(plan, run, host, run_context, plan.platform.roles.device.request.as_ref())
    }

    /// Queries of a run to a host.
    ///
    /// # Errors
    /// The plan says no query.
    pub fn of_queries(
        plan: &Plan,
        run: RunId,
        host: String,
        run_context: &Arc<RunContext>,
    ) -> io::Result<Requests> {
        let request = plan.platform.roles.query.as_ref().map(|query| &query.request);
        let queries = Requests::with(plan, run, host, run_context, request)?;
        Ok(Requests { says_message: false, ..queries })
    }

    fn with(
        plan: &Plan,
        run: RunId,
        host: String,
        run_context: &Arc<RunContext>,
        request: Option<&RequestPlan>,
    ) -> io::Result<Requests> {
        let request = request.ok_or_else(|| io::Error::other("the plan says no request"))?.clone();
        let address = plan.platform.address.as_ref();
        let base = address.map_or("", |address| address.path.trim_end_matches('/')).to_owned();
        let target = words::target(&request.method, &place(plan, &host, &base), &request.path.text());
        Ok(Requests {
            host,
            target,
            base,
            plan: request,
            says_message: true,
            contents: Contents::new(plan, run).in_context(run_context),
            content: Vec::new(),
            generation: 0,
        })
    }

    /// Method and URL, for people; what differs from message to message keeps its name.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Whether answers have no body whatever their heads say: those to HEAD.
    pub fn are_bodiless(&self) -> bool {
        self.plan.method == "HEAD"
    }

    /// Whether an answer with that status means that the platform took the message.
    pub fn is_success(&self, status: u16) -> bool {
        self.plan.is_success(status)
    }

    /// Whether the message is to be sent again after an answer with that status.
    pub fn is_to_be_repeated(&self, status: u16) -> bool {
        self.plan.retry.contains(&status)
    }

    /// Whether the message is to be sent again after its connection was lost without an answer.
    pub fn is_to_be_repeated_when_lost(&self) -> bool {
        self.plan.retry_lost
    }

    /// The generation of the access token in the request that was written last.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What the runner gives.
    pub fn view(&self) -> &View {
        self.contents.view()
    }

    /// Appends the request of a message; returns the bytes of its body.
    pub fn write(&mut self, device: u32, sequence: u32, out: &mut Vec<u8>) -> u32 {
        self.content.clear();
        self.generation = self.contents.refresh();
        if self.says_message {
            self.contents.render(device, sequence, &mut self.content);
        }
        let plan = &self.plan;
        let variables = self.contents.beside(device, sequence);
        let mut numbers = self.contents.numbers(device, sequence);
        let mut random = || numbers.bits();
        out.extend_from_slice(plan.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.base.as_bytes());
        let start = out.len();
        plan.path.render(&variables, &mut random, out);
        escape_path(out, start);
        self.end_line(out);
        for (name, value) in &plan.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            let start = out.len();
            value.render(&variables, &mut random, out);
            blank_controls(out, start);
            out.extend_from_slice(b"\r\n");
        }
        if !self.says_message {
            plan.body.render(&variables, &mut random, &mut self.content);
            if self.content.is_empty() {
                out.extend_from_slice(b"\r\n");
                return 0;
            }
        }
        // Writing to a Vec cannot fail.
        let _ = write!(out, "Content-Length: {}\r\n\r\n", self.content.len());
        out.extend_from_slice(&self.content);
        self.content.len() as u32
    }

    fn end_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.host.as_bytes());
        out.extend_from_slice(b"\r\n");
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
fn place(plan: &Plan, host: &str, base: &str) -> String {
    let secured = plan.platform.address.as_ref().is_some_and(|address| address.wire.tls);
    format!("{}://{host}{base}", if secured { "https" } else { "http" })
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
