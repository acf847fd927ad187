//! The wall between the engine and a protocol.

use plimsoll_codec::marker::Marker;
use plimsoll_model::formats::ByFormat;
use plimsoll_model::record::ObservedDevices;
use plimsoll_model::{Counts, Nanos};
use rustix::time::{ClockId, clock_gettime};
use std::ops::AddAssign;

/// A connection of the simulated population.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Client {
    /// A device, by its number.
    Device(u32),
    /// A subscriber, by its number.
    Subscriber(u32),
}

/// Stands for the status of an answer where the connection was lost before one.
pub const LOST: u16 = 0;
/// Stands for the status of an answer where none came in time.
pub const TIMED_OUT: u16 = 1;

/// What a driver tells its shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The client is connected and, if a subscriber, subscribed.
    Ready {
        /// Who.
        client: Client,
        /// From the first SYN to CONNACK.
        took: Nanos,
        /// Whether it had been connected before.
        again: bool,
    },
    /// A connection was secured by TLS, or a socket by DTLS.
    Secured {
        /// From the TCP connection, over UDP from the first datagram, to the end of the handshake.
        took: Nanos,
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// An attempt to connect failed; the driver tries again by itself only once the client had been ready before.
    ConnectFailed {
        /// Who.
        client: Client,
        /// For people: what went wrong and what the platform said.
        reason: String,
        /// Whether the same attempt would end the same way: a wrong password, another protocol.
        lasting: bool,
    },
    /// Something that happened so often since the last level was closed, for people.
    Incidents {
        /// What.
        reason: String,
        /// How often.
        times: u64,
    },
    /// A connection was lost; the driver connects again by itself.
    Disconnected {
        /// Who.
        client: Client,
        /// When.
        at: Nanos,
        /// For people.
        reason: String,
    },
    /// The last byte of a message was handed to the kernel.
    Sent {
        /// The device.
        device: u32,
        /// The message.
        sequence: u32,
        /// When the call began that handed it over: the platform may have it before the call returns.
        at: Nanos,
        /// Content bytes.
        content: u32,
        /// Bytes of the whole protocol packet.
        packet: u32,
    },
    /// Something went wrong that belongs to no client and no message.
    Incident {
        /// For people.
        reason: String,
    },
    /// A northbound query was answered.
    Answered {
        /// Its number.
        query: u32,
        /// When.
        at: Nanos,
    },
    /// A northbound query was refused, or its connection was lost.
    Unanswered {
        /// Its number; `None` where a querier could not connect.
        query: Option<u32>,
        /// For people.
        reason: String,
    },
    /// A message was sent again, after an answer that asks for it, a lost connection, or no answer in time.
    Repeated {
        /// The status of that answer, or [`LOST`] or [`TIMED_OUT`] where there was none.
        status: u16,
        /// From that answer or loss until the message was sent again.
        after: Nanos,
    },
    /// A message was sent again because no acknowledgement came: CoAP over UDP has no transport that would.
    Retransmitted {
        /// Since it was sent last.
        after: Nanos,
    },
    /// A request came to the platform and an acknowledgement back, and the request was sent only once.
    RoundTrip {
        /// From its sending to that.
        took: Nanos,
    },
    /// Something came that answers nothing of this run.
    Stray,
    /// A device has new firmware.
    Downloaded {
        /// From the server's order to the last block; `None` where the server wrote it itself.
        took: Option<Nanos>,
        /// Its bytes.
        bytes: u64,
    },
    /// A device could not download firmware.
    DownloadFailed {
        /// For people.
        reason: String,
    },
    /// An acknowledgement came that nothing in flight awaited.
    UnknownAck,
    /// The platform took responsibility for the message.
    Acknowledged {
        /// The device.
        device: u32,
        /// The message.
        sequence: u32,
        /// When.
        at: Nanos,
    },
    /// The log of a component tells of stages that a message passed there; all times are ours.
    Stages {
        /// The device.
        device: u32,
        /// The message.
        sequence: u32,
        /// When it passed them.
        stages: Stages,
        /// What their end stands for.
        outcome: StageOutcome,
        /// Whose log that is.
        source: &'static StageSource,
    },
    /// The platform refused the message.
    Refused {
        /// The device.
        device: u32,
        /// The message.
        sequence: u32,
        /// When.
        at: Nanos,
        /// The platform's reason, for people.
        reason: String,
    },
    /// The connection was lost before the message was acknowledged, or there was none when it was due and the scenario
    /// does not let it wait; it is not sent again.
    Abandoned {
        /// The device.
        device: u32,
        /// The message.
        sequence: u32,
        /// When.
        at: Nanos,
    },
    /// The platform answered what [`Driver::ask_for_arrival`] asked: the device's messages up to that one have arrived.
    Arrived {
        /// The device.
        device: u32,
        /// The last message that it had sent before.
        through: u32,
    },
    /// A subscriber received a device's will.
    Will,
    /// A subscriber received something.
    Received {
        /// The subscriber.
        subscriber: u32,
        /// The marker, `None` where the content carries none.
        marker: Option<Marker>,
        /// When the kernel received it, where it tells, else when it was read.
        at: Nanos,
        /// How long it had lain in the kernel before, where the kernel tells.
        lag: Option<Nanos>,
        /// Whether it came from the platform's memory of retained messages.
        retained: bool,
        /// Content bytes.
        content: u32,
        /// The partition in which it came, of a platform that keeps an order only within each; 0 of any other.
        partition: u16,
    },
}

