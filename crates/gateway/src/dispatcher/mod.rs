//! The dispatcher: gets events from devices and hands them to the event handler, in the way of each model.

mod cooperative;
mod polling;
mod preemptive;
pub mod push;
mod serial;

use crate::calls::{Call, Raised};
use crate::configuration::{Configuration, Model};
use crate::handler::{Event, Shared};
use crate::push::{LONGEST_NAME, is_name};
use crate::reactor::ReactorError;
use rustix::process::{Resource, getrlimit};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a device may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a device that failed is left alone.
const PAUSE: Duration = Duration::from_millis(100);

/// Most connections, where the limit of open files is higher.
const MOST: u64 = 1 << 16;
/// Open files that are not connections: loops, the log, libraries; beside those of the pool.
const OTHER_FILES: u64 = 64;

/// For how many connections there is room among the open files.
pub fn room(configuration: &Configuration) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    files.saturating_sub(OTHER_FILES + configuration.pool_size as u64).clamp(1, MOST) as usize
}

/// How many of so many devices are connected at once.
pub fn connections(configuration: &Configuration, devices: usize) -> usize {
    if configuration.sockets == 0 { devices } else { configuration.sockets.min(devices) }
}

/// Fetches events until the end is asked for.
pub fn run(shared: &Arc<Shared>, devices: &[SocketAddr]) -> Result<(), ReactorError> {
    match shared.configuration.dispatcher {
        Model::Serial => serial::run(shared, devices),
        Model::Preemptive => preemptive::run(shared, devices),
        Model::Cooperative => cooperative::run(shared, devices),
    }
}

/// The two calls, as they go over the wire.
struct Calls {
    status: Vec<u8>,
    next_event: Vec<u8>,
}

impl Calls {
    fn new() -> Calls {
        Calls { status: Call::line("status", vec![]), next_event: Call::line("next_event", vec![]) }
    }
}

/// Whether a device has an event. What cannot be meant as that is an answer to another call, or none.
fn has_event(status: &Value) -> Result<bool, String> {
    match status {
        Value::Null => Ok(false),
        Value::Bool(has) => Ok(*has),
        Value::Number(number) => Ok(number.as_f64().is_some_and(|number| number > 0.0)),
        other => Err(format!("status is 1 or 0, and not {other}")),
    }
}

/// Whether a device says that its event is gone meanwhile, which is no failure.
fn is_empty(raised: &Raised) -> bool {
    raised.name == "IndexError"
}

/// The event that a device gave. Its name stands in lines of the log.
fn event(device: usize, given: Value) -> Result<Event, String> {
    let id = match given {
        Value::String(id) => id,
        Value::Number(id) => id.to_string(),
        other => return Err(format!("an event is a text or a number, and not {other}")),
    };
    if !is_name(id.as_bytes()) {
        return Err(format!(
            "an event's name has 1 to {LONGEST_NAME} visible characters, none of them a colon: {id:?}"
        ));
    }
    Ok(Event { device, id: id.into() })
}

/// Who serves which devices, where there are fewer sockets than devices: those of one take turns.
fn shares(devices: usize, shares: usize) -> Vec<Vec<usize>> {
    (0..shares).map(|first| (first..devices).step_by(shares).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_of_devices_are_read_as_they_are_meant() {
        for (status, has) in [(json!(1), true), (json!(true), true), (json!(0), false), (json!(null), false)]
        {
            assert_eq!(has_event(&status), Ok(has), "{status}");
        }
        assert!(has_event(&json!("a-1")).unwrap_err().contains("not \"a-1\""));
        assert_eq!(&*event(3, json!("a-1")).unwrap().id, "a-1");
        assert_eq!(&*event(3, json!(77)).unwrap().id, "77");
        for wrong in [json!(""), json!("a:b"), json!("a\nb"), json!(["a"]), json!("x".repeat(200))] {
            assert!(event(3, wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn devices_take_turns_where_sockets_are_few() {
        assert_eq!(shares(3, 3), [[0], [1], [2]]);
        assert_eq!(shares(5, 2), [vec![0, 2, 4], vec![1, 3]]);
    }
}
