//! What devices answer when the platform asks them over their own connection.

use crate::driver::Event;
use crate::drivers::DriverContext;
use crate::drivers::coap::requests::add_further;
use crate::drivers::coap::slip;
use crate::drivers::stream::outgoing::Outgoing;
use crate::run_context::View;
use plimsoll_codec::coap::stream;
use plimsoll_codec::coap::{KeptMessage, Message, OptionList, code, option};
use plimsoll_scenario::plan::{ServePlan, Variables};
use plimsoll_stats::distribution::{Random, random};

/// Names the stream of random numbers in answers.
const STREAM: u64 = 0x7365_7276_6573;

/// The resource that each device of a shard has, where it has one.
pub struct Serving {
    plan: Option<ServePlan>,
    run: String,
    view: View,
    random: Random,
}

impl Serving {
    /// What the plan says of devices.
    pub fn new(context: &DriverContext, plan: Option<ServePlan>) -> Serving {
        let DriverContext { plan: of_run, run, share, run_context, .. } = context;
        let random = random(of_run.seed, &[STREAM, u64::from(share.index)]);
        Serving { plan, run: run.to_string(), view: View::of(run_context), random }
    }

    /// Answers the requests that came to a device, and tells those of what it has not got.
    pub fn answer_all(
        &mut self,
        asked: &[KeptMessage],
        device: u32,
        out: &mut Outgoing,
        events: &mut Vec<Event>,
    ) {
        for request in asked {
            if out.is_full() {
                return slip("requests to a client, whose answers it does not read", events);
            }
            if !self.answer(&request.message(), device, out.bytes()) {
                slip("a request to a client", events);
            }
        }
    }

    /// Appends the answer of a device; whether it has what is asked for.
    fn answer(&mut self, asked: &Message<'_>, device: u32, out: &mut Vec<u8>) -> bool {
        let (mut list, mut body) = (OptionList::new(), Vec::new());
        let is_served = asked.code == code::GET && self.serve(&asked.path(), device, (&mut list, &mut body));
        // Some platforms find by these whose answer it is.
        for (number, value) in asked.options() {
            if number == option::URI_PATH || number == option::OBSERVE && is_served {
                list.add(number, value);
            }
        }
        let code = if is_served { code::CONTENT } else { code::NOT_FOUND };
        stream::append(code, asked.token, &list, &body, out);
        is_served
    }

    /// Adds what a device has at a path; whether it has that.
    fn serve(&mut self, path: &str, device: u32, (list, body): (&mut OptionList, &mut Vec<u8>)) -> bool {
        let Some(plan) = &self.plan else { return false };
        let variables = Variables {
            run: &self.run,
            device,
            time_ms: (crate::clock::wall_nanos() / 1_000_000) as u64,
            captures: self.view.captures(),
            ..Variables::default()
        };
        let numbers = &mut self.random;
        let (mut own, mut random) = (Vec::new(), || numbers.bits());
        plan.path.render(&variables, &mut random, &mut own);
        if own != path.as_bytes() {
            return false;
        }
        add_further(&plan.options, &variables, &mut random, (list, &mut own));
        plan.body.render(&variables, &mut random, body);
        true
    }
}
