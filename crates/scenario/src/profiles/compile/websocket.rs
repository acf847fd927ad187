//! What clients say over a WebSocket beside messages.

use super::receives::{OF_RECEIVER, is_about_a_device, is_about_one};
use super::{ABOUT_ONE, Compiler, HELP_ABOUT_ONE, OF_ALL, OF_DEVICE, is_http_token};
use crate::plan::{CapturedName, OpeningPlan, Piece, Protocol, SocketIoPlan, Template, WebSocketRole};
use crate::profiles::roles::{Device, WebSocketConfig};
use plimsoll_codec::socket_io;

impl Compiler<'_> {
    /// What devices say.
    pub(super) fn websocket_of_device(
        &mut self,
        device: &Device,
        protocol: Protocol,
        captured: &[CapturedName],
    ) -> WebSocketRole {
        let Some(written) = &device.websocket else { return WebSocketRole::default() };
        if protocol != Protocol::WebSocket {
            let help = "write `speaks: websocket`, or remove it".to_owned();
            self.error("device.websocket", format!("devices speak {protocol} here"), help);
        }
        if written.port.is_some() {
            let help = "remove it: the platform's address is that of devices".to_owned();
            self.error("device.websocket.port", "devices have no port of their own", help);
        }
        let is_unanswered = written.answered == Some(false);
        if is_unanswered
            && device.answer.as_ref().is_some_and(|answer| answer.id.is_some() || !answer.types.is_empty())
        {
            let help = "remove `answered: false`, or the answer".to_owned();
            self.error("device.websocket.answered", "answers are described, and none is awaited", help);
        }
        let mut role = self.websocket(written, ("device.websocket", OF_DEVICE), captured);
        if let Some(socket_io) = &mut role.socket_io {
            socket_io.acknowledges = device.answer.is_none() && !is_unanswered;
        }
        WebSocketRole { is_unanswered, ..role }
    }

    /// What subscribers say that receive over WebSockets of their own.
    pub(super) fn websocket_of_subscriber(
        &mut self,
        written: &WebSocketConfig,
        captured: &[CapturedName],
    ) -> WebSocketRole {
        if written.answered.is_some() {
            let help = "remove it".to_owned();
            self.error("subscriber.websocket.answered", "subscribers send no messages", help);
        }
        let role = self.websocket(written, ("subscriber.websocket", OF_RECEIVER), captured);
        let headers = role.headers.iter().map(|(name, value)| (format!("headers.{name}"), value));
        let auth = role.socket_io.as_ref().map(|socket_io| ("auth".to_owned(), &socket_io.auth));
        for (key, _) in headers.chain(auth).filter(|(_, value)| is_about_a_device(value, captured)) {
            let help = "say it in a message of `opening`".to_owned();
            let at = format!("subscriber.websocket.{key}");
            self.error(&at, "a subscriber has one connection for all devices", help);
        }
        role
    }

    /// What the controller or a querier says beside its messages, which is the same whoever those are about.
    pub(super) fn websocket_of_all(
        &mut self,
        written: &WebSocketConfig,
        path: &str,
        captured: &[CapturedName],
    ) -> WebSocketRole {
        for (key, is_there) in [("answered", written.answered.is_some()), ("port", written.port.is_some())] {
            if is_there {
                let help = "write it into `says`, or remove it".to_owned();
                self.error(&format!("{path}.{key}"), "it is said of each message", help);
            }
        }
        let role = self.websocket(written, (path, OF_ALL), captured);
        let headers = role.headers.iter().map(|(_, value)| value);
        let auth = role.socket_io.iter().map(|socket_io| &socket_io.auth);
        let opening = role.opening.iter().map(|said| &said.message);
        if headers.chain(auth).chain(opening).any(|text| is_about_one(text, captured)) {
            self.error(path, ABOUT_ONE, HELP_ABOUT_ONE.to_owned());
        }
        role
    }

    fn websocket(
        &mut self,
        written: &WebSocketConfig,
        (path, variables): (&str, &[&str]),
        captured: &[CapturedName],
    ) -> WebSocketRole {
        let is_socket_io = written.is_socket_io();
        let usual_path = is_socket_io.then(|| socket_io::PATH.to_owned());
        let own_path = written.path.as_ref().map(|text| self.fill(text)).or(usual_path);
        if own_path
            .as_ref()
            .is_some_and(|own| !own.starts_with('/') || own.contains(|c: char| c.is_control() || c == ' '))
        {
            let help = "write it from its first slash on, without blanks".to_owned();
            self.error(&format!("{path}.path"), "this is no path", help);
        }
        let subprotocol = written.subprotocol.as_ref().map(|text| self.fill(text));
        if subprotocol.as_ref().is_some_and(|name| !is_http_token(name)) {
            let help = "write one name, such as `oneM2M.json`".to_owned();
            self.error(&format!("{path}.subprotocol"), "this is no name of a subprotocol", help);
        }
        let headers = self.headers(&written.headers, variables, path, captured);
        let is_own = |name: &str| name == "upgrade" || name.starts_with("sec-websocket-");
        for name in written.headers.keys().filter(|name| is_own(&name.to_ascii_lowercase())) {
            let at = format!("{path}.headers.{name}");
            let help = "remove it; `subprotocol` asks for one".to_owned();
            self.error(&at, format!("`{name}` is added by itself"), help);
        }
        if written.auth.is_some() && !is_socket_io {
            let help = "write `framing: socket_io`, or a message of `opening`".to_owned();
            self.error(&format!("{path}.auth"), "only Socket.IO lets clients in by itself", help);
        }
        let socket_io = is_socket_io.then(|| {
            let auth = written.auth.as_deref().unwrap_or_default();
            let auth = self.template(auth, variables, &format!("{path}.auth"), captured);
            SocketIoPlan { auth, acknowledges: false }
        });
        let mut opening = Vec::new();
        for (position, said) in written.opening.iter().enumerate() {
            let path = format!("{path}.opening.{position}");
            let message = self.template(&said.message, variables, &format!("{path}.message"), captured);
            if is_socket_io {
                self.check_event(&message, &format!("{path}.message"));
            }
            let answer = said
                .answer
                .as_ref()
                .map(|answer| self.answer_of_one(answer, (&path, Protocol::WebSocket), variables, captured));
            let of_each_device = is_about_a_device(&message, captured);
            opening.push(OpeningPlan { message, of_each_device, answer });
        }
        WebSocketRole {
            port: written.port.clone(),
            path: own_path,
            subprotocol,
            headers,
            is_compressed: written.compression,
            socket_io,
            opening,
            is_unanswered: false,
        }
    }

    /// Over Socket.IO each message is an array of JSON.
    pub(super) fn check_event(&mut self, message: &Template, path: &str) {
        let is_array =
            matches!(message.pieces.first(), Some(Piece::Text(text)) if text.trim_start().starts_with('['));
        if !is_array {
            let help = "write it such as `[\"name\",{...}]`".to_owned();
            self.error(path, "an event of Socket.IO is an array of JSON", help);
        }
    }
}
