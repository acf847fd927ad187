//! What a driver is made from in a test: one load thread has the whole run.

use plimsoll_load::clock::Clock;
use plimsoll_load::drivers::DriverContext;
use plimsoll_load::share::Share;
use plimsoll_model::RunId;
use plimsoll_scenario::{Environment, SourceFile, load};
use std::net::SocketAddr;
use std::sync::Arc;

/// Of a scenario whose profiles are all that one; without one, of `existing` alone.
pub fn context_of(scenario: String, profile: Option<&str>, address: SocketAddr) -> DriverContext {
    let profile = |_: &str| profile.map(str::to_owned).ok_or_else(|| "none".to_owned());
    let environment = Environment { profile: &profile, variable: &|_| None };
    let plan = load(&SourceFile { name: "test".into(), text: scenario }, &[], &environment);
    let plan = Arc::new(plan.unwrap_or_else(|found| panic!("{found}")));
    DriverContext {
        subscribers: (Share::WHOLE, plan.subscribers.count),
        plan,
        run: RunId::from_bits(7),
        address,
        share: Share::WHOLE,
        clock: Clock::start(),
        bootstrap: None,
        run_context: Arc::default(),
        service: None,
    }
}
