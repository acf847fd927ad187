//! The requests by which a connection is let in, before any message goes over it.

use crate::driver::Client;
use crate::drivers::DriverContext;
use crate::drivers::coap::requests::add_options;
use crate::drivers::words;
use crate::run_context::View;
use plimsoll_codec::coap::stream;
use plimsoll_codec::coap::{Message, OptionList, code};
use plimsoll_scenario::plan::{RequestPlan, Variables};
use plimsoll_stats::distribution::{Random, random};

/// Names the stream of random numbers in these requests.
const STREAM: u64 = 0x6c6f_675f_696e;
/// What their tokens begin with: no exchange has such a place. The number of the request follows.
const TOKEN: [u8; 5] = [0xff, 0xff, 0xff, 0, 0];

/// What the clients of a shard say to be let in.
pub struct LogIn {
    requests: Vec<RequestPlan>,
    base: Vec<u8>,
    run: String,
    view: View,
    /// The generation of the access token in the request that was written last.
    generation: u64,
    random: Random,
}

impl LogIn {
    /// By these requests, in order; none where everybody is let in.
    pub fn new(context: &DriverContext, requests: &[RequestPlan]) -> LogIn {
        let DriverContext { plan, run, share, run_context, .. } = context;
        let address = plan.platform.address.as_ref();
        LogIn {
            requests: requests.to_vec(),
            base: address.map(|address| address.path.clone().into_bytes()).unwrap_or_default(),
            run: run.to_string(),
            view: View::of(run_context),
            generation: 0,
            random: random(plan.seed, &[STREAM, u64::from(share.index)]),
        }
    }

    /// Appends the request of that number, of a device and a subscriber; whether there is one.
    pub fn write(&mut self, number: u32, (device, subscriber): (u32, u32), out: &mut Vec<u8>) -> bool {
        let Some(request) = self.requests.get(number as usize) else { return false };
        self.view.refresh();
        self.generation = self.view.generation();
        let variables = Variables {
            run: &self.run,
            device,
            subscriber,
            time_ms: (crate::clock::wall_nanos() / 1_000_000) as u64,
            token: self.view.token(),
            captures: self.view.captures(),
            ..Variables::default()
        };
        let (mut list, mut text, mut body) = (OptionList::new(), Vec::new(), Vec::new());
        let numbers = &mut self.random;
        let parts = (&request.path, &request.options[..]);
        add_options(parts, &self.base, &variables, &mut || numbers.bits(), (&mut list, &mut text));
        request.body.render(&variables, &mut || numbers.bits(), &mut body);
        let mut token = [0; TOKEN.len() + 1];
        token[..TOKEN.len()].copy_from_slice(&TOKEN);
        token[TOKEN.len()] = number as u8;
        let code = code::method(&request.method).unwrap_or(code::POST);
        stream::append(code, &token, &list, &body, out);
        true
    }

    /// What an answer means for a client that has asked so many of them; `None` where it does not answer the last one.
    pub fn answered(&self, asked: u32, message: &Message<'_>, client: Client) -> Option<Result<(), String>> {
        let number = asked.checked_sub(1)?;
        let request = self.requests.get(number as usize)?;
        if message.token.strip_prefix(&TOKEN)? != [number as u8] {
            return None;
        }
        if request.is_success(code::status(message.code)) {
            return Some(Ok(()));
        }
        if message.code == code::UNAUTHORIZED {
            self.view.refuse(self.generation);
        }
        let (answer, own) = (code::dotted(message.code), words::own(message.payload));
        let asked = format!("{} {}", request.method, request.path.text());
        let said = format!("the platform answered {answer}{own} ({asked})");
        let whom = match client {
            Client::Device(device) => (device, 0),
            Client::Subscriber(subscriber) => (0, subscriber),
        };
        Some(Err(self.view.hide_captured(format!("the client was not let in: {said}"), whom)))
    }
}
