//! The DTLS sessions of devices: what goes to the network and what comes from it lies between here and the sockets, so that a session
//! needs none of its own. A device has one session with its server, and for a while one with its bootstrap server.

use super::devices::Wanted;
use crate::driver::{Records, Traffic};
use crate::drivers::coap::dtls::{Session, Terms};
use crate::drivers::timers::Timers;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::DtlsPlan;
use std::collections::HashMap;

/// For how long a bootstrap server may repeat its last request: MAX_TRANSMIT_SPAN (RFC 7252 section 4.8.2).
const LINGER: Nanos = Nanos::from_secs(45);

/// See the module.
pub struct Sessions {
    terms: Terms,
    /// Those with the servers at which devices register, by device.
    of_servers: Vec<Option<Box<Own>>>,
    /// Those with the bootstrap server, and its port. They are few at a time.
    of_bootstrap: Few,
    bootstrap_port: Option<u16>,
    /// Handshakes in which something is to be repeated, and sessions that end, with the server's port.
    timers: Timers<u16>,
    /// Datagrams that the sessions have made, by device and the server's port.
    outgoing: Vec<Sealed>,
}

/// A datagram for a port of the server.
pub struct Sealed {
    /// The device, as a slot.
    pub slot: u32,
    /// The server's port.
    pub port: u16,
    /// Its bytes.
    pub datagram: Vec<u8>,
}

/// A session, with whom, and when it ends by itself.
struct Own {
    session: Session,
    port: u16,
    ends_at: Nanos,
}

/// Sessions that few devices have at a time, by device.
type Few = HashMap<u32, Box<Own>>;

impl Sessions {
    /// Of so many devices, none of them begun.
    ///
    /// # Errors
    /// Certificates cannot be used: why, for people.
    pub fn new(plan: &DtlsPlan, devices: u32, bootstrap_port: Option<u16>) -> Result<Sessions, String> {
        Ok(Sessions {
            terms: Terms::of_devices(plan)?,
            of_servers: (0..devices).map(|_| None).collect(),
            of_bootstrap: Few::new(),
            bootstrap_port,
            timers: Timers::new(),
            outgoing: Vec::new(),
        })
    }

    fn own(&mut self, of: (u32, u16)) -> Option<&mut Own> {
        find((&mut self.of_servers, &mut self.of_bootstrap), self.bootstrap_port, of)
    }

    fn session(&mut self, of: (u32, u16)) -> Option<&mut Session> {
        self.own(of).map(|own| &mut own.session)
    }

    fn forget(&mut self, (slot, port): (u32, u16)) {
        if self.own((slot, port)).is_none() {
            return;
        }
        match self.bootstrap_port {
            Some(known) if known == port => _ = self.of_bootstrap.remove(&slot),
            _ => _ = self.of_servers.get_mut(slot as usize).and_then(Option::take),
        }
    }

    /// Begins the handshake that a device waits for, in the place of an earlier session; `number` is the device's.
    ///
    /// # Errors
    /// Its key or certificate cannot be used: why, for people.
    pub fn begin(&mut self, wanted: &Wanted, number: u32, now: Nanos) -> Result<(), String> {
        let &Wanted { slot, port, ref credentials } = wanted;
        let session = match credentials {
            Some(credentials) => self.terms.session_with(credentials, now)?,
            None => self.terms.session(number, now)?,
        };
        let own = Box::new(Own { session, port, ends_at: Nanos::MAX });
        match (self.bootstrap_port, self.of_servers.get_mut(slot as usize)) {
            (Some(known), _) if known == port => _ = self.of_bootstrap.insert(slot, own),
            (_, Some(place)) => *place = Some(own),
            _ => {}
        }
        self.tick((slot, port), now)
    }

    /// The bootstrap server of a device has done its work: the session with it ends, at once or when nothing is
    /// repeated any more.
    pub fn leave_bootstrap(&mut self, slot: u32, at_once: bool, now: Nanos) {
        let Some(port) = self.bootstrap_port else { return };
        if at_once {
            return self.close((slot, port), now);
        }
        let ends_at = now + LINGER;
        if let Some(own) = self.own((slot, port)) {
            own.ends_at = ends_at;
            self.timers.set(ends_at, slot, port);
        }
    }

    /// The next handshake that waits for time to pass, by device and the server's port. Ends those whose time is over.
    pub fn due(&mut self, now: Nanos) -> Option<(u32, u16)> {
        while let Some((at, slot, port)) = self.timers.due(now) {
            let Some(own) = self.own((slot, port)) else { continue };
            if own.ends_at == at {
                self.close((slot, port), now);
            } else if own.session.wakes_at() == Some(at) {
                return Some((slot, port));
            }
        }
        None
    }

