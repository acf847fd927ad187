//! What a bootstrap server may do (1.1 core, section 6.1.7): it writes what a device shall know of its servers, deletes what it
//! shall forget, and says when it is done.

use super::blocks;
use super::operations::{Reply, Served, Then, is_understood};
use super::own::{Own, SECURITY, SERVER};
use crate::drivers::coap::dtls::Credentials;
use plimsoll_codec::coap::{Message, code, option};
use plimsoll_codec::lwm2m::{Kind, Path, Value, format, link, payload};
use std::net::IpAddr;

/// Where a device asks to be bootstrapped, and where its server says that it is done.
pub const INTERFACE: &str = "/bs";
/// Resources of the object of security (1.1 core, appendix E.1): where a server is, whether it is one for
/// bootstrapping, how datagrams are secured, and the short number of the server.
const URI: u16 = 0;
const IS_BOOTSTRAP: u16 = 1;
const MODE: u16 = 2;
const SHORT_ID: u16 = 10;
/// The same number in the object of servers.
const SHORT_ID_OF_SERVER: u16 = 0;
/// The identity of the device or its certificate, the certificate of the server, and the device's key.
const IDENTITY: u16 = 3;
const SERVER_CERTIFICATE: u16 = 4;
const KEY: u16 = 5;
/// Who must have signed the certificate of the server. By default nobody: it is the one that stands there.
const CERTIFICATE_USAGE: u16 = 15;
const DOMAIN_ISSUED: i64 = 3;
/// The last of the objects that bootstrap servers write: security, servers, access control.
const LAST_WRITTEN: u16 = 2;

