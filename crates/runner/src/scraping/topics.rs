//! Metrics that a broker publishes on topics of its own, such as those below `$SYS`, to one more of its clients. A value holds until
//! the next one: brokers publish some of them only where they have changed.

use super::readings::Readings;
use super::{Out, SHOWN};
use crate::sampling::{Observed, own_time};
use plimsoll_codec::hiding::cut;
use plimsoll_codec::mqtt::{
    Connect, Packet, QoS, Version, connack_text, encode_connect, encode_pingreq, encode_subscribe,
    packet_length,
};
use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// How long the broker may take to accept the connection and to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// From one look at the wish to stop to the next, and at the time.
const LOOK: Duration = Duration::from_millis(50);
/// Pause before the connection is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The connection is kept by a ping after so much silence of ours; the broker waits one and a half times as long as it was promised.
const PING: Duration = Duration::from_secs(20);
const KEEP_ALIVE: u16 = 30;
/// Brokers publish about themselves every 10 s by default: who has published nothing for so long publishes nothing.
const SILENCE: Duration = Duration::from_secs(25);
/// The largest packet that is read, bytes.
const LARGEST: usize = 1 << 20;

/// See the module.
pub struct Topics {
    readings: Readings,
    /// `host:port`.
    address: String,
    username: Option<String>,
    password: Option<String>,
    /// What each metric is, by its place, or why that is no number.
    held: Vec<Option<Result<f64, String>>>,
    begun: Instant,
}

/// What ends a connection.
enum End {
    /// The run does not want readings any more.
    Stopped,
    /// It cannot be used.
    Broken(String),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> End {
        End::Broken(match error.kind() {
            ErrorKind::UnexpectedEof => "the broker closed the connection".to_owned(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "the broker does not answer".to_owned(),
            _ => format!("no connection: {error}"),
        })
    }
}

impl Topics {
    /// Of a broker at `host:port`, with the credentials that devices have.
    pub fn new(
        readings: Readings,
        address: String,
        username: Option<String>,
        password: Option<String>,
    ) -> Topics {
        let held = vec![None; readings.plan.metrics.len()];
        Topics { readings, address, username, password, held, begun: Instant::now() }
    }

    /// Reads until the run is over.
    pub fn read_until(&mut self, stopped: &Receiver<()>, out: &Out) {
        loop {
            let Err(End::Broken(why)) = self.talk(stopped, out) else { return };
            if !self.report(why, out) || wait(stopped, PAUSE) {
                return;
            }
        }
    }

    /// One connection, up to its end.
    fn talk(&mut self, stopped: &Receiver<()>, out: &Out) -> Result<Infallible, End> {
        // What an earlier connection said may be of a broker that is gone.
        self.held.fill(None);
        self.begun = Instant::now();
        let (mut stream, mut buffer) = self.connect()?;
        let (mut spoken, mut counted, mut before) = (Instant::now(), Instant::now(), own_time());
        let every = self.readings.plan.every.to_duration();
        loop {
            if is_stopped(stopped) {
                return Err(End::Stopped);
            }
            match read_packet(&mut stream, &mut buffer) {
                Ok(packet) => self.take(&packet)?,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
            if spoken.elapsed() > PING {
                let mut ping = Vec::new();
                encode_pingreq(&mut ping);
                stream.write_all(&ping)?;
                spoken = Instant::now();
            }
            if counted.elapsed() >= every {
                let read = self.read(out);
                let cost = own_time().saturating_sub(before);
                let gauges = self.readings.cost(counted.elapsed(), cost, out);
                (counted, before) = (Instant::now(), own_time());
                let observed = gauges.into_iter().map(Observed::Gauge).chain(read);
                if !send_all(observed, out) || !self.report_silence(out) {
                    return Err(End::Stopped);
                }
            }
        }
    }

    /// Connects and subscribes: the connection, and what has come after the answer of the broker.
    fn connect(&self) -> Result<(TcpStream, Vec<u8>), End> {
        let address = self.address.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| End::Broken(format!("`{}` has no address", self.address)))?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let id = format!("plimsoll-metrics-{}-{}", std::process::id(), self.readings.plan.component);
        let connect = Connect {
            keep_alive: KEEP_ALIVE,
            username: self.username.as_deref(),
            password: self.password.as_deref().map(str::as_bytes),
            ..Connect::clean(Version::V311, &id)
        };
        let filters: Vec<(&str, QoS)> = self
            .readings
            .plan
            .metrics
            .iter()
            .map(|metric| (metric.select.as_str(), QoS::AtMostOnce))
            .collect();
        let mut bytes = Vec::new();
        let wrong = |error: plimsoll_codec::mqtt::Unencodable| End::Broken(error.to_string());
        encode_connect(&connect, &mut bytes).map_err(wrong)?;
        stream.write_all(&bytes)?;
        let mut buffer = Vec::new();
        let answer = read_packet(&mut stream, &mut buffer)?;
        match decoded(&answer)? {
            Packet::Connack(connack) if connack.accepted() => {}
            Packet::Connack(connack) => {
                let why = connack_text(Version::V311, connack.code);
                return Err(End::Broken(format!("the broker refuses the connection: {why}")));
            }
            _ => return Err(End::Broken("no broker of MQTT answers there".to_owned())),
        }
        bytes.clear();
        encode_subscribe(Version::V311, 1, &filters, &mut bytes).map_err(wrong)?;
        stream.write_all(&bytes)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok((stream, buffer))
    }

