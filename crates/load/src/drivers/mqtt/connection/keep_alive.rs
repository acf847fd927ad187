//! Silence on a connection: asked whether the platform is there, and given up when it is not. Also who sends all the time hears
//! nothing on a connection that is half-open; as other clients do, it asks where answers have not come for as long.

use super::super::{Io, Timer};
use super::Connection;
use crate::driver::Event;
use plimsoll_model::Nanos;

impl Connection {
    pub(super) fn schedule_keep_alive(&mut self, slot: u32, from: Nanos, io: &mut Io) {
        let interval = self.session.keep_alive();
        if interval > Nanos::ZERO {
            self.keep_alive_at = from + interval;
            io.timers.set(self.keep_alive_at, slot, Timer::KeepAlive);
        }
    }

    pub(super) fn keep_alive(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let (now, interval) = (io.stream.clock.now(), self.session.keep_alive());
        let is_late = |sent: &Nanos| now - *sent >= interval && !self.is_busy(now);
        if let Some(sent) = self.ping_sent.filter(is_late) {
            let reason = format!("PINGREQ was not answered within {}", now - sent);
            return self.failed(slot, reason, io, events);
        }
        // Who awaits nothing need not hear anything.
        let heard = if self.session.awaits_answers() { self.last_read } else { now };
        let last = self.last_write.min(heard);
        if now - last >= interval && self.ping_sent.is_none() {
            self.ping_sent = Some(now);
            self.session.ping(self.out.bytes());
            self.send(slot, io, events);
            return self.schedule_keep_alive(slot, now, io);
        }
        let next = self.ping_sent.unwrap_or(last);
        self.schedule_keep_alive(slot, next.max(now - interval + Nanos(1)), io);
    }
}