impl Served<'_> {
    /// Does what the bootstrap server asks; what it is answered with is put into `out`, which is empty.
    pub fn bootstrap(&mut self, request: &Message<'_>, out: &mut Vec<u8>) -> Reply {
        if !is_understood(request) {
            return Reply::of(code::BAD_OPTION);
        }
        let mut reply = self.bootstrap_operation(request, out);
        if request.code == code::GET && reply.code == code::CONTENT {
            blocks::cut(&mut reply, request.block(option::BLOCK2), self.block_size, out);
        }
        reply
    }

    fn bootstrap_operation(&mut self, request: &Message<'_>, out: &mut Vec<u8>) -> Reply {
        let path = request.path();
        if request.code == code::POST && path == INTERFACE {
            return Reply::of(code::CHANGED).then(Then::Register);
        }
        let Some(path) = Path::parse(&path) else { return Reply::of(code::NOT_FOUND) };
        let accept = request.number(option::ACCEPT).and_then(|number| u16::try_from(number).ok());
        match request.code {
            code::PUT => self.put(path, request),
            code::DELETE if path.depth() > 2 => Reply::of(code::METHOD_NOT_ALLOWED),
            code::DELETE => {
                // All that is there means all that a bootstrap server writes: what the device measures stays.
                let is_meant =
                    |own: &Path| path != Path::ROOT || own.object().is_some_and(|id| id <= LAST_WRITTEN);
                let gone: Vec<Path> = self.values().instances(path).into_iter().filter(is_meant).collect();
                gone.into_iter().for_each(|instance| self.own.delete(instance));
                Reply::of(code::DELETED)
            }
            code::GET if accept == Some(format::LINK) => self.list_for_bootstrap(path, out),
            code::GET if path.object() == Some(SERVER) => {
                self.read(&super::observations::Paths::One(path), accept, out)
            }
            _ => Reply::of(code::METHOD_NOT_ALLOWED),
        }
    }

    /// Lists objects and instances, with the server that each entry of an account is about (1.1 core, section 6.1.7.3).
    fn list_for_bootstrap(&self, path: Path, out: &mut Vec<u8>) -> Reply {
        let values = self.values();
        if path.depth() > 1 || !values.has(path) {
            return Reply::of(if path.depth() > 1 { code::METHOD_NOT_ALLOWED } else { code::NOT_FOUND });
        }
        let mut text = String::new();
        link::write("/", &format!(";lwm2m={}", self.version), &mut text);
        let entries = Entries(self.own);
        for own in values.instances(path) {
            let mut attributes = String::new();
            let is_security = own.object() == Some(SECURITY);
            let number = if is_security { SHORT_ID } else { SHORT_ID_OF_SERVER };
            if is_security || own.object() == Some(SERVER) {
                let planned = (!is_security).then_some(1);
                if let Some(id) = entries.number(own, number).or(planned) {
                    attributes += &format!(";ssid={id}");
                }
            }
            if let Some(Value::String(uri)) = entries.of(own, URI, Kind::String).filter(|_| is_security) {
                attributes += &format!(";uri=\"{uri}\"");
            }
            link::write(&own.to_string(), &attributes, &mut text);
        }
        out.extend_from_slice(text.as_bytes());
        Reply { content_format: Some(format::LINK), ..Reply::of(code::CONTENT) }
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

/// The server that a device was told of.
#[derive(Debug, PartialEq, Eq)]
pub struct Account {
    /// Its port at the host of the platform.
    pub port: u16,
    /// What secures the datagrams between them; `None` where they are not secured.
    pub credentials: Option<Credentials>,
}

/// The server that a device was told of, which must be at that host and as secured as the address of the platform; why
/// there is none, for people.
pub fn account_of(own: &Own, host: IpAddr, is_secured: bool) -> Result<Account, String> {
    let entries = Entries(own);
    let is_for_bootstrapping =
        |instance| entries.of(instance, IS_BOOTSTRAP, Kind::Boolean) == Some(Value::Boolean(true));
    let instances = own
        .of_object(SECURITY)
        .filter(|(path, _)| path.resource_id() == Some(URI))
        .map(|(path, _)| path.up_to(2))
        .filter(|instance| !is_for_bootstrapping(*instance));
    let (instance, uri) = instances
        .filter_map(|instance| match entries.of(instance, URI, Kind::String) {
            Some(Value::String(uri)) => Some((instance, uri)),
            _ => None,
        })
        .next()
        .ok_or("the bootstrap server named no server (0/x/0)")?;
    // It is a place like that of an image, but needs no path.
    let place = super::firmware::place(&format!("{}/", uri.trim_end_matches('/')), (host, is_secured));
    let (port, _) = place.map_err(|_| {
        let (scheme, way) = match is_secured {
            true => ("coaps://", "CoAP over DTLS"),
            false => ("coap://", "CoAP without DTLS"),
        };
        format!(
            "the bootstrap server named {uri}: with {scheme} in `platform.address`, devices reach a server over \
             {way} at {host} alone"
        )
    })?;
    let credentials = is_secured.then(|| entries.credentials(instance)).transpose()?;
    Ok(Account { port, credentials })
}

/// What was written to the object of security.
struct Entries<'a>(&'a Own);

