//! WebSocket: the library `websockets` against aiohttp, one connection compressed, one through nginx.

use crate::clients::agree;
use crate::{count, read, truth};
use plimsoll_model::wire::WireProtocol;
use serde_json::Value;

#[test]
fn messages_are_those_of_the_clients() {
    let (reading, truth) = (read("websocket.pcap"), truth("websocket"));
    let counted = reading.protocol(WireProtocol::WebSocket);
    // What goes through nginx is seen on both of its sides.
    let twice = |wanted: &dyn Fn(&Value) -> bool| {
        let said = truth["exchanges"].as_array().unwrap().iter().filter(|said| wanted(said));
        said.map(|said| if said["conn"] == "c3" { 2 } else { 1 }).sum::<u64>()
    };
    assert_eq!(counted.requests, twice(&|_| true));
    assert_eq!(counted.unanswered, twice(&|said| said["answered"] == false));
    assert_eq!(counted.responses, twice(&|said| said["answered"] == true));
    // Where a message has two replies, the second answers nothing.
    assert_eq!(counted.unexpected, twice(&|said| said["replies"] == 2));
    assert_eq!((counted.unknown, counted.malformed), (0, 0));
    let verb = |verb| reading.verb(WireProtocol::WebSocket, verb);
    assert_eq!(verb("BINARY"), twice(&|said| said["opcode"] == 2));
    assert_eq!(verb("TEXT"), twice(&|said| said["opcode"].is_null()));
    let frames = |name: &str| count(&truth, name) / 3 * 4;
    assert_eq!((verb("PING"), verb("PONG")), (frames("pings"), frames("pongs")));
    assert_eq!(verb("CLOSE"), 2 * frames("client_closes"));
    assert_eq!(reading.verb(WireProtocol::Http, "GET"), count(&truth, "upgrades") / 3 * 4);
    // In order, a message without answer shifts those behind it.
    let said = truth["exchanges"].as_array().unwrap().iter();
    let unanswered =
        said.filter(|said| said["answered"] == false).map(|said| said["t_send"].as_f64().unwrap());
    let in_order = unanswered.reduce(f64::min).unwrap();
    let single = |said: &Value| {
        said["kind"].is_null() && said["replies"] == 1 && said["t_send"].as_f64().unwrap() < in_order
    };
    agree(&reading, &truth, false, 84, single);
}
