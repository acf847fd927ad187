//! What clients saw by their own clocks, held against what is read off the wire.

use crate::Reading;
use plimsoll_model::wire::Outcome;
use serde_json::Value;

/// By how much two readings of the clock may contradict each other, seconds.
const CLOCK: f64 = 100e-6;
/// What a client's library may take to hand a response on, seconds.
const HANDED_ON: f64 = 1e-3;
/// What it may take where something else holds it up, seconds; the slowest library of the captures took 3.7 ms.
const HELD_UP: f64 = 5e-3;

/// That so many answered exchanges of the truth that are `wanted` are on the wire, with the same ports and (where `verbs` are
/// the wire's) verb, each between the two times of its client, no faster than it was made, and half of them with
/// their response on the wire at most [`HANDED_ON`] before the client had it, nine of ten [`HELD_UP`]. A request may wait in
/// its client for longer.
pub fn agree(reading: &Reading, truth: &Value, verbs: bool, count: usize, wanted: impl Fn(&Value) -> bool) {
    let mut free = vec![true; reading.exchanges.len()];
    let mut lags = Vec::new();
    let said = truth["exchanges"].as_array().unwrap().iter();
    for said in said.filter(|said| said["answered"] == true && wanted(said)) {
        let (sent, received) = (said["t_send"].as_f64().unwrap(), said["t_recv"].as_f64().unwrap());
        let port = |name: &str| said[name].as_u64().map(|port| port as u16);
        let fits = |place: &usize| {
            let found = &reading.exchanges[*place];
            let answered = matches!(found.observed.outcome, Outcome::Answered | Outcome::Failed);
            let Some(response) = found.observed.response.filter(|_| free[*place] && answered) else {
                return false;
            };
            port("client_port").is_none_or(|port| port == found.client.port)
                && port("server_port").is_none_or(|port| port == found.server.port)
                && (!verbs || said["verb"] == found.observed.verb.as_str())
                && found.observed.request.first.as_secs_f64() > sent - CLOCK
                && response.last.as_secs_f64() < received + CLOCK
        };
        let place = (0..free.len()).find(fits).unwrap_or_else(|| panic!("not on the wire: {said}"));
        free[place] = false;
        let found = reading.exchanges[place].observed;
        let answered = found.response.unwrap().last;
        let planted = said["planted_delay_s"].as_f64().unwrap_or(0.0);
        let wire = (answered - found.request.last).as_secs_f64();
        assert!(wire > planted - CLOCK, "{wire} s is faster than it was made: {said}");
        lags.push(received - answered.as_secs_f64());
    }
    assert_eq!(lags.len(), count);
    lags.sort_by(f64::total_cmp);
    for (lag, most) in [(lags[lags.len() / 2], HANDED_ON), (lags[lags.len() * 9 / 10], HELD_UP)] {
        assert!(lag < most, "responses were on the wire {lag} s and more before their clients had them");
    }
}