    /// When the first of them is due.
    pub fn next_timer(&self) -> Nanos {
        self.timers.next()
    }

    /// Repeats what of a handshake was not answered.
    ///
    /// # Errors
    /// It took too long: why, for people.
    pub fn tick(&mut self, of: (u32, u16), now: Nanos) -> Result<(), String> {
        let outcome = self.session(of).map_or(Ok(()), |session| session.tick(now));
        self.collect(of);
        self.forget_failed(of, outcome)
    }

    /// Secures a message for a port of the server.
    ///
    /// # Errors
    /// The session is of no use any more: why, for people.
    pub fn secure(
        &mut self,
        of: (u32, u16),
        message: &[u8],
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<(), String> {
        let session = self.session(of).ok_or("the device has no DTLS session")?;
        let outcome = session.secure(message, now);
        let before = self.outgoing.len();
        self.collect(of);
        let bytes = self.outgoing.iter().skip(before).map(|sealed| sealed.datagram.len() as u64).sum();
        traffic.records_sent += Records { count: 1, bytes, secured: message.len() as u64 };
        self.forget_failed(of, outcome)
    }

    /// Takes in a datagram of a port of the server; how long the handshake took, if it came to its end by it. What
    /// belongs to no session is put away (RFC 6347 section 4.1.2.7).
    ///
    /// # Errors
    /// The session is of no use any more: why, for people.
    pub fn incoming(&mut self, of: (u32, u16), datagram: &[u8], now: Nanos) -> Result<Option<Nanos>, String> {
        let outcome = self.session(of).map_or(Ok(None), |session| session.incoming(datagram, now));
        self.collect(of);
        self.forget_failed(of, outcome)
    }

    /// Takes a message that came in a datagram of that size.
    pub fn message(&mut self, of: (u32, u16), datagram: usize, traffic: &mut Traffic) -> Option<Vec<u8>> {
        let message = self.session(of)?.message()?;
        let (bytes, secured) = (datagram as u64, message.len() as u64);
        traffic.records_received += Records { count: 1, bytes, secured };
        Some(message)
    }

    /// Says that nothing follows, and forgets the session.
    fn close(&mut self, of: (u32, u16), now: Nanos) {
        if let Some(session) = self.session(of) {
            session.close(now);
        }
        self.collect(of);
        self.forget(of);
    }

    /// Closes all of them.
    pub fn close_all(&mut self, now: Nanos) {
        let with_bootstrap = self.of_bootstrap.iter().map(|(slot, own)| (*slot, own.port));
        let with_servers =
            (0..).zip(&self.of_servers).filter_map(|(slot, own)| Some((slot, own.as_ref()?.port)));
        let all: Vec<(u32, u16)> = with_bootstrap.chain(with_servers).collect();
        all.into_iter().for_each(|of| self.close(of, now));
    }

    /// Takes the datagrams that are to go to the network; the empty list that is given back keeps its memory.
    pub fn take_outgoing(&mut self) -> Vec<Sealed> {
        std::mem::take(&mut self.outgoing)
    }

    /// Keeps datagrams that found no room, before what came since.
    pub fn keep(&mut self, mut unsent: Vec<Sealed>) {
        unsent.append(&mut self.outgoing);
        self.outgoing = unsent;
    }

    /// A session that has failed is of no use any more.
    fn forget_failed<T>(&mut self, of: (u32, u16), outcome: Result<T, String>) -> Result<T, String> {
        if outcome.is_err() {
            self.forget(of);
        }
        outcome
    }

    /// Collects what a session has made, and wakes it again where it waits for something.
    fn collect(&mut self, (slot, port): (u32, u16)) {
        let Sessions { of_servers, of_bootstrap, bootstrap_port, timers, outgoing, .. } = self;
        let own = find((of_servers, of_bootstrap), *bootstrap_port, (slot, port));
        let Some(Own { session, .. }) = own else { return };
        while let Some(datagram) = session.outgoing() {
            outgoing.push(Sealed { slot, port, datagram });
        }
        if let Some(at) = session.wakes_at() {
            timers.set(at, slot, port);
        }
    }
}

/// The session of a device with a port of the server.
fn find<'a>(
    (of_servers, of_bootstrap): (&'a mut [Option<Box<Own>>], &'a mut Few),
    bootstrap_port: Option<u16>,
    (slot, port): (u32, u16),
) -> Option<&'a mut Own> {
    let own = match bootstrap_port {
        Some(known) if known == port => of_bootstrap.get_mut(&slot),
        _ => of_servers.get_mut(slot as usize)?.as_mut(),
    };
    own.map(Box::as_mut).filter(|own| own.port == port)
}
