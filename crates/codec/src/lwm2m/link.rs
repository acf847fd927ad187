//! Links (RFC 6690): what a device registers, and what it answers to Discover.

use super::{Malformed, Path};
use std::fmt::Write;

/// A link as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// What stands between `<` and `>`.
    pub target: &'a str,
    /// What follows, with the semicolon before each attribute.
    attributes: &'a str,
}

impl<'a> Link<'a> {
    /// The path that it names; `None` where it names none.
    pub fn path(&self) -> Option<Path> {
        Path::parse(self.target)
    }

    /// The value of an attribute, without its quotes; empty where it has none.
    pub fn attribute(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.attributes;
        while let Some(own) = rest.strip_prefix(';') {
            let end = end_of_part(own, ';');
            let (part, behind) = own.split_at_checked(end)?;
            rest = behind;
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if key == name {
                return Some(
                    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value),
                );
            }
        }
        None
    }
}

/// The links of a payload, one after the other. The first malformed one is the last.
#[derive(Clone, Debug)]
pub struct Links<'a> {
    rest: &'a str,
}

impl<'a> Links<'a> {
    /// Of a payload.
    ///
    /// # Errors
    /// It is no text.
    pub fn new(payload: &'a [u8]) -> Result<Links<'a>, Malformed> {
        let rest = std::str::from_utf8(payload).map_err(|_| malformed("it is no UTF-8"))?;
        Ok(Links { rest })
    }

    fn link(&mut self) -> Result<Link<'a>, Malformed> {
        let behind = self.rest.strip_prefix('<').ok_or(malformed("a link does not begin with `<`"))?;
        let (target, behind) = behind.split_once('>').ok_or(malformed("a link has no `>`"))?;
        let end = end_of_part(behind, ',');
        let (attributes, behind) = behind.split_at_checked(end).unwrap_or((behind, ""));
        if !attributes.is_empty() && !attributes.starts_with(';') {
            return Err(malformed("something other than `;` or `,` follows a link"));
        }
        self.rest = behind.strip_prefix(',').unwrap_or_default();
        Ok(Link { target, attributes })
    }
}

impl<'a> Iterator for Links<'a> {
    type Item = Result<Link<'a>, Malformed>;

    fn next(&mut self) -> Option<Result<Link<'a>, Malformed>> {
        if self.rest.is_empty() {
            return None;
        }
        let link = self.link();
        if link.is_err() {
            self.rest = "";
        }
        Some(link)
    }
}

fn malformed(what: &'static str) -> Malformed {
    Malformed { format: "list of links", what }
}

/// Where the next such character is that stands in no quotes; the length where there is none.
fn end_of_part(text: &str, wanted: char) -> usize {
    let mut is_quoted = false;
    let found = text.char_indices().find(|(_, character)| {
        is_quoted ^= *character == '"';
        *character == wanted && !is_quoted
    });
    found.map_or(text.len(), |(at, _)| at)
}

/// Appends a link, with a comma before it where it is not the first; `attributes` as they stand behind it.
pub fn write(target: &str, attributes: &str, out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
    // Writing to memory does not fail.
    let _ = write!(out, "<{target}>{attributes}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_registration_is_read() {
        let payload = br#"</>;rt="oma.lwm2m";ct=11543,</1/0>,</3/0>;ver=1.1,</3303/0>;title="a,b;c""#;
        let links: Vec<Link<'_>> = Links::new(payload).unwrap().collect::<Result<_, _>>().unwrap();
        let paths: Vec<String> = links.iter().map(|link| link.path().unwrap().to_string()).collect();
        assert_eq!(paths, ["/", "/1/0", "/3/0", "/3303/0"]);
        assert_eq!((links[0].attribute("rt"), links[0].attribute("ct")), (Some("oma.lwm2m"), Some("11543")));
        assert_eq!((links[2].attribute("ver"), links[2].attribute("v")), (Some("1.1"), None));
        assert_eq!(links[3].attribute("title"), Some("a,b;c"));
    }

    #[test]
    fn what_is_no_list_of_links_is_malformed() {
        for wrong in [&b"3/0"[..], b"</3/0", b"</3/0>x", b"</3/0>,x"] {
            assert!(Links::new(wrong).unwrap().last().unwrap().is_err(), "{wrong:?}");
        }
        assert!(Links::new(&[0xff]).is_err());
    }

    #[test]
    fn links_are_written_one_behind_the_other() {
        let mut out = String::new();
        write("/3/0", "", &mut out);
        write("/3303/0", ";pmin=5", &mut out);
        assert_eq!(out, "</3/0>,</3303/0>;pmin=5");
    }

    proptest! {
        #[test]
        fn any_payload_is_read_without_panic(payload in "[<>/;,=\"a0-9é]{0,40}") {
            for link in Links::new(payload.as_bytes()).unwrap().flatten() {
                let _ = (link.path(), link.attribute("a"), link.attribute("ct"));
            }
        }

        #[test]
        fn paths_survive(ids in prop::collection::vec(0..65535_u16, 1..4)) {
            let path = Path::new(&ids).unwrap();
            let mut out = String::new();
            write(&path.to_string(), ";ver=1.0", &mut out);
            write("/1/0", "", &mut out);
            let links: Vec<_> = Links::new(out.as_bytes()).unwrap().flatten().collect();
            prop_assert_eq!(links[0].path(), Some(path));
            prop_assert_eq!(links.len(), 2);
        }
    }
}