/// What the end of a message's stages stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageOutcome {
    /// Its acknowledgement: nothing else acknowledges it.
    Acknowledged,
    /// Nothing: it is answered otherwise.
    Reported,
    /// Its work failed, which its answer may tell, too.
    Failed,
}

/// Whose log reports stages, for people.
#[derive(Debug, PartialEq, Eq)]
pub struct StageSource {
    /// Such as "the gateway's log".
    pub name: &'static str,
    /// What is said of work that failed.
    pub failure: &'static str,
}

/// When a message passed stages at a component of the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// When the component had it; `None` where its log does not say.
    pub retrieved: Option<Nanos>,
    /// When whoever works on it had it; `None` where the log does not say.
    pub dispatched: Option<Nanos>,
    /// When the work was done.
    pub done: Nanos,
    /// How well the component's clock is known: these times are right within so much, or its log is wrong.
    pub within: Nanos,
}

impl Stages {
    /// Whether a message that was sent then can have passed these stages by now.
    pub fn is_possible(&self, sent: Nanos, now: Nanos) -> bool {
        let stages = [self.retrieved, self.dispatched, Some(self.done)].into_iter().flatten();
        stages.is_sorted() && self.first() >= sent - self.within && self.done <= now + self.within
    }

    /// The same as late as it must have been: nothing is there before it was sent, so that the component's clock stands otherwise
    /// to ours than was thought, by so much for all stages.
    pub fn not_before(self, sent: Nanos) -> Stages {
        let early = (sent - self.first()).max(Nanos::ZERO);
        let shifted = |at: Nanos| at + early;
        let (retrieved, dispatched) = (self.retrieved.map(shifted), self.dispatched.map(shifted));
        Stages { retrieved, dispatched, done: shifted(self.done), ..self }
    }

    /// The first of them that is known.
    fn first(&self) -> Nanos {
        self.retrieved.or(self.dispatched).unwrap_or(self.done)
    }
}

