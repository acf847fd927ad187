//! The load threads of one population: its devices, and its subscribers where they connect by its plan.

use super::thread::{ShardThread, Start};
use super::{Addresses, EngineError, Notified, Part, UDP_OVER_IPV4, UDP_OVER_IPV6};
use crate::clock::Clock;
use crate::drivers::{self, BoxedPart, DriverContext, RunService, ServiceContext};
use crate::mailbox::Mailbox;
use crate::owners::Owners;
use crate::roles::listening::Listening;
use crate::roles::mux::OtherRoles;
use crate::run_context::RunContext;
use crate::shard::{Reply, Wiring};
use crate::share::Share;
use crate::throttle::Throttle;
use crate::topology::Topology;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::{DeliveryContract, Plan, PopulationPlan, ReceiversPlan};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What the load threads of all populations have in common.
pub(super) struct RunParts<'a> {
    pub(super) run: RunId,
    pub(super) clock: Clock,
    /// Which of all load threads are to be started; those of each population take the processors in turn.
    pub(super) part: &'a Part,
    pub(super) processors: &'a [Option<usize>],
    pub(super) precedence: bool,
    pub(super) replies: Sender<Reply>,
    pub(super) mailboxes: Vec<Arc<Mailbox>>,
    pub(super) owners: Arc<Owners>,
    /// Of each population.
    pub(super) throttles: Vec<Option<Arc<Throttle>>>,
}

/// When subscribers were notified, where the platform notifies each at most once a period; for the populations in their order.
/// Those who receive from several populations are notified of all of them.
pub(super) fn throttles(plans: &[Arc<Plan>]) -> Vec<Option<Arc<Throttle>>> {
    let throttle = |plan: &&Arc<Plan>| match plan.platform.roles.delivery {
        DeliveryContract::Throttled(period) => Some(Arc::new(Throttle::new(period, plan.subscribers.count))),
        _ => None,
    };
    let in_common = |plan: &&Arc<Plan>| plan.population.receivers != ReceiversPlan::Own;
    let common = plans.iter().filter(in_common).find_map(|plan| throttle(&plan));
    let of = |plan: &Arc<Plan>| if in_common(&plan) { common.clone() } else { throttle(&plan) };
    plans.iter().map(of).collect()
}

/// One population that is about to start.
pub(super) struct Population<'a> {
    /// Its place among the others.
    pub(super) number: u16,
    pub(super) plan: &'a Arc<Plan>,
    pub(super) addresses: &'a Addresses,
    pub(super) run_context: &'a Arc<RunContext>,
}

/// A population that was started.
pub(super) struct Started {
    pub(super) shards: Vec<ShardThread>,
    pub(super) notified: Notified,
    pub(super) service: Option<Arc<dyn RunService>>,
}

impl Population<'_> {
    pub(super) fn start(&self, parts: &RunParts<'_>) -> Result<Started, EngineError> {
        let &Population { number, plan, addresses, run_context } = self;
        let &RunParts { run, clock, part: Part { layout, process }, processors, precedence, .. } = parts;
        let Addresses { devices: address, bootstrap, stage_log, .. } = *addresses;
        let own = plan.own_subscribers();
        let PopulationPlan { first_device, first_subscriber, .. } = plan.population;
        let roles = &plan.platform.roles;
        let (seats, first) = (layout.seats(usize::from(number)), layout.numbers(usize::from(number)).start);
        let threads = seats.len();
        let listening = match roles.listener.as_ref().filter(|_| own > 0) {
            Some(role) => Some(Listening::bind(role.protocol, address, threads, first_subscriber)?),
            None => None,
        };
        let services = ServiceContext { plan, run, address, stage_log, shards: threads as u32, clock };
        let is_here = !layout.places(usize::from(number), *process).is_empty();
        let service = if is_here { drivers::service(&services)? } else { None };
        let awaits_stages = service.as_ref().is_some_and(|service| service.awaits_stages());
        let topology = Arc::new(Topology::of(plan, run));
        let throttle = parts.throttles.get(usize::from(number)).cloned().flatten();
        let mut shards = Vec::new();
        for (turn, index) in layout.places(usize::from(number), *process).enumerate() {
            let Some(seat) = seats.get(index as usize) else { continue };
            let processor = processors.get(turn).copied().flatten();
            let share = seat.devices.from(first_device);
            let context = DriverContext {
                plan: Arc::clone(plan),
                run,
                address,
                bootstrap,
                share,
                subscribers: (seat.subscribers.from(first_subscriber), own),
                clock,
                run_context: Arc::clone(run_context),
                service: service.clone(),
            };
            let wiring = Wiring {
                replies: parts.replies.clone(),
                mailboxes: parts.mailboxes.clone(),
                number: first + index,
                population: number,
                owners: Arc::clone(&parts.owners),
                queriers: seat.queriers,
                datagram_header: if address.is_ipv4() { UDP_OVER_IPV4 } else { UDP_OVER_IPV6 },
                throttle: throttle.clone(),
                awaits_stages,
                run_context: Arc::clone(run_context),
            };
            let start = Start {
                plan: Arc::clone(plan),
                run,
                topology: Arc::clone(&topology),
                index,
                share,
                wiring,
                processor,
                precedence,
            };
            let queriers = seat.queriers.map(|share| share.from(first_device));
            let others =
                self.others((&context, queriers), listening.as_ref(), (service.as_deref(), index))?;
            let devices = drivers::driver_of(plan.protocol())?.devices;
            shards.push(start.with(devices(&context)?, others)?);
        }
        let broker = match roles.notified.as_ref().filter(|_| own > 0) {
            Some(_) => Some(drivers::role_of(plan, |entry| entry.broker_url)?(plan, address)),
            None => None,
        };
        Ok(Started { shards, notified: Notified { listening, broker }, service })
    }

    /// Who takes part in a shard beside the devices.
    fn others(
        &self,
        (context, queriers): (&DriverContext, Option<Share>),
        listening: Option<&Listening>,
        (service, index): (Option<&dyn RunService>, u32),
    ) -> std::io::Result<OtherRoles> {
        let plan = self.plan;
        let roles = &plan.platform.roles;
        let has_own = plan.own_subscribers() > 0;
        let observes = roles.observes.as_ref().filter(|_| has_own);
        let receives = roles.receives.as_ref().filter(|_| has_own);
        let address = self.addresses.observers.unwrap_or(context.address);
        let elsewhere = || DriverContext { address, ..context.clone() };
        let listener: Option<BoxedPart> = match (&roles.listener, listening, observes, receives) {
            (Some(role), Some(listening), ..) => Some(listening.serve(context, role)?),
            (_, _, Some(role), _) => {
                Some(drivers::role_of(plan, |entry| entry.observers)?(&elsewhere(), role)?)
            }
            (.., Some(role)) => Some(drivers::receivers(&elsewhere(), role)?),
            _ => None,
        };
        let asked = self.addresses.queriers.zip(queriers);
        let queriers = match (&plan.northbound, asked, &roles.query) {
            (Some(northbound), Some((address, share)), Some(query)) => {
                let context = DriverContext { address, share, ..context.clone() };
                Some(drivers::queriers_of(query.protocol)?(&context, northbound.queriers)?)
            }
            _ => None,
        };
        let stages = service.and_then(|service| service.stage_reader(index));
        Ok(OtherRoles { listener, queriers, stages })
    }
}
