//! CoAP over UDP as a plain client speaks it (RFC 7252): confirmable POST, repeated until it is acknowledged, answers in
//! the acknowledgement or by themselves.

use super::{Answer, Device, Io};
use plimsoll_codec::coap::{Kind, Message, OptionList, code};
use plimsoll_model::Nanos;
use rustix::net::{SendFlags, send};
use std::cmp::Reverse;

/// ACK_TIMEOUT, ACK_RANDOM_FACTOR less one, and MAX_RETRANSMIT of section 4.8.
const ACK_TIMEOUT: f64 = 2.0;
const ACK_SPREAD: f64 = 0.5;
const MOST_REPETITIONS: u32 = 4;

/// The time after which a request is repeated for the first time, by a fraction drawn from 0 to 1.
pub fn first_timeout(fraction: f64) -> Nanos {
    Nanos::from_secs_f64(ACK_TIMEOUT * (1.0 + ACK_SPREAD * fraction))
}

/// How long an answer is awaited from the first sending on: until the wait after the last repetition is over
/// (MAX_TRANSMIT_WAIT of section 4.8.2).
pub fn patience(first_timeout: Nanos) -> Nanos {
    first_timeout * ((1 << (MOST_REPETITIONS + 1)) - 1)
}

/// Writes a confirmable POST to `PATH/TOPIC`; its token is its message id.
pub fn request(path: &str, topic: &[u8], content: &[u8], id: u16, out: &mut Vec<u8>) {
    let (mut list, mut options) = (OptionList::new(), Vec::new());
    list.add_target(&[path.as_bytes(), b"/", topic].concat());
    list.encode(&mut options);
    let token = &id.to_be_bytes();
    Message { kind: Kind::Confirmable, code: code::POST, id, token, options: &options, payload: content }
        .encode(out);
}

/// What a datagram means for the request under way.
pub fn answer(device: &mut Device, datagram: &[u8], io: &mut Io) -> Answer {
    let Ok(message) = Message::decode(datagram) else { return Answer::NotYet };
    if message.kind == Kind::Confirmable {
        // Also one that is repeated because our acknowledgement was lost (sections 4.2 and 5.2.2).
        acknowledge(device, message.id, io);
    }
    let (id, token) = (device.id, device.id.to_be_bytes());
    let Some(current) = &mut device.current else { return Answer::NotYet };
    match message.kind {
        Kind::Reset if message.id == id => {
            return Answer::Refused("the platform reset the request".into());
        }
        Kind::Acknowledgement if message.id == id && message.code == code::EMPTY => {
            // The answer comes by itself (section 5.2.2).
            current.acknowledged = true;
            return Answer::NotYet;
        }
        Kind::Acknowledgement if message.id != id => return Answer::NotYet,
        _ if message.token != token => return Answer::NotYet,
        _ => {}
    }
    let (class, detail) = (message.code >> 5, message.code & 0x1f);
    match class {
        2 => Answer::Done,
        _ => Answer::Refused(format!("the platform answered {class}.{detail:02}")),
    }
}

fn acknowledge(device: &Device, id: u16, io: &mut Io) {
    let mut out = Vec::new();
    let (kind, code) = (Kind::Acknowledgement, code::EMPTY);
    Message { kind, code, id, token: &[], options: &[], payload: &[] }.encode(&mut out);
    if let Some(socket) = &device.socket
        // One that finds no room is asked for again.
        && let Ok(count) = send(socket, &out, SendFlags::NOSIGNAL)
    {
        io.traffic.sent += count as u64;
    }
}

/// Sends the request again where its time has come.
pub fn repeat(device: &mut Device, slot: u32, now: Nanos, io: &mut Io) {
    let Some(current) = device.current.as_mut() else { return };
    if now < current.repeat_at || current.acknowledged || current.repeated >= MOST_REPETITIONS {
        return;
    }
    current.repeated += 1;
    current.timeout = current.timeout * 2;
    current.repeat_at = now + current.timeout;
    io.timers.push(Reverse((current.repeat_at, slot, device.generation)));
    if let Some(socket) = &device.socket
        // One that finds no room is repeated again.
        && let Ok(count) = send(socket, &device.out, SendFlags::NOSIGNAL)
    {
        io.traffic.sent += count as u64;
    }
}
