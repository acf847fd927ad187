//! What clients say over a WebSocket beside messages.

use super::{Compiler, OF_DEVICE, is_http_token};
use crate::plan::{CapturedName, Each, OpeningPlan, Piece, Protocol, WebSocketRole};
use crate::profiles::roles::{Device, Subscriber, WebSocketConfig};

/// What may stand in what a subscriber says at first.
const OF_SUBSCRIBER: &[&str] = &["run", "subscriber", "device", "random", "time"];

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
        WebSocketRole { is_unanswered, ..self.websocket(written, ("device.websocket", OF_DEVICE), captured) }
    }

    /// What subscribers say that receive over WebSockets of their own.
    pub(super) fn receives(
        &mut self,
        subscriber: &Subscriber,
        captured: &[CapturedName],
    ) -> Option<WebSocketRole> {
        let written = subscriber.websocket.as_ref()?;
        if subscriber.listens.is_some() || subscriber.observes.is_some() {
            let help = "keep one of `websocket`, `listens` and `observes`".to_owned();
            self.error("subscriber.websocket", "a subscriber is notified in one way", help);
        }
        if written.answered.is_some() {
            let help = "remove it".to_owned();
            self.error("subscriber.websocket.answered", "subscribers send no messages", help);
        }
        Some(self.websocket(written, ("subscriber.websocket", OF_SUBSCRIBER), captured))
    }

    fn websocket(
        &mut self,
        written: &WebSocketConfig,
        (path, variables): (&str, &[&str]),
        captured: &[CapturedName],
    ) -> WebSocketRole {
        let own_path = written.path.as_ref().map(|text| self.fill(text));
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
        let mut opening = Vec::new();
        for (position, said) in written.opening.iter().enumerate() {
            let path = format!("{path}.opening.{position}");
            let message = self.template(&said.message, variables, &format!("{path}.message"), captured);
            let answer =
                said.answer.as_ref().map(|answer| self.opening_answer(answer, variables, &path, captured));
            let is_of_device =
                |name: &str| captured.iter().any(|own| own.name == name && own.each == Each::Device);
            let of_each_device = message.has(&|piece| match piece {
                Piece::Device => true,
                Piece::Captured(_, name) => is_of_device(name),
                _ => false,
            });
            opening.push(OpeningPlan { message, of_each_device, answer });
        }
        WebSocketRole {
            port: written.port.clone(),
            path: own_path,
            subprotocol,
            headers,
            opening,
            is_unanswered: false,
        }
    }
}