/// What went over all connections of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes handed to the kernel.
    pub sent: u64,
    /// Bytes read from the kernel.
    pub received: u64,
    /// Datagrams, both ways.
    pub datagrams: u64,
    /// Of those bytes, the ones in datagrams.
    pub datagram_bytes: u64,
    /// Datagrams of requests, those that were sent again counted once; none where a request is one packet.
    pub request_packets: u64,
    /// Notifications of values that are no messages, and of messages to any observer after the first (LwM2M).
    pub value_notifications: u64,
    /// What devices notified of or sent of themselves, by format (LwM2M).
    pub formats: ByFormat,
    /// Registrations that were renewed or changed, as requests (LwM2M).
    pub renewals: u64,
    /// Requests of the server that devices served, repetitions apart (LwM2M).
    pub served: u64,
    /// Datagrams that came to devices in queue mode that did not listen any more (LwM2M).
    pub unheard: u64,
    /// Datagrams of the platform that found no room at our sockets, where the kernel tells.
    pub overflowed: u64,
    /// What answered messages of devices.
    pub answers: Packets,
    /// What subscribers were notified of.
    pub notifications: Packets,
    /// Records of TLS handed down.
    pub records_sent: Records,
    /// Records of TLS received.
    pub records_received: Records,
}

/// Packets of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// How many came to their end.
    pub count: u64,
    /// Of how many packets they were.
    pub packets: u64,
    /// Their bytes, contents apart.
    pub header_bytes: u64,
    /// Bytes of their contents.
    pub content_bytes: u64,
}

impl Packets {
    /// Adds a packet of that size with a content of that size.
    pub fn add(&mut self, packet: usize, content: usize) {
        self.count += 1;
        self.add_part(packet, content);
    }

    /// Adds a packet that ends nothing, as a first of two acknowledgements.
    pub fn add_part(&mut self, packet: usize, content: usize) {
        self.packets += 1;
        self.header_bytes += packet.saturating_sub(content) as u64;
        self.content_bytes += content as u64;
    }
}

/// Records of TLS, those of handshakes apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that they secured.
    pub secured: u64,
}

impl AddAssign for Packets {
    fn add_assign(&mut self, other: Packets) {
        self.count += other.count;
        self.packets += other.packets;
        self.header_bytes += other.header_bytes;
        self.content_bytes += other.content_bytes;
    }
}

impl AddAssign for Records {
    fn add_assign(&mut self, other: Records) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.secured += other.secured;
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.sent += other.sent;
        self.received += other.received;
        self.datagrams += other.datagrams;
        self.datagram_bytes += other.datagram_bytes;
        self.request_packets += other.request_packets;
        self.value_notifications += other.value_notifications;
        self.formats += other.formats;
        self.renewals += other.renewals;
        self.served += other.served;
        self.unheard += other.unheard;
        self.overflowed += other.overflowed;
        self.answers += other.answers;
        self.notifications += other.notifications;
        self.records_sent += other.records_sent;
        self.records_received += other.records_received;
    }
}

impl Traffic {
    /// Notes a datagram of so many bytes that was handed to the kernel; none is noted where it took nothing.
    pub fn sent_datagram(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.datagram(bytes);
    }

    /// Notes a datagram of so many bytes that was read.
    pub fn received_datagram(&mut self, bytes: usize) {
        self.received += bytes as u64;
        self.datagram(bytes);
    }

    fn datagram(&mut self, bytes: usize) {
        self.datagrams += u64::from(bytes > 0);
        self.datagram_bytes += bytes as u64;
    }

