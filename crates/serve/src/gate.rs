//! Lets in who may come, and nobody else.
//!
//! | attack | what stops it |
//! |---|---|
//! | another host connects | only a loopback address is listened at, unless the user says otherwise |
//! | another user of this host connects | a token, then a cookie with it |
//! | a name of an attacker that leads to our address (DNS rebinding) | the `Host` must be an address of ours or a name that the user gave |
//! | another site has the browser send a request (CSRF) | the cookie is `SameSite=Strict`; what changes something must have our `Origin` |
//! | another site shows the page in a frame, or reads from it | `frame-ancestors`, `Cross-Origin-Resource-Policy`, Fetch Metadata |
//! | tokens are guessed, byte by byte | 256 random bits, compared in constant time |

use crate::answer::{self, Answer};
use crate::site::Site;
use crate::tokens::Role;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderName, ORIGIN, SET_COOKIE};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a request may take until it is answered. A stream that follows a run begins within that time, and goes on.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The parameter of the address that is printed.
const TOKEN: &str = "token=";
/// Which site a request comes from, and what for (Fetch Metadata, W3C).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// By what names browsers may reach the page.
pub struct Hosts {
    listens: SocketAddr,
    names: Vec<String>,
}

impl Hosts {
    /// Of a page that listens there and has further names.
    pub fn new(listens: SocketAddr, names: Vec<String>) -> Hosts {
        Hosts { listens, names: names.into_iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Where the page listens.
    pub fn listens(&self) -> SocketAddr {
        self.listens
    }

    /// The host for an address that is printed.
    pub fn shown(&self) -> String {
        match self.names.first() {
            Some(name) if !self.listens.ip().is_loopback() => name.clone(),
            _ => self.listens.to_string(),
        }
    }

    /// Whether a `Host` is ours. An address cannot be made to lead elsewhere, a name can.
    fn is_ours(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        if self.names.contains(&host) {
            return true;
        }
        let port = self.listens.port();
        let name = match host.rsplit_once(':') {
            Some((name, written)) if written.parse() == Ok(port) => name,
            // Browsers leave out the port of http.
            None if port == 80 => host.as_str(),
            _ => return false,
        };
        if name == "localhost" {
            return self.listens.ip().is_loopback() || self.listens.ip().is_unspecified();
        }
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let Ok(address) = name.parse::<IpAddr>() else { return self.names.iter().any(|own| own == name) };
        match self.listens.ip() {
            own if own.is_loopback() => address.is_loopback(),
            own => own == address || own.is_unspecified(),
        }
    }

    /// The name of the cookie: servers at other ports of this host have their own.
    fn cookie(&self) -> String {
        format!("plimsoll-{}", self.listens.port())
    }
}

/// How somebody showed who they are.
enum Shown {
    /// A program that sends the token itself.
    Bearer(Role),
    /// A browser that sends a cookie along, whoever made it send the request.
    Cookie(Role),
}

/// What becomes of a request.
pub enum Admitted {
    /// It is answered to somebody of that role.
    As(Role),
    /// Somebody has shown a token for the first time.
    Enters(Answer),
    /// It is refused: what is wrong, and what to do.
    Refused(StatusCode, &'static str, &'static str),
}

/// Decides that by the head of a request.
pub fn admit(site: &Site, method: &Method, uri: &Uri, headers: &HeaderMap) -> Admitted {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) if uri.authority().is_none() && site.hosts.is_ours(host) => host,
        _ => {
            return Admitted::Refused(
                StatusCode::MISDIRECTED_REQUEST,
                "The page does not have that name.",
                "Use the address that `plimsoll serve` printed, or start it with --name NAME.",
            );
        }
    };
    let is_read = method == Method::GET || method == Method::HEAD;
    let is_visit = is_read && text(MODE) == Some("navigate") && text(DESTINATION) == Some("document");
    if matches!(text(SITE), Some("cross-site" | "same-site")) && !is_visit {
        return Admitted::Refused(
            StatusCode::FORBIDDEN,
            "Another site sent this request.",
            "Open the page itself, and do it there.",
        );
    }
    if is_read
        && uri.path() == "/"
        && let Some(token) = uri.query().and_then(|query| query.strip_prefix(TOKEN))
    {
        return enter(site, token);
    }
    let Some(shown) = shown(site, headers) else {
        return Admitted::Refused(
            StatusCode::UNAUTHORIZED,
            "This page is for those who have its address with the token.",
            "Use the address that `plimsoll serve` printed when it started.",
        );
    };
    let role = match shown {
        Shown::Cookie(_) if !is_read && !is_own_origin(text(ORIGIN), host) => {
            return Admitted::Refused(
                StatusCode::FORBIDDEN,
                "Another site sent this request.",
                "Open the page itself, and do it there.",
            );
        }
        Shown::Bearer(role) | Shown::Cookie(role) => role,
    };
    if !is_read && role < Role::Operator {
        return Admitted::Refused(
            StatusCode::FORBIDDEN,
            "Viewers can look, and change nothing.",
            "Use the address for operators that `plimsoll serve` printed.",
        );
    }
    Admitted::As(role)
}

