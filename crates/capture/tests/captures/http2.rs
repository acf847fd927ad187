use crate::read;
use plimsoll_model::wire::Protocol;
#[test]
fn x() {
    let r = read("http2.pcap");
    let c = r.protocol(Protocol::Http2);
    println!(
        "{} {} {} {} {} {} {}",
        c.requests, c.responses, c.errors, c.unanswered, c.unknown, c.unexpected, c.malformed
    );
    println!("{:?}", c.verbs.iter().map(|(k, v)| (k, v.count, v.failed, v.unanswered)).collect::<Vec<_>>());
    println!("{:?}", c.statuses);
}
