//! What a bootstrap server may do (1.1 core, section 6.1.7): it writes what a device shall know of its servers, deletes what it
//! shall forget, and says when it is done.

use super::operations::{Reply, Served, Then};
use super::own::{Own, SECURITY};
use plimsoll_codec::coap::{Message, code, option};
use plimsoll_codec::lwm2m::{Kind, Path, Value, format, payload};
use std::net::IpAddr;

/// Where a device asks to be bootstrapped, and where its server says that it is done.
pub const INTERFACE: &str = "/bs";
/// Resources of the object of security: where a server is, and whether it is one for bootstrapping.
const URI: u16 = 0;
const IS_BOOTSTRAP: u16 = 1;
/// The object of servers, which a bootstrap server may read.
const SERVER: u16 = 1;
/// The last of the objects that bootstrap servers write: security, servers, access control.
const LAST_WRITTEN: u16 = 2;

impl Served<'_> {
    /// Does what the bootstrap server asks; what it is answered with is put into `out`, which is empty.
    pub fn bootstrap(&mut self, request: &Message<'_>, out: &mut Vec<u8>) -> Reply {
        let path = request.path();
        if request.code == code::POST && path == INTERFACE {
            return Reply::of(code::CHANGED).then(Then::Register);
        }
        let Some(path) = Path::parse(&path) else { return Reply::of(code::NOT_FOUND) };
        let accept = request.number(option::ACCEPT).and_then(|number| u16::try_from(number).ok());
        match request.code {
            code::PUT => self.put(path, request),
            code::DELETE => {
                // All that is there means all that a bootstrap server writes: what the device measures stays.
                let is_meant =
                    |own: &Path| path != Path::ROOT || own.object().is_some_and(|id| id <= LAST_WRITTEN);
                let gone: Vec<Path> = self.values().instances(path).into_iter().filter(is_meant).collect();
                gone.into_iter().for_each(|instance| self.own.delete(instance));
                Reply::of(code::DELETED)
            }
            code::GET if accept == Some(format::LINK) => self.discover(path, out),
            code::GET if path.object() == Some(SERVER) => {
                self.read(&super::observations::Paths::One(path), accept, out)
            }
            _ => Reply::of(code::METHOD_NOT_ALLOWED),
        }
    }

    /// Writes instances, which are there afterwards whether they were before or not.
    fn put(&mut self, path: Path, request: &Message<'_>) -> Reply {
        if path == Path::ROOT {
            return Reply::of(code::METHOD_NOT_ALLOWED);
        }
        let content_format =
            request.content_format().unwrap_or(if path.depth() > 2 { format::TEXT } else { format::TLV });
        let Ok(given) = payload::read(content_format, path, request.payload) else {
            return Reply::of(code::BAD_REQUEST);
        };
        if !self.has_room_for(&given) {
            return Reply::of(code::TOO_LARGE);
        }
        for (path, given) in given {
            // What is of no known kind stays as it came.
            let kind = self.objects.like(path.up_to(3)).and_then(|resource| resource.kind());
            let value = match kind {
                Some(kind) => given.as_kind(kind).map(Into::into),
                None => Some(given.into_owned()),
            };
            let Some(value) = value else { return Reply::of(code::BAD_REQUEST) };
            self.own.create(path.up_to(2));
            self.own.write(path, value);
        }
        Reply::of(code::CHANGED)
    }
}

/// The port of the server that a device was told of, which must be at that host; why there is none, for people.
pub fn server_of(own: &Own, host: IpAddr) -> Result<u16, String> {
    let accounts = || own.of_object(SECURITY);
    let is_for_bootstrapping = |instance: Path| {
        accounts().any(|(path, given)| {
            instance.covers(path)
                && path.resource_id() == Some(IS_BOOTSTRAP)
                && given.as_kind(Kind::Boolean) == Some(Value::Boolean(true))
        })
    };
    let uri = accounts()
        .filter(|(path, _)| path.resource_id() == Some(URI) && !is_for_bootstrapping(path.up_to(2)))
        .find_map(|(_, given)| match given.as_kind(Kind::String) {
            Some(Value::String(uri)) => Some(uri.to_owned()),
            _ => None,
        })
        .ok_or("the bootstrap server named no server (0/x/0)")?;
    // It is a place like that of an image, but needs no path.
    let place = super::firmware::place(&format!("{}/", uri.trim_end_matches('/')), (host, false));
    let (port, _) = place.map_err(|_| {
        format!("the bootstrap server named {uri}: devices reach a server over CoAP at {host} alone")
    })?;
    Ok(port)
}
