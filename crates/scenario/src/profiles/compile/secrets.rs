//! Which captured values are secret: those that requests have in the places of credentials.

use crate::plan::{CaptureFrom, HttpReceiveRole, Piece, ReceiveRole, RolePlan, Template};
use plimsoll_codec::credentials::names_secret;

/// Whether a captured value is secret by its name, or by the place in the answer where it stood.
pub(super) fn is_captured(name: &str, from: &CaptureFrom) -> bool {
    let place = match from {
        CaptureFrom::Pointer(place) | CaptureFrom::Header(place) => place,
        CaptureFrom::LocationEnd => "",
    };
    names_secret(name) || names_secret(place)
}

/// The slots of captured values that stand in headers such as `Authorization`, or in parameters such as `api_key`.
pub(super) fn slots(plan: &RolePlan) -> Vec<usize> {
    let steps = [&plan.reset, &plan.preload, &plan.set_up, &plan.clean_up].into_iter().flatten();
    let queries = plan.query.iter().flat_map(|query| query.log_in.iter().chain(query.ask.request()));
    let observers = plan.observes.iter().flat_map(|observes| &observes.log_in);
    let devices = plan.device.log_in.iter().chain(&plan.device.request);
    let (receivers, websocket) = match &plan.receives {
        Some(ReceiveRole::Http(role)) => (Some(role), None),
        Some(ReceiveRole::WebSocket(role)) => (None, Some(role)),
        None => (None, None),
    };
    let clients = devices.chain(observers).chain(receivers.map(|role| &role.request)).chain(queries);
    let requests = steps.filter_map(|step| step.ask.request()).chain(clients);
    let mut slots = Vec::new();
    for request in requests {
        let headers = request.headers.iter().filter(|(name, _)| names_secret(name));
        slots.extend(headers.flat_map(|(_, value)| &value.pieces).filter_map(captured));
        slots.extend(in_parameters(&request.path));
    }
    slots.extend(receivers.and_then(HttpReceiveRole::next_path).into_iter().flat_map(in_parameters));
    let query = plan.query.as_ref();
    let of_query = query.and_then(|query| query.user.as_ref());
    let users = [&plan.device.user, &plan.subscriber_user, &plan.controller.user];
    let users = users.into_iter().flatten().chain(of_query);
    let passwords = users.filter_map(|user| user.password.as_ref());
    slots.extend(passwords.flat_map(|password| &password.pieces).filter_map(captured));
    // What lets a WebSocket in has its credentials in messages, whose keys are not looked at.
    let of_query = query.map(|query| &query.websocket);
    let openings = [Some(&plan.device.websocket), Some(&plan.controller.websocket), of_query, websocket];
    for role in openings.into_iter().flatten() {
        let headers = role.headers.iter().filter(|(name, _)| names_secret(name));
        slots.extend(headers.flat_map(|(_, value)| &value.pieces).filter_map(captured));
        let auth = role.socket_io.iter().flat_map(|socket_io| &socket_io.auth.pieces);
        slots.extend(auth.filter_map(captured));
    }
    slots
}

/// The slots of captured values that are parameters of a query with the name of a credential.
fn in_parameters(path: &Template) -> Vec<usize> {
    let before = [None].into_iter().chain(path.pieces.iter().map(Some));
    let secret = before.zip(&path.pieces).filter(|(before, _)| match before {
        Some(Piece::Text(text)) => {
            let parameter = text.rsplit(['?', '&']).next().and_then(|last| last.strip_suffix('='));
            parameter.is_some_and(names_secret)
        }
        _ => false,
    });
    secret.filter_map(|(_, piece)| captured(piece)).collect()
}

/// The slot of a captured value.
fn captured(piece: &Piece) -> Option<usize> {
    match piece {
        Piece::Captured(slot, _) => Some(*slot),
        _ => None,
    }
}