/// Whether an origin is that of the page itself, in clear or behind a proxy with TLS.
fn is_own_origin(origin: Option<&str>, host: &str) -> bool {
    let origin =
        origin.and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
    origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

fn shown(site: &Site, headers: &HeaderMap) -> Option<Shown> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let token = value.to_str().ok()?.strip_prefix("Bearer ")?;
        return site.tokens.role(token).map(Shown::Bearer);
    }
    let name = site.hosts.cookie();
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let role = pairs.find(|(own, _)| *own == name).and_then(|(_, token)| site.tokens.role(token));
    role.map(Shown::Cookie)
}

/// Somebody shows the token of the printed address: the browser keeps it as a cookie, and the address bar loses it.
fn enter(site: &Site, token: &str) -> Admitted {
    if site.tokens.role(token).is_none() {
        return Admitted::Refused(
            StatusCode::UNAUTHORIZED,
            "The token in this address is not one of this page.",
            "Use the address that `plimsoll serve` printed when it started.",
        );
    }
    let cookie =
        format!("{}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000", site.hosts.cookie());
    Admitted::Enters(answer::with(answer::redirect("/"), SET_COOKIE, &cookie))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_lead_elsewhere_is_not_ours() {
        let loopback =
            Hosts::new("127.0.0.1:8800".parse().unwrap(), vec!["Bench.example".into(), "proxy:443".into()]);
        for (host, ours) in [
            ("127.0.0.1:8800", true),
            ("localhost:8800", true),
            ("LOCALHOST:8800", true),
            ("[::1]:8800", true),
            ("bench.example:8800", true),
            ("bench.example", true),
            ("proxy:443", true),
            ("proxy:8800", false),
            ("127.0.0.1", false),
            ("127.0.0.1:80", false),
            ("127.0.0.1:8800x", false),
            ("attacker.example:8800", false),
            ("127.0.0.1.attacker.example:8800", false),
            ("192.0.2.1:8800", false),
            ("", false),
            (":8800", false),
        ] {
            assert_eq!(loopback.is_ours(host), ours, "{host}");
        }
        let everywhere = Hosts::new("0.0.0.0:80".parse().unwrap(), Vec::new());
        for (host, ours) in [("192.0.2.1", true), ("192.0.2.1:80", true), ("attacker.example", false)] {
            assert_eq!(everywhere.is_ours(host), ours, "{host}");
        }
        let one = Hosts::new("192.0.2.1:8800".parse().unwrap(), Vec::new());
        assert!(
            one.is_ours("192.0.2.1:8800") && !one.is_ours("localhost:8800") && !one.is_ours("192.0.2.2:8800")
        );
    }

    #[test]
    fn an_origin_is_ours_whole_or_not_at_all() {
        for (origin, ours) in [
            (Some("http://localhost:8800"), true),
            (Some("https://localhost:8800"), true),
            (Some("http://localhost:8801"), false),
            (Some("http://localhost:8800.attacker.example"), false),
            (Some("http://attacker.example"), false),
            (Some("null"), false),
            (None, false),
        ] {
            assert_eq!(is_own_origin(origin, "localhost:8800"), ours, "{origin:?}");
        }
    }
}
