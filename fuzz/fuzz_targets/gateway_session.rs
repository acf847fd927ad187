//! Any bytes as what a device sends to the gateway: nothing panics, and it means the same in whatever pieces it comes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_gateway::configuration::PushProtocol;
use plimsoll_gateway::push::{Said, session};

fn understood(protocol: PushProtocol, bytes: &[u8], piece: usize) -> Vec<Said> {
    let mut session = session(protocol);
    let mut all = Vec::new();
    for piece in bytes.chunks(piece) {
        session.add(piece);
        while let Some(said) = session.next() {
            let said = match said {
                // Of a number that stands where an object should, more may come: only what ends by itself is the same.
                Said::Refused(..) if protocol == PushProtocol::Tcp => return all,
                // How it is worded may depend on the pieces, and so may whether a client has to be told to go on.
                Said::Refused(answer, _) => Said::Refused(answer, String::new()),
                Said::Call(answer) if answer.starts_with(b"HTTP/1.1 100 ") => continue,
                // The time goes on.
                Said::Call(_) if protocol == PushProtocol::Tcp => Said::Call(Vec::new()),
                other => other,
            };
            all.push(said);
            match all.last() {
                Some(Said::Refused(..) | Said::Farewell) => return all,
                Some(Said::Event(_)) if session.over(true).is_last => return all,
                _ => {}
            }
        }
    }
    all
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    for protocol in PushProtocol::ALL {
        let whole = understood(protocol, bytes, bytes.len().max(1));
        assert_eq!(whole, understood(protocol, bytes, usize::from(first).max(1)));
    }
});
