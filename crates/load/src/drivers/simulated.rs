//! Clients of a simulated platform: what they send and what comes to them takes its time in a simulation, not on a network.

use crate::driver::{self, Driver, Event, Traffic};
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use plimsoll_simulate::{Client, Happening, Simulation};

/// See the module.
pub struct SimulatedDriver {
    simulation: Simulation,
    run_tag: u16,
    /// Content bytes of each message.
    content: u32,
    acknowledges: bool,
    /// The last message that each device has sent, for those that have sent any.
    last: Vec<Option<u32>>,
    happened: Vec<(Happening, Nanos, Nanos)>,
    traffic: Traffic,
}

/// Bytes of an acknowledgement: a PUBACK without properties (MQTT 5.0, 3.4).
const ACKNOWLEDGEMENT: u64 = 4;

impl SimulatedDriver {
    /// Clients of a simulation, so many devices and subscribers.
    pub fn new(
        simulation: Simulation,
        run_tag: u16,
        (devices, subscribers): (u32, u32),
        content: u32,
        acknowledges: bool,
    ) -> SimulatedDriver {
        simulation.populate(devices, subscribers);
        SimulatedDriver {
            simulation,
            run_tag,
            content,
            acknowledges,
            last: vec![None; devices as usize],
            happened: Vec::new(),
            traffic: Traffic::default(),
        }
    }

    fn event(&mut self, happening: Happening, at: Nanos, lag: Nanos) -> Option<Event> {
        let (content, packet) = (self.content, self.content);
        Some(match happening {
            Happening::Ready(client, took, again) => Event::Ready { client: clients(client), took, again },
            Happening::ConnectFailed(client) => Event::ConnectFailed {
                client: clients(client),
                reason: "connection refused".into(),
                lasting: false,
            },
            Happening::Disconnected(client) => {
                let reason = "the platform closed the connection".into();
                Event::Disconnected { client: clients(client), at, reason }
            }
            Happening::Sent(device, sequence) => {
                self.traffic.sent += u64::from(packet);
                if let Some(last) = self.last.get_mut(device as usize) {
                    *last = Some(sequence);
                }
                Event::Sent { device, sequence, at, content, packet }
            }
            Happening::Acknowledged(device, sequence) => {
                self.traffic.received += ACKNOWLEDGEMENT;
                Event::Acknowledged { device, sequence, at }
            }
            Happening::Abandoned(device, sequence) => Event::Abandoned { device, sequence, at },
            Happening::Received(subscriber, device, sequence) => {
                self.traffic.received += u64::from(packet);
                let marker = Some(Marker { run: self.run_tag, device, sequence });
                Event::Received {
                    subscriber,
                    marker,
                    at,
                    lag: Some(lag),
                    retained: false,
                    content,
                    partition: 0,
                }
            }
            Happening::Answered(device) => {
                let through = self.last.get(device as usize).copied().flatten()?;
                Event::Arrived { device, through }
            }
        })
    }
}

fn clients(client: Client) -> driver::Client {
    match client {
        Client::Device(device) => driver::Client::Device(device),
        Client::Subscriber(subscriber) => driver::Client::Subscriber(subscriber),
    }
}

fn simulated(client: driver::Client) -> Client {
    match client {
        driver::Client::Device(device) => Client::Device(device),
        driver::Client::Subscriber(subscriber) => Client::Subscriber(subscriber),
    }
}

impl Driver for SimulatedDriver {
    fn now(&self) -> Nanos {
        self.simulation.now()
    }

    fn processor_time(&self) -> Nanos {
        self.simulation.processor_time()
    }

    fn connect(&mut self, client: driver::Client) -> bool {
        self.simulation.connect(simulated(client));
        true
    }

    fn release(&mut self, client: driver::Client) -> bool {
        self.simulation.release(simulated(client))
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        self.simulation.send(device, sequence);
    }

    fn withdraw(&mut self, _: &mut Vec<Event>) {
        self.simulation.withdraw();
    }

    fn ask_for_arrival(&mut self, device: u32) -> bool {
        self.simulation.ping(device);
        true
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let mut happened = std::mem::take(&mut self.happened);
        self.simulation.wait(until, &mut happened);
        for (happening, at, lag) in happened.drain(..) {
            if matches!(happening, Happening::Acknowledged(..)) && !self.acknowledges {
                continue;
            }
            events.extend(self.event(happening, at, lag));
        }
        self.happened = happened;
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    fn disconnect(&mut self) {}
}
