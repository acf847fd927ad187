//! Who each client says it is, where the profile says that of each one.

use crate::driver::Client;
use crate::drivers::DriverContext;
use crate::drivers::whom::{Whom, variables};
use crate::run_context::View;
use plimsoll_scenario::plan::{Piece, QueryPlan, Template, UserPlan};
use plimsoll_stats::distribution::{Random, random};

/// Names the stream of random numbers in names and passwords.
const STREAM: u64 = 0x7573_6572_7300_0000;

/// The users of a shard.
pub struct Users {
    of_devices: Option<UserPlan>,
    of_subscribers: Option<UserPlan>,
    run: String,
    view: View,
    random: Random,
}

/// A client's user name and password.
pub struct User {
    pub name: String,
    pub password: Option<Vec<u8>>,
    /// The generation of the access token in them; `None` where none stands there.
    pub token: Option<u64>,
}

impl Users {
    /// As the profile says.
    pub fn of(context: &DriverContext) -> Users {
        let roles = &context.plan.platform.roles;
        let is_said_otherwise = context.plan.mqtt.username.is_some();
        Users {
            of_devices: roles.device.user.clone().filter(|_| !is_said_otherwise),
            of_subscribers: roles.subscriber_user.clone().filter(|_| !is_said_otherwise),
            ..Users::nobody(context)
        }
    }

    /// As the profile says of queriers, which are known as devices are.
    pub fn of_queries(context: &DriverContext, query: &QueryPlan) -> Users {
        let is_said_otherwise = context.plan.mqtt.username.is_some();
        let of_devices = query.user.clone().filter(|_| !is_said_otherwise);
        Users { of_devices, ..Users::nobody(context) }
    }

    /// Nobody, for whom the scenario speaks where it says a user.
    pub fn nobody(context: &DriverContext) -> Users {
        let DriverContext { plan, run, share, run_context, .. } = context;
        Users {
            of_devices: None,
            of_subscribers: None,
            run: run.to_string(),
            view: View::of(run_context),
            random: random(plan.seed, &[STREAM, u64::from(share.index)]),
        }
    }

    /// Who a client is; `None` where the scenario says it for all of them, or nobody does.
    pub fn user(&mut self, client: Client) -> Option<User> {
        let (plan, whom) = match client {
            Client::Device(device) => (&self.of_devices, Whom { device, subscriber: 0 }),
            Client::Subscriber(subscriber) => (&self.of_subscribers, Whom { device: 0, subscriber }),
        };
        let plan = plan.as_ref()?;
        self.view.refresh();
        let (variables, numbers) = (variables((&self.run, &self.view), whom), &mut self.random);
        let mut rendered = |template: &Template| {
            let mut text = Vec::new();
            template.render(&variables, &mut || numbers.bits(), &mut text);
            text
        };
        let name = String::from_utf8_lossy(&rendered(&plan.name)).into_owned();
        let password = plan.password.as_ref().map(rendered);
        let mut texts = [Some(&plan.name), plan.password.as_ref()].into_iter().flatten();
        let has_token = texts.any(|text| text.has(&|piece| *piece == Piece::Token));
        Some(User { name, password, token: has_token.then(|| self.view.generation()) })
    }

    /// The platform has refused the access token of that generation.
    pub fn refuse(&self, token: u64) {
        self.view.refuse(token);
    }

    /// A text of the platform's without what was captured in secret for a client, which it may have repeated.
    pub fn hide(&self, text: String, client: Client) -> String {
        let whose = match client {
            Client::Device(device) => (device, 0),
            Client::Subscriber(subscriber) => (0, subscriber),
        };
        self.view.hide_captured(text, whose)
    }
}
