//! The interface for registrations (1.0 core, section 5.3): what devices say of themselves, and where their server has them.

use plimsoll_codec::coap::{Message, OptionList, option};
use plimsoll_codec::lwm2m::format;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Lwm2mPlan, Variables};

/// A registration is renewed after so much of its lifetime, and by chance up to a tenth of that earlier.
const RENEWED_AFTER: f64 = 0.9;

/// Puts the options of a registration in the place of what is there.
pub fn register(plan: &Lwm2mPlan, (run, device, lifetime): (&str, u32, Nanos), options: &mut OptionList) {
    options.clear();
    options.add_target(plan.registration.as_bytes());
    options.add_number(option::CONTENT_FORMAT, u32::from(format::LINK));
    add_name(plan, (run, device), options);
    options.add(option::URI_QUERY, seconds(lifetime).as_bytes());
    options.add(option::URI_QUERY, format!("lwm2m={}", plan.version).as_bytes());
    // Version 1.1 has a parameter of its own for queue mode, and no binding UQ (section 6.2.1.2).
    match (plan.awake.is_some(), plan.version) {
        (false, _) => options.add(option::URI_QUERY, b"b=U"),
        (true, "1.0") => options.add(option::URI_QUERY, b"b=UQ"),
        (true, _) => {
            options.add(option::URI_QUERY, b"b=U");
            options.add(option::URI_QUERY, b"Q");
        }
    }
}

/// Adds how a device calls itself.
pub fn add_name(plan: &Lwm2mPlan, (run, device): (&str, u32), options: &mut OptionList) {
    let variables = Variables { run, device, ..Variables::default() };
    let mut name = b"ep=".to_vec();
    plan.endpoint.render(&variables, &mut || 0, &mut name);
    options.add(option::URI_QUERY, &name);
}

/// Puts the options of what renews a registration in the place of what is there; with the lifetime again, which a server may have changed.
pub fn update(location: &str, lifetime: Nanos, options: &mut OptionList, lists_objects: bool) {
    options.clear();
    location
        .split('/')
        .filter(|part| !part.is_empty())
        .for_each(|part| options.add(option::URI_PATH, part.as_bytes()));
    options.add(option::URI_QUERY, seconds(lifetime).as_bytes());
    if lists_objects {
        options.add_number(option::CONTENT_FORMAT, u32::from(format::LINK));
    }
}

/// The same for what ends it.
pub fn deregister(location: &str, options: &mut OptionList) {
    options.clear();
    location
        .split('/')
        .filter(|part| !part.is_empty())
        .for_each(|part| options.add(option::URI_PATH, part.as_bytes()));
}

fn seconds(lifetime: Nanos) -> String {
    format!("lt={}", lifetime.as_secs_f64().ceil() as u64)
}

/// Where the server has the device, by its answer; `None` where that does not say.
pub fn location(answer: &Message<'_>) -> Option<Box<str>> {
    let parts: Vec<_> = answer
        .options()
        .filter(|(number, _)| *number == option::LOCATION_PATH)
        .map(|(_, value)| String::from_utf8_lossy(value))
        .collect();
    (!parts.is_empty()).then(|| parts.join("/").into())
}

/// How long after a registration it is renewed; `chance` is at least 0 and below 1.
pub fn renewed_after(lifetime: Nanos, chance: f64) -> Nanos {
    Nanos::from_secs_f64(lifetime.as_secs_f64() * RENEWED_AFTER * (1.0 - 0.1 * chance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::coap::{Kind, code};

    #[test]
    fn the_parts_of_a_location_are_those_of_its_path() {
        // Some servers write the whole path into one option.
        for parts in [&["rd", "a1"][..], &["rd/a1"]] {
            let (mut list, mut options) = (OptionList::new(), Vec::new());
            parts.iter().for_each(|part| list.add(option::LOCATION_PATH, part.as_bytes()));
            list.encode(&mut options);
            let (kind, code) = (Kind::Acknowledgement, code::CREATED);
            let answer = Message { kind, code, id: 1, token: &[], options: &options, payload: &[] };
            let found = location(&answer).unwrap();
            let mut request = OptionList::new();
            deregister(&found, &mut request);
            let path: Vec<&[u8]> = request.iter().map(|(_, value)| value).collect();
            assert_eq!(path, [&b"rd"[..], b"a1"]);
        }
        let none =
            Message { kind: Kind::Acknowledgement, code: code::CREATED, ..Message::empty(Kind::Reset, 1) };
        assert_eq!(location(&none), None);
    }

    #[test]
    fn a_registration_is_renewed_before_it_ends() {
        let lifetime = Nanos::from_secs(100);
        assert_eq!(renewed_after(lifetime, 0.0), Nanos::from_secs(90));
        assert_eq!(renewed_after(lifetime, 1.0), Nanos::from_secs(81));
    }
}
