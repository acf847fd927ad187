//! The object of firmware (1.1 core, appendix E.6): a server writes an image or says where it is, has it installed, and follows
//! the state and the result.

use super::own::Own;
use plimsoll_codec::lwm2m::{Given, Path};
use plimsoll_model::Nanos;
use std::net::{IpAddr, SocketAddr};

/// The image, which a server writes.
pub const PACKAGE: Path = Path::resource(5, 0, 0);
/// Where the image is, which a server writes instead.
pub const PACKAGE_URI: Path = Path::resource(5, 0, 1);
/// Installs it when it is executed.
pub const UPDATE: Path = Path::resource(5, 0, 2);
/// How far the device is.
pub const STATE: Path = Path::resource(5, 0, 3);
/// What came of it.
pub const RESULT: Path = Path::resource(5, 0, 5);
/// The port of CoAP.
const PORT: u16 = 5683;
const SECURE_PORT: u16 = 5684;
/// How often a download begins anew for another image at most.
pub const MOST_RESTARTS: u32 = 3;

/// How far a device is with new firmware: the values of [`STATE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Idle = 0,
    Downloading = 1,
    Downloaded = 2,
    Updating = 3,
}

/// What came of it: the values of [`RESULT`] that devices of ours have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    None = 0,
    Success = 1,
    TooLarge = 2,
    ConnectionLost = 4,
    InvalidUri = 7,
    UnsupportedProtocol = 9,
}

/// What a server wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To download the image from where it is.
    Download,
    /// Nothing: it has written the image, of so many bytes.
    Pushed(usize),
    /// To forget it.
    Cancel,
    /// To install it.
    Install,
}

/// What a server wants that has written that; `None` where it has nothing to do with firmware.
pub fn order_of_write(path: Path, value: &Given<'_>) -> Option<Order> {
    match (path, value) {
        // An empty image, or one zero, ends what is under way.
        (PACKAGE, Given::Bytes(bytes)) if bytes.is_empty() || bytes.as_ref() == [0] => Some(Order::Cancel),
        (PACKAGE, Given::Bytes(bytes)) => Some(Order::Pushed(bytes.len())),
        (PACKAGE_URI, Given::Text(text)) if text.is_empty() => Some(Order::Cancel),
        (PACKAGE_URI, _) => Some(Order::Download),
        _ => None,
    }
}

/// Whether a device has firmware that it can install.
pub fn is_downloaded(own: &Own) -> bool {
    matches!(own.written(STATE), Some(Given::Integer(state)) if *state == State::Downloaded as i64)
}

/// A download under way, block by block.
#[derive(Debug)]
pub struct Download {
    /// Path and query of the image.
    pub target: Box<str>,
    /// The server's port that has it.
    pub port: u16,
    /// The block that is wanted next, and the largest size of one.
    pub block: u32,
    pub block_size: u16,
    /// Whether it was asked for.
    pub is_asked: bool,
    /// What tells the image from another one.
    pub tag: Option<Box<[u8]>>,
    /// How often it began anew, since another image was there.
    pub restarts: u32,
    /// What came of it, and when the server wanted it.
    pub bytes: u64,
    pub began: Nanos,
}

/// Where an image is: the server's port, path and query. It must be at the host of the server, and as secured as the registration.
///
/// # Errors
/// What a device says of such a text.
pub fn place(uri: &str, (server, is_secured): (IpAddr, bool)) -> Result<(u16, Box<str>), Outcome> {
    let (scheme, usual) = if is_secured { ("coaps", SECURE_PORT) } else { ("coap", PORT) };
    let rest = match uri.split_once("://") {
        Some((named, rest)) if named == scheme => rest,
        Some(_) => return Err(Outcome::UnsupportedProtocol),
        None => return Err(Outcome::InvalidUri),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.parse::<SocketAddr>() {
        Ok(address) => (Some(address.ip()), address.port()),
        Err(_) => {
            let (host, port) = match authority.rsplit_once(':').filter(|_| !authority.ends_with(']')) {
                Some((host, port)) => (host, port.parse().map_err(|_| Outcome::InvalidUri)?),
                None => (authority, usual),
            };
            let address = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
            (address.or((host == "localhost" && server.is_loopback()).then_some(server)), port)
        }
    };
    if host == Some(server) && port > 0 && !path.is_empty() {
        Ok((port, path.into()))
    } else {
        Err(Outcome::InvalidUri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_at_the_host_of_the_server() {
        let (four, six) = (IpAddr::from([127, 0, 0, 1]), "::1".parse::<IpAddr>().unwrap());
        for (uri, server, expected) in [
            ("coap://127.0.0.1:5800/fw?v=2", four, Ok((5800, "/fw?v=2"))),
            ("coap://127.0.0.1/fw", four, Ok((5683, "/fw"))),
            ("coap://localhost:7/fw", four, Ok((7, "/fw"))),
            ("coap://[::1]:5800/fw", six, Ok((5800, "/fw"))),
            ("coap://[::1]/fw", six, Ok((5683, "/fw"))),
            ("coap://127.0.0.2/fw", four, Err(Outcome::InvalidUri)),
            ("coap://127.0.0.1", four, Err(Outcome::InvalidUri)),
            ("coap://127.0.0.1:x/fw", four, Err(Outcome::InvalidUri)),
            ("coap://127.0.0.1:0/fw", four, Err(Outcome::InvalidUri)),
            ("fw", four, Err(Outcome::InvalidUri)),
            ("http://127.0.0.1/fw", four, Err(Outcome::UnsupportedProtocol)),
        ] {
            let expected = expected.map(|(port, path): (u16, &str)| (port, Box::from(path)));
            assert_eq!(place(uri, (server, false)), expected, "{uri}");
            let secure = uri.replace("coap:", "coaps:");
            let expected = expected.map(|(port, path)| (if port == PORT { SECURE_PORT } else { port }, path));
            assert_eq!(place(&secure, (server, true)), expected, "{secure}");
        }
    }

    #[test]
    fn a_write_says_what_is_wanted() {
        let of = order_of_write;
        assert_eq!(of(PACKAGE, &Given::Bytes(vec![1, 2].into())), Some(Order::Pushed(2)));
        assert_eq!(of(PACKAGE, &Given::Bytes(vec![0].into())), Some(Order::Cancel));
        assert_eq!(of(PACKAGE_URI, &Given::Text("".into())), Some(Order::Cancel));
        assert_eq!(of(PACKAGE_URI, &Given::Text("coap://h/p".into())), Some(Order::Download));
        assert_eq!(of(STATE, &Given::Integer(1)), None);
    }
}
