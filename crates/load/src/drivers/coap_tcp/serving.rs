//! What devices answer when the platform asks them over their own connection.

use crate::drivers::DriverContext;
use crate::run_context::View;
use plimsoll_codec::coap::stream;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_scenario::plan::{OptionValue, ServePlan, Variables};
use plimsoll_stats::distribution::{Random, random};

/// Names the stream of random numbers in answers.
const STREAM: u64 = 0x7365_7276_6573;

/// A request of the platform's.
pub struct Asked {
    code: u8,
    token: Vec<u8>,
    options: Vec<u8>,
}

impl Asked {
    /// That request.
    pub fn of(message: &Message<'_>) -> Asked {
        Asked { code: message.code, token: message.token.to_vec(), options: message.options.to_vec() }
    }

    fn message(&self) -> Message<'_> {
        let Asked { code, token, options } = self;
        Message { kind: Kind::NonConfirmable, code: *code, id: 0, token, options, payload: &[] }
    }
}

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

    /// Appends the answer of a device; whether it has what is asked for.
    pub fn answer(&mut self, asked: &Asked, device: u32, out: &mut Vec<u8>) -> bool {
        let asked = asked.message();
        let (mut list, mut body) = (OptionList::new(), Vec::new());
        let is_served = asked.code == code::GET && self.serve(&asked.path(), device, (&mut list, &mut body));
        // Some platforms find by these whose answer it is.
        for (number, value) in asked.options() {
            if number == option::URI_PATH || number == option::OBSERVE && is_served {
                list.add(number, value);
            }
        }
        let mut options = Vec::new();
        list.encode(&mut options);
        let (kind, token) = (Kind::NonConfirmable, asked.token);
        let code = if is_served { code::CONTENT } else { code::NOT_FOUND };
        stream::encode(&Message { kind, code, id: 0, token, options: &options, payload: &body }, out);
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
        for option in &plan.options {
            match &option.value {
                OptionValue::Number(number) => list.add_number(option.number, *number),
                OptionValue::Text(text) => {
                    let mut value = Vec::new();
                    text.render(&variables, &mut random, &mut value);
                    list.add(option.number, &value);
                }
            }
        }
        plan.body.render(&variables, &mut random, body);
        true
    }
}