    /// Takes the value of a message.
    fn take(&mut self, packet: &[u8]) -> Result<(), End> {
        let publish = match decoded(packet)? {
            Packet::Publish(publish) => publish,
            Packet::Suback(suback) => return self.check(suback.codes),
            _ => return Ok(()),
        };
        let value = std::str::from_utf8(publish.payload).ok().and_then(number).ok_or_else(|| {
            format!("it is no number: {}", cut(&String::from_utf8_lossy(publish.payload), SHOWN))
        });
        for (metric, held) in self.readings.plan.metrics.iter().zip(&mut self.held) {
            if metric.select == publish.topic {
                *held = Some(value.clone());
            }
        }
        Ok(())
    }

    /// Fails where the broker refuses a subscription.
    fn check(&self, codes: &[u8]) -> Result<(), End> {
        let refused = codes.iter().position(|code| *code >= 0x80);
        match refused.and_then(|place| self.readings.plan.metrics.get(place)) {
            Some(metric) => {
                Err(End::Broken(format!("the broker refuses the subscription to `{}`", metric.select)))
            }
            None => Ok(()),
        }
    }

    /// What all metrics are now. Counters are read at even intervals, whenever they came: means over them are right then.
    fn read(&mut self, out: &Out) -> Vec<Observed> {
        let (now, mut observed) = (Instant::now(), Vec::new());
        for place in 0..self.held.len() {
            let Some(value) = self.held.get(place).cloned().flatten() else { continue };
            match value.and_then(|value| self.readings.gauge(place, now, value, out)) {
                Ok(gauge) => observed.extend(gauge.map(Observed::Gauge)),
                Err(why) => {
                    let name = self.readings.plan.metrics.get(place).map_or("", |metric| &metric.select);
                    let trouble = format!("`{name}`: {why}");
                    observed.extend(self.readings.report(trouble).map(Observed::Note));
                }
            }
        }
        observed
    }

    /// Names a topic on which nothing comes. Whether the run still wants readings.
    fn report_silence(&mut self, out: &Out) -> bool {
        if self.begun.elapsed() < SILENCE {
            return true;
        }
        let silent = self.readings.plan.metrics.iter().zip(&self.held).find(|(_, held)| held.is_none());
        let Some(topic) = silent.map(|(metric, _)| metric.select.clone()) else { return true };
        self.report(format!("nothing was published on `{topic}` within {} s", SILENCE.as_secs()), out)
    }

    /// Whether the run still wants readings.
    fn report(&mut self, trouble: String, out: &Out) -> bool {
        send_all(self.readings.report(trouble).map(Observed::Note).into_iter(), out)
    }
}

fn send_all(observed: impl Iterator<Item = Observed>, out: &Out) -> bool {
    observed.into_iter().all(|one| out.readings.send(one).is_ok())
}

fn is_stopped(stopped: &Receiver<()>) -> bool {
    !matches!(stopped.try_recv(), Err(TryRecvError::Empty))
}

/// Waits; whether the run was over meanwhile.
fn wait(stopped: &Receiver<()>, time: Duration) -> bool {
    !matches!(stopped.recv_timeout(time), Err(std::sync::mpsc::RecvTimeoutError::Timeout))
}

/// The first number of a text: brokers write `12`, `3.5` and `86400 seconds`.
fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn decoded(packet: &[u8]) -> Result<Packet<'_>, End> {
    Packet::decode(Version::V311, packet).map_err(|error| End::Broken(format!("malformed MQTT: {error}")))
}

/// The next packet. `buffer` holds what has come of those after it.
fn read_packet(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Vec<u8>> {
    let wrong = |why: String| std::io::Error::other(why);
    loop {
        let length = packet_length(buffer).map_err(|error| wrong(format!("malformed MQTT: {error}")))?;
        if let Some(length) = length.filter(|length| *length <= buffer.len()) {
            return Ok(buffer.drain(..length).collect());
        }
        if buffer.len().max(length.unwrap_or_default()) > LARGEST {
            return Err(wrong(format!("a message of more than {LARGEST} bytes")));
        }
        let mut scratch = [0; 4096];
        match stream.read(&mut scratch)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => buffer.extend_from_slice(scratch.get(..count).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_write_numbers_with_and_without_units() {
        assert_eq!(["12", "3.5", "86400 seconds"].map(number), [12.0, 3.5, 86400.0].map(Some));
        assert_eq!(["", "mosquitto version 2.0.11"].map(number), [None, None]);
    }
}
