//! Which captured values are secret: those that requests have in the places of credentials.

use crate::plan::{CaptureFrom, Piece, ReceiveRole, RolePlan};
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
    let queries = plan.query.iter().flat_map(|query| query.log_in.iter().chain([&query.request]));
    let observers = plan.observes.iter().flat_map(|observes| &observes.log_in);
    let devices = plan.device.log_in.iter().chain(&plan.device.request);
    let (receivers, websocket) = match &plan.receives {
        Some(ReceiveRole::Http(role)) => (Some(&role.request), None),
        Some(ReceiveRole::WebSocket(role)) => (None, Some(role)),
        None => (None, None),
    };
    let clients = devices.chain(observers).chain(receivers).chain(queries);
    let requests = steps.map(|step| &step.request).chain(clients);
    let mut slots = Vec::new();
    for request in requests {
        let headers = request.headers.iter().filter(|(name, _)| names_secret(name));
        slots.extend(headers.flat_map(|(_, value)| &value.pieces).filter_map(captured));
        let before = [None].into_iter().chain(request.path.pieces.iter().map(Some));
        let in_parameters = before.zip(&request.path.pieces).filter(|(before, _)| match before {
            Some(Piece::Text(text)) => {
                let parameter = text.rsplit(['?', '&']).next().and_then(|last| last.strip_suffix('='));
                parameter.is_some_and(names_secret)
            }
            _ => false,
        });
        slots.extend(in_parameters.filter_map(|(_, piece)| captured(piece)));
    }
    // What lets a WebSocket in has its credentials in messages, whose keys are not looked at.
    let openings = [Some(&plan.device.websocket), websocket].into_iter().flatten();
    for role in openings {
        let headers = role.headers.iter().filter(|(name, _)| names_secret(name));
        slots.extend(headers.flat_map(|(_, value)| &value.pieces).filter_map(captured));
    }
    slots
}

/// The slot of a captured value.
fn captured(piece: &Piece) -> Option<usize> {
    match piece {
        Piece::Captured(slot, _) => Some(*slot),
        _ => None,
    }
}
