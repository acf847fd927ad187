//! Who clients say they are, over MQTT.

use super::receives::{is_about_a_device, is_about_one};
use super::{ABOUT_ONE, Compiler, HELP_ABOUT_ONE, OF_ALL, OF_DEVICE, OF_SUBSCRIBER};
use crate::plan::{CapturedName, Protocol, RolePlan, Template, UserPlan};
use crate::profiles::roles::{Device, Subscriber, User};

impl Compiler<'_> {
    /// The users that devices are.
    pub(super) fn user_of_devices(
        &mut self,
        device: &Device,
        protocol: Protocol,
        captured: &[CapturedName],
    ) -> Option<UserPlan> {
        let user = device.user.as_ref()?;
        Some(self.user(user, ("device.user", OF_DEVICE, protocol == Protocol::Mqtt), captured))
    }

    /// The users that subscribers are, whose other ways are known.
    pub(super) fn user_of_subscribers(
        &mut self,
        subscriber: &Subscriber,
        of_devices: Option<Protocol>,
        plan: &RolePlan,
    ) -> Option<UserPlan> {
        const PATH: &str = "subscriber.user";
        let user = subscriber.user.as_ref()?;
        let is_client = of_devices.unwrap_or_default() == Protocol::Mqtt && !plan.have_receivers();
        // Before the set-up nothing is captured.
        let captured = if plan.notified.is_some() { &[][..] } else { &plan.captured };
        let user = self.user(user, (PATH, OF_SUBSCRIBER, is_client), captured);
        let is_of_device = |text: &Template| is_about_a_device(text, captured);
        if is_of_device(&user.name) || user.password.as_ref().is_some_and(is_of_device) {
            let help = "let a step with `each: subscriber` capture it".to_owned();
            self.error(PATH, "a subscriber is no user of a device's", help);
        }
        Some(user)
    }

    /// The user that the controller or a querier is, whoever its messages are about.
    pub(super) fn user_of_all(
        &mut self,
        user: &User,
        (path, has_meaning): (&str, bool),
        captured: &[CapturedName],
    ) -> UserPlan {
        let user = self.user(user, (path, OF_ALL, has_meaning), captured);
        if user.password.iter().chain([&user.name]).any(|text| is_about_one(text, captured)) {
            self.error(path, ABOUT_ONE, HELP_ABOUT_ONE.to_owned());
        }
        user
    }

    /// A user, which has a meaning over MQTT.
    fn user(
        &mut self,
        user: &User,
        (path, variables, has_meaning): (&str, &[&str], bool),
        captured: &[CapturedName],
    ) -> UserPlan {
        if !has_meaning {
            let help = "remove it, or say it in headers or messages".to_owned();
            self.error(path, "only clients of MQTT say a user", help);
        }
        let name = self.template(&user.name, variables, &format!("{path}.name"), captured);
        let password = user.password.as_ref();
        let password =
            password.map(|text| self.template(text, variables, &format!("{path}.password"), captured));
        UserPlan { name, password }
    }
}
