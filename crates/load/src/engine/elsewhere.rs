//! An engine whose load threads are at workers: its commands leave as orders, and replies come back.

use super::Engine;
use super::thread::{Commands, ShardThread};
use crate::clock::Clock;
use crate::layout::Layout;
use crate::run_context::RunContext;
use crate::shard::{Command, Reply};
use plimsoll_scenario::plan::Plan;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// A command on its way to a shard.
#[derive(Clone, Debug)]
pub struct Order {
    /// The number of the shard among those of all populations.
    pub shard: u32,
    /// What it is to do.
    pub command: Command,
}

/// How an engine reaches its load threads at workers.
pub struct Orders {
    /// Where orders go.
    pub orders: Sender<Order>,
    /// Where the answers come.
    pub replies: Receiver<Reply>,
    /// The load threads at all workers.
    pub layout: Arc<Layout>,
}

impl Engine {
    /// An engine over load threads at workers, which have started them.
    pub fn elsewhere(
        plan: &Arc<Plan>,
        orders: Orders,
        clock: Clock,
        run_contexts: Vec<Arc<RunContext>>,
    ) -> Engine {
        let Orders { orders, replies, layout } = orders;
        let shard = |number: u32| ShardThread {
            commands: Commands::Elsewhere(number, orders.clone()),
            thread: None,
            id: 0,
            processor: None,
        };
        let shards = (0..layout.count() as u32).map(shard).collect();
        Engine::over(plan, (shards, layout), replies, clock, run_contexts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Watch;
    use plimsoll_model::Nanos;
    use plimsoll_model::record::Measurement;
    use plimsoll_scenario::{Environment, SourceFile, load};
    use std::sync::mpsc::channel;
    use std::thread;

    struct Nobody;

    impl Watch for Nobody {
        fn measured(&mut self, _: Measurement) -> bool {
            true
        }

        fn connected(&mut self, _: u64, _: u64) -> bool {
            true
        }

        fn tick(&mut self, _: Nanos) -> bool {
            true
        }
    }

    /// Why a level was halted at one of two workers, and whether another one begins, if something is said when it is being closed.
    fn halted_by(said: Option<Reply>) -> (Option<String>, bool) {
        let text = "name: t\nplatform: { profile: existing, address: \"mqtt://h:1\" }\npopulation: { devices: 4 }\n\
                    load: { levels: [10/s], hold: 1s, warm_up: 0s, drain: 1s, samples: 2 }\n";
        let profile = |_: &str| Err("none".to_owned());
        let environment = Environment { profile: &profile, variable: &|_| None };
        let source = SourceFile { name: "t".into(), text: text.into() };
        let plan = load(&source, &[], &environment).unwrap_or_else(|found| panic!("{found}"));
        let plan = Arc::new(plan);
        let (orders, ordered) = channel::<Order>();
        let (reply, replies) = channel();
        // Both workers, with a load thread each.
        let workers = thread::spawn(move || {
            let mut said = said;
            for order in ordered {
                let _ = match order.command {
                    Command::Run { .. } => reply.send(Reply::Drained),
                    Command::PassOn => {
                        said.take().into_iter().for_each(|said| drop(reply.send(said)));
                        reply.send(Reply::PassedOn)
                    }
                    Command::Close => reply.send(Reply::Closed(0, Box::default())),
                    _ => Ok(()),
                };
            }
        });
        let orders = Orders { orders, replies, layout: Arc::new(Layout::of_one_process(1, 2)) };
        let mut engine = Engine::elsewhere(&plan, orders, Clock::start(), vec![Arc::default()]);
        let level = plan.load.levels[0];
        let hold = (plan.load.hold, None);
        let start = engine.plan_level(0, level, hold, &mut Nobody).unwrap();
        let (end, stopped) = engine.run_level(&start, level, &mut Nobody).unwrap();
        assert!(!stopped);
        let goes_on = engine.plan_level(1, level, hold, &mut Nobody).is_ok();
        drop(engine);
        workers.join().unwrap();
        (end.halted, goes_on)
    }

    #[test]
    fn what_befalls_a_worker_while_a_level_is_closed_belongs_to_that_level() {
        assert_eq!(halted_by(None), (None, true));
        assert_eq!(halted_by(Some(Reply::Halted("away".into()))), (Some("away".into()), true));
        assert_eq!(halted_by(Some(Reply::Lost("gone".into()))), (Some("gone".into()), false));
    }
}
