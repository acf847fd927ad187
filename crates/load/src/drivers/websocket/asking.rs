//! What is asked for when a WebSocket is opened: its path, its subprotocol, and header fields.

use crate::driver::Client;
use crate::drivers::DriverContext;
use crate::drivers::stream::layers::websocket::{Compression, Wish};
use crate::drivers::whom::{Whom, variables};
use crate::run_context::View;
use plimsoll_scenario::plan::{Piece, Template, WebSocketPlan, WebSocketRole};
use plimsoll_stats::distribution::{Random, random};
use std::net::SocketAddr;

/// Names the stream of random numbers in header fields.
const STREAM: u64 = 0x6865_6164_6572_7300;
/// Distinguishes the random numbers of masks from others.
const MASKS: u64 = 0x706c_6169_6e77_7300;

/// What the clients of a shard ask for.
pub struct Asking {
    headers: Vec<(String, Template)>,
    subprotocol: Option<String>,
    compression: Option<Compression>,
    /// What lets clients in over Socket.IO.
    auth: Option<Template>,
    /// Whether the access token stands in them.
    has_token: bool,
    run: String,
    view: View,
    random: Random,
}

/// What one connection is asked for by, and what its frames are masked by.
pub struct Asked {
    /// What stands in the request beside host and path.
    pub wish: Wish,
    /// Where masks come from.
    pub masks: Random,
    /// What lets the client in over Socket.IO; `None` where that is not spoken.
    pub auth: Option<Vec<u8>>,
    /// The generation of the access token in the request; `None` where none stands in it.
    pub token: Option<u64>,
}

impl Asking {
    /// As a role says.
    pub fn new(context: &DriverContext, role: &WebSocketRole) -> Asking {
        let DriverContext { plan, run, share, run_context, .. } = context;
        let auth = role.socket_io.as_ref().map(|socket_io| &socket_io.auth);
        let mut texts = role.headers.iter().map(|(_, value)| value).chain(auth);
        Asking {
            headers: role.headers.clone(),
            has_token: texts.any(|text| text.has(&|piece| *piece == Piece::Token)),
            auth: role.socket_io.as_ref().map(|socket_io| socket_io.auth.clone()),
            subprotocol: role.subprotocol.clone(),
            compression: role.is_compressed.then(Compression::default),
            run: run.to_string(),
            view: View::of(run_context),
            random: random(plan.seed, &[STREAM, u64::from(share.index)]),
        }
    }

    /// Of a connection of a client, by its number.
    pub fn of(&mut self, (client, whom): (Client, Whom), connection: u32, seed: u64) -> Asked {
        self.view.refresh();
        let mut headers = String::new();
        for (name, value) in &self.headers {
            let numbers = &mut self.random;
            let mut text = Vec::new();
            value.render(&variables((&self.run, &self.view), whom), &mut || numbers.bits(), &mut text);
            // What was captured may have the end of a line in it.
            let text = String::from_utf8_lossy(&text).replace(|c: char| c.is_control(), " ");
            headers += &format!("{name}: {text}\r\n");
        }
        let number = match client {
            Client::Device(number) => u64::from(number),
            Client::Subscriber(number) => u64::from(number) | 1 << 32,
        };
        let masks = random(seed, &[MASKS, number, u64::from(connection)]);
        let (subprotocol, compression) = (self.subprotocol.clone(), self.compression.clone());
        let wish = Wish { subprotocol, headers, compression };
        let auth = self.auth.as_ref().map(|auth| {
            let (numbers, mut text) = (&mut self.random, Vec::new());
            auth.render(&variables((&self.run, &self.view), whom), &mut || numbers.bits(), &mut text);
            text
        });
        Asked { wish, masks, auth, token: self.has_token.then(|| self.view.generation()) }
    }

    /// The platform has refused the access token of that generation.
    pub fn refuse(&self, token: u64) {
        self.view.refuse(token);
    }
}

/// The WebSocket of an address that says no more.
pub fn at(address: SocketAddr) -> WebSocketPlan {
    WebSocketPlan { host: address.to_string(), path: "/".into() }
}

/// Where the WebSockets of a role are: the path of the address stands before its own, as before those of requests.
pub fn place(plan: &WebSocketPlan, role: &WebSocketRole) -> WebSocketPlan {
    let path = match &role.path {
        Some(own) => format!("{}{own}", plan.path.trim_end_matches('/')),
        None if plan.path.is_empty() => "/".to_owned(),
        None => plan.path.clone(),
    };
    WebSocketPlan { path, ..plan.clone() }
}