    /// Adds it to counts; so many bytes are the headers of a datagram, IP and UDP.
    pub fn book(&self, counts: &mut Counts, datagram_header: u64) {
        counts.bytes_sent += self.sent;
        counts.bytes_received += self.received;
        counts.datagrams += self.datagrams;
        counts.datagram_bytes += self.datagram_bytes;
        counts.datagram_header_bytes += self.datagrams * datagram_header;
        counts.answers += self.answers.count;
        counts.answer_packets += self.answers.packets;
        counts.notification_packets += self.notifications.packets;
        counts.request_packets += self.request_packets;
        counts.value_notifications += self.value_notifications;
        counts.formats += self.formats;
        counts.renewals += self.renewals;
        counts.served += self.served;
        counts.unheard += self.unheard;
        counts.overflowed += self.overflowed;
        counts.answer_header_bytes += self.answers.header_bytes;
        counts.answer_content_bytes += self.answers.content_bytes;
        counts.notifications += self.notifications.count;
        counts.notification_header_bytes += self.notifications.header_bytes;
        counts.notification_content_bytes += self.notifications.content_bytes;
        counts.records_sent += self.records_sent.count;
        counts.record_bytes_sent += self.records_sent.bytes;
        counts.secured_bytes_sent += self.records_sent.secured;
        counts.records_received += self.records_received.count;
        counts.record_bytes_received += self.records_received.bytes;
        counts.secured_bytes_received += self.records_received.secured;
    }
}

/// Speaks a protocol for the clients of one shard. One driver belongs to one thread; `poll` is the only call that
/// may wait, and no call blocks on a peer.
pub trait Driver {
    /// The time on the run's clock.
    fn now(&self) -> Nanos;

    /// The processor time that the shard's thread has used.
    fn processor_time(&self) -> Nanos {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Nanos(used.tv_sec * 1_000_000_000 + used.tv_nsec)
    }

    /// Begins to connect a client of this shard, unless it is connected or connecting already: then it returns `false`.
    /// Its fate comes as an event.
    fn connect(&mut self, client: Client) -> bool;

    /// Says goodbye on the connection of one client and forgets what it was about to send, without an event; whether it
    /// was connected.
    fn release(&mut self, client: Client) -> bool;

    /// Takes over one message. It is sent as soon as connection, window and socket allow; until then it waits
    /// here, which the platform answers for.
    fn submit(&mut self, device: u32, sequence: u32);

    /// Takes over one northbound query about a device. Drivers of devices alone ask nobody.
    fn ask(&mut self, _device: u32, _query: u32) {}

    /// Asks the platform for an answer on the connection of a device, which shows that what was sent there before has
    /// arrived; it comes as [`Event::Arrived`]. `false` where the protocol has nothing of that kind.
    fn ask_for_arrival(&mut self, _device: u32) -> bool {
        false
    }

    /// Forgets every message that has not begun to be sent. One whose first byte the kernel already has cannot be
    /// called back and is reported as sent.
    fn withdraw(&mut self, events: &mut Vec<Event>);

    /// Sends what can be sent, then waits for the network until `until` at most (a time that has passed: looks
    /// without waiting) and adds what happened.
    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>);

    /// Traffic since the last call.
    fn take_traffic(&mut self) -> Traffic;

    /// Who is observed among the devices that wait for that before they send; `None` where devices need not be.
    fn observed(&self) -> Option<ObservedDevices> {
        None
    }

    /// Says goodbye on every connection.
    fn disconnect(&mut self);
}

/// A driver behind a table of functions.
impl<D: Driver + ?Sized> Driver for Box<D> {
    fn now(&self) -> Nanos {
        (**self).now()
    }

    fn processor_time(&self) -> Nanos {
        (**self).processor_time()
    }

    fn connect(&mut self, client: Client) -> bool {
        (**self).connect(client)
    }

    fn release(&mut self, client: Client) -> bool {
        (**self).release(client)
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        (**self).submit(device, sequence);
    }

    fn ask(&mut self, device: u32, query: u32) {
        (**self).ask(device, query);
    }

    fn ask_for_arrival(&mut self, device: u32) -> bool {
        (**self).ask_for_arrival(device)
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        (**self).withdraw(events);
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        (**self).poll(until, events);
    }

    fn take_traffic(&mut self) -> Traffic {
        (**self).take_traffic()
    }

    fn observed(&self) -> Option<ObservedDevices> {
        (**self).observed()
    }

    fn disconnect(&mut self) {
        (**self).disconnect();
    }
}
