//! Why a connection could not be made, for people who have to do something about it.

use rustix::io::Errno;

/// The error of a socket that did not connect, with what it means here and what helps.
pub fn told(error: Errno) -> String {
    let advice = match error {
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => {
            "all local ports towards the platform are taken, or this host does not have that source address: `plimsoll \
             doctor SCENARIO` reports how many there are and how to get more"
        }
        Errno::MFILE => {
            "this process may have no more open files: `plimsoll doctor SCENARIO` reports how to raise that"
        }
        Errno::NFILE => "this host has no more open files: `sudo sysctl -w fs.file-max=NUMBER` raises that",
        Errno::CONNREFUSED => {
            "nobody listens there any more or yet, or the platform refuses further connections"
        }
        Errno::NOBUFS | Errno::NOMEM => "the kernel has no memory for further connections: use fewer devices",
        _ => return format!("cannot connect: {error}"),
    };
    format!("cannot connect: {error}: {advice}")
}

/// The error of a socket for datagrams, which tells what became of earlier ones.
pub fn told_of_datagram(error: Errno) -> String {
    match error {
        Errno::CONNREFUSED => {
            "nobody listens at the platform's UDP port (ICMP port unreachable, RFC 792)".to_owned()
        }
        Errno::MSGSIZE => format!("cannot send: {error}: the message fits in no datagram"),
        _ => format!("cannot send or receive: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_host_are_told_with_their_remedy() {
        for (error, name, remedy) in [
            (Errno::ADDRNOTAVAIL, "Cannot assign requested address", "plimsoll doctor"),
            (Errno::ADDRINUSE, "Address already in use", "all local ports"),
            (Errno::MFILE, "Too many open files", "plimsoll doctor"),
            (Errno::NFILE, "Too many open files in system", "fs.file-max"),
            (Errno::CONNREFUSED, "Connection refused", "nobody listens"),
        ] {
            let told = told(error);
            assert!(told.contains(name) && told.contains(remedy), "{told}");
        }
        assert!(told(Errno::HOSTUNREACH).ends_with("(os error 113)"));
    }
}
