//! Any bytes as answers of Kafka and as record batches: none panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::kafka::{self, batch};

fuzz_target!(|bytes: &[u8]| {
    let body = match kafka::answer(bytes, 1 << 20) {
        Ok(Some(answer)) => answer.body,
        _ => bytes,
    };
    let _ = (kafka::cluster(body), kafka::created_topic(body), kafka::producer(body));
    let _ = (kafka::joined(body), kafka::share(body), kafka::read_up_to(body), kafka::committed(body));
    let _ = (kafka::mechanisms(body), kafka::authenticated(body), kafka::produced_record(body));
    let _ = (kafka::produced(body), kafka::offsets(body), batch::read(bytes, &mut |_| ()));
    for fetched in kafka::fetched(body).into_iter().flatten() {
        let _ = batch::read(fetched.batches, &mut |_| ());
    }
});
