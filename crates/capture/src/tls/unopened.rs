//! Why TLS stays closed.

/// Why a conversation was not opened, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unopened {
    /// Nobody told its keys.
    NoKey,
    /// Its version or suite is none of those that can be opened.
    Suite,
    /// Its handshake is not in the capture.
    Beginning,
    /// What the capture lacks was too much to go on behind it.
    Hole,
    /// It says something before the server has answered, under a key of its own.
    EarlyData,
    /// A record is none, or was not made with the key that is known.
    Broken,
    /// It ended before anything was encrypted.
    Unfinished,
    /// It was given up to make room for others.
    GivenUp,
    /// It is DTLS.
    Datagrams,
}

impl Unopened {
    /// As in results.
    pub const fn name(self) -> &'static str {
        match self {
            Unopened::NoKey => "no_key",
            Unopened::Suite => "suite",
            Unopened::Beginning => "beginning",
            Unopened::Hole => "hole",
            Unopened::EarlyData => "early_data",
            Unopened::Broken => "broken",
            Unopened::Unfinished => "unfinished",
            Unopened::GivenUp => "given_up",
            Unopened::Datagrams => "dtls",
        }
    }
}
