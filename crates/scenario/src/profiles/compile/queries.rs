//! What queriers ask, and over what.

use super::{Compiler, OF_ALL, QUERY};
use crate::plan::{Ask, CapturedName, Protocol, QueryPlan, RequestPlan, SaidPlan, WebSocketRole};
use crate::profiles::roles::{Querier, Request, Says, Speaks, WebSocketConfig};

/// What may stand in a query that is a message.
const SAID: &[&str] = &["run", "device", "sequence", "random", "feed", "time"];

impl Compiler<'_> {
    /// How queriers ask a platform whose devices speak that protocol.
    pub(super) fn query(
        &mut self,
        querier: &Querier,
        of_devices: Option<Protocol>,
        captured: &[CapturedName],
    ) -> QueryPlan {
        let (protocol, ask) = match (&querier.request, &querier.says) {
            (Some(request), None) => {
                let protocol = self.of_requests(querier, of_devices);
                (protocol, Ask::Request(self.query_request((request, protocol), captured)))
            }
            (None, Some(says)) => {
                let over = if says.topic.is_some() { Protocol::Mqtt } else { Protocol::WebSocket };
                if querier.speaks.is_some() {
                    let help = "remove it".to_owned();
                    self.error("querier.speaks", "it is for queries that are requests", help);
                }
                (over, Ask::Message(self.query_said((says, over), querier, captured)))
            }
            (both, _) => {
                let message = match both {
                    Some(_) => "a querier asks one thing",
                    None => "the querier asks nothing",
                };
                self.error("querier", message, "write one of `request` and `says`".to_owned());
                (Protocol::Http, Ask::Message(SaidPlan::default()))
            }
        };
        let log_in = self.log_in(&querier.log_in, ("querier.log_in", OF_ALL, Some(protocol)), captured);
        let mut websocket = match &querier.websocket {
            Some(written) => {
                if protocol != Protocol::WebSocket {
                    let help = "remove it, or write `says` without a topic".to_owned();
                    self.error("querier.websocket", "queriers speak no WebSocket here", help);
                }
                self.websocket_of_all(written, "querier.websocket", captured)
            }
            None => WebSocketRole::default(),
        };

        if let (Some(socket_io), Some(said)) = (&mut websocket.socket_io, ask.said()) {
            socket_io.acknowledges = said.answer.is_none();
        }
        let user = querier.user.as_ref();
        let user =
            user.map(|user| self.user_of_all(user, ("querier.user", protocol == Protocol::Mqtt), captured));
        QueryPlan { protocol, ask, log_in, websocket, user }
    }

    /// What requests of queriers speak.
    fn of_requests(&mut self, querier: &Querier, of_devices: Option<Protocol>) -> Protocol {
        let usual = of_devices.filter(|own| *own == Protocol::CoapTcp).unwrap_or(Protocol::Http);
        let Some(Speaks(protocol)) = querier.speaks else { return usual };
        match self.spoken(Speaks(protocol)) {
            spoken @ (Protocol::Http | Protocol::Coap | Protocol::CoapTcp) => spoken,
            _ => {
                let help =
                    "write `http`, `coap` or `coap_tcp`; messages of MQTT and WebSocket stand in `says`"
                        .to_owned();
                self.error("querier.speaks", format!("requests of queriers speak no {protocol}"), help);
                usual
            }
        }
    }

    fn query_request(
        &mut self,
        (request, protocol): (&Request, Protocol),
        captured: &[CapturedName],
    ) -> RequestPlan {
        let request = self.request((request, protocol), QUERY, "querier.request", captured);
        let wrong = crate::protocols::coap::wrong_in(&request).filter(|_| protocol != Protocol::Http);
        if let Some((at, message, help)) = wrong {
            self.error(&format!("querier.request.{at}"), message, help);
        }
        request
    }

    /// A query that is a message.
    fn query_said(
        &mut self,
        (says, over): (&Says, Protocol),
        querier: &Querier,
        captured: &[CapturedName],
    ) -> SaidPlan {
        const PATH: &str = "querier.says";
        let topic = says.topic.as_ref();
        let topic = topic.map(|topic| self.plain(topic, &["run"], &format!("{PATH}.topic")));
        topic.iter().for_each(|topic| self.check_topic(topic, &format!("{PATH}.topic")));
        let message = self.template(&says.message, SAID, &format!("{PATH}.message"), captured);
        if querier.websocket.as_ref().is_some_and(WebSocketConfig::is_socket_io) {
            self.check_event(&message, &format!("{PATH}.message"));
        }
        let path = format!("{PATH}.answer");
        let answer = match &says.answer {
            Some(answer) => self.answer(answer, (&path, over), true),
            // Socket.IO acknowledges each event by itself.
            None if querier.websocket.as_ref().is_some_and(WebSocketConfig::is_socket_io) => None,
            None => {
                let help = "write how its answer is known".to_owned();
                self.error(&path, "a query has an answer", help);
                None
            }
        };
        SaidPlan { port: says.port.clone(), topic, message, answer }
    }
}