impl<'a> Entries<'a> {
    /// The value of a resource of an instance.
    fn of(&self, instance: Path, resource: u16, kind: Kind) -> Option<Value<'a>> {
        self.0.written(instance.child(resource)?)?.as_kind(kind)
    }

    fn number(&self, instance: Path, resource: u16) -> Option<i64> {
        match self.of(instance, resource, Kind::Integer) {
            Some(Value::Integer(number)) => Some(number),
            _ => None,
        }
    }

    fn bytes(&self, instance: Path, resource: u16) -> Vec<u8> {
        match self.of(instance, resource, Kind::Opaque) {
            Some(Value::Opaque(bytes)) => bytes.to_vec(),
            _ => Vec::new(),
        }
    }

    /// What secures the datagrams between a device and the server of that instance.
    fn credentials(&self, instance: Path) -> Result<Credentials, String> {
        let identity = self.bytes(instance, IDENTITY);
        let key = self.bytes(instance, KEY);
        match self.number(instance, MODE) {
            Some(0) => Ok(Credentials::Key { identity, key }),
            Some(2) => match self.number(instance, CERTIFICATE_USAGE) {
                None | Some(DOMAIN_ISSUED) => {
                    let server = self.bytes(instance, SERVER_CERTIFICATE);
                    Ok(Credentials::Certificate { own: identity, private_key: key, server })
                }
                Some(usage) => Err(format!(
                    "the bootstrap server wants the server's certificate checked by way {usage} (0/x/15); devices \
                     know way 3 alone, in which the server shows the certificate at 0/x/4"
                )),
            },
            Some(mode) => {
                let name = match mode {
                    1 => ", a raw public key",
                    3 => ", no security",
                    4 => ", a certificate that the device asks for (EST)",
                    _ => "",
                };
                Err(format!(
                    "the bootstrap server wrote the security mode {mode}{name} (0/x/2); over coaps:// devices know \
                     0, a pre-shared key, and 2, a certificate"
                ))
            }
            None => Err("the bootstrap server wrote no security mode (0/x/2)".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::lwm2m::Given;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// A device to which that was written, each at its instance and resource.
    fn told(entries: &[(u16, u16, Value<'_>)]) -> Own {
        let mut own = Own::default();
        for (instance, resource, value) in entries {
            own.write(Path::resource(SECURITY, *instance, *resource), (*value).into());
        }
        own
    }

    #[test]
    fn the_account_of_a_server_names_it_with_its_key() {
        let bootstrap = [
            (0, URI, Value::String("coaps://127.0.0.1:5784")),
            (0, IS_BOOTSTRAP, Value::Boolean(true)),
            (0, MODE, Value::Integer(0)),
        ];
        let server = [
            (7, URI, Value::String("coaps://127.0.0.1")),
            (7, IS_BOOTSTRAP, Value::Boolean(false)),
            (7, MODE, Value::Integer(0)),
            (7, IDENTITY, Value::Opaque(b"me")),
            (7, KEY, Value::Opaque(b"sesame")),
        ];
        let own = told(&[&bootstrap[..], &server].concat());
        let credentials = Credentials::Key { identity: b"me".to_vec(), key: b"sesame".to_vec() };
        let expected = Account { port: 5684, credentials: Some(credentials) };
        assert_eq!(account_of(&own, HOST, true), Ok(expected));
        let plain = told(&[(0, URI, Value::String("coap://127.0.0.1:7"))]);
        assert_eq!(account_of(&plain, HOST, false), Ok(Account { port: 7, credentials: None }));
    }

    #[test]
    fn what_a_device_cannot_do_is_a_reason() {
        let of = |uri, mode: Option<i64>, more: &[(u16, u16, Value<'_>)]| {
            let mode = mode.map(|mode| (1, MODE, Value::Integer(mode)));
            let entries = [&[(1, URI, Value::String(uri))][..], mode.as_slice(), more].concat();
            account_of(&told(&entries), HOST, true).unwrap_err()
        };
        for (reason, expected) in [
            (of("coap://127.0.0.1:5683", Some(3), &[]), "over CoAP over DTLS at 127.0.0.1 alone"),
            (of("coaps://127.0.0.1", Some(1), &[]), "mode 1, a raw public key (0/x/2)"),
            (of("coaps://127.0.0.1", Some(77), &[]), "mode 77 (0/x/2)"),
            (of("coaps://127.0.0.1", None, &[]), "no security mode (0/x/2)"),
            (of("coaps://127.0.0.1", Some(2), &[(1, CERTIFICATE_USAGE, Value::Integer(0))]), "(0/x/15)"),
        ] {
            assert!(reason.contains(expected), "{reason}");
        }
        let mut text = told(&[(1, URI, Value::String("coaps://127.0.0.1"))]);
        text.write(Path::resource(SECURITY, 1, MODE), Given::Text("key".into()));
        assert!(account_of(&text, HOST, true).unwrap_err().contains("no security mode"));
        assert!(!format!("{:?}", Credentials::Key { identity: vec![], key: vec![77] }).contains("77"));
    }
}
