//! Any bytes as a CoAP datagram: none panics, what is read is the same when written again, and options that are written
//! anew are read as they were.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::coap::{Message, OptionList, Options, option};

fuzz_target!(|datagram: &[u8]| {
    if let Ok(message) = Message::decode(datagram) {
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(written, datagram);
        let (mut list, mut anew) = (OptionList::new(), Vec::new());
        message.options().for_each(|(number, value)| list.add(number, value));
        list.encode(&mut anew);
        assert!(Options::new(&anew).eq(message.options()));
        for number in [option::BLOCK1, option::BLOCK2] {
            if let Some(block) = message.block(number) {
                assert_eq!(Some(block.to_number()), message.number(number));
            }
        }
        let _ = message.path();
    }
});
