//! Any bytes as a list of links: none panics, and targets that are written anew are read as they were.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::lwm2m::link::{self, Links};
use plimsoll_codec::lwm2m::Attributes;

fuzz_target!(|bytes: &[u8]| {
    let Ok(links) = Links::new(bytes) else { return };
    let links: Vec<_> = links.flatten().collect();
    let mut anew = String::new();
    links.iter().for_each(|one| link::write(one.target, "", &mut anew));
    let again: Vec<&str> = Links::new(anew.as_bytes()).unwrap().flatten().map(|one| one.target).collect();
    assert!(again.into_iter().eq(links.iter().map(|one| one.target)));
    for one in &links {
        let _ = (one.path(), one.attribute("ver"), one.attribute("rt"));
        let mut attributes = Attributes::default();
        one.target.split('&').for_each(|part| _ = attributes.write(part));
    }
});
