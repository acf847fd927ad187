//! Credentials in addresses: the password before the host, and the values of the query, of which some are
//! secrets.

use std::ops::Range;

/// What stands in the place of a secret.
pub const HIDDEN: &str = "***";
/// Parts of names that tell of a secret, and names that do so as a word of their own.
const TELLING: [&str; 9] =
    ["token", "secret", "password", "passwd", "auth", "credential", "signature", "session", "cookie"];
const TELLING_WORDS: [&str; 9] = ["key", "sig", "sid", "code", "pass", "pwd", "pin", "sas", "jwt"];

/// Whether a value with that name may be a secret: a header, a parameter of a query, a variable.
pub fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|character: char| !character.is_ascii_alphanumeric());
    TELLING.iter().any(|part| name.contains(part))
        || name.ends_with("key")
        || words.any(|word| TELLING_WORDS.contains(&word))
}

/// A text with asterisks in the place of every password and every value of a query in its addresses.
pub fn hide_credentials(text: &str) -> String {
    without(text, credentials(text))
}

/// An argument of a command line with asterisks in the place of what is secret: as [`hide_credentials`], and the value of a key that names a
/// secret, as in `coap.dtls.key=VALUE`.
pub fn hide_in_argument(argument: &str) -> String {
    let (option, setting) = match argument.strip_prefix("--set=") {
        Some(setting) => ("--set=", setting),
        None => ("", argument),
    };
    match setting.split_once('=') {
        Some((key, _)) if !key.contains("://") && key.rsplit('.').next().is_some_and(names_secret) => {
            format!("{option}{key}={HIDDEN}")
        }
        _ => hide_credentials(argument),
    }
}

/// An address, or the part of one from its path on, with asterisks in the place of the secrets in its query.
pub fn hide_query_secrets(address: &str) -> String {
    without(address, telling(address))
}

fn without(text: &str, hidden: impl IntoIterator<Item = Range<usize>>) -> String {
    let mut rest = String::with_capacity(text.len());
    let mut end = 0;
    for range in hidden {
        rest.push_str(text.get(end..range.start).unwrap_or_default());
        rest.push_str(HIDDEN);
        end = range.end;
    }
    rest + text.get(end..).unwrap_or_default()
}

/// Where passwords and values of queries stand in the addresses of a text, in their order.
pub fn credentials(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut begin = 0;
    while let Some(scheme) = text.get(begin..).and_then(|rest| rest.find("://")) {
        begin += scheme + "://".len();
        let rest = text.get(begin..).unwrap_or_default();
        let ends = |character: char| character.is_whitespace() || "\"'`<>".contains(character);
        let address = rest.split(ends).next().unwrap_or_default();
        // What stands before the last `@` may be a password, whatever else it looks like.
        let user = address.rfind('@').unwrap_or_default();
        let password = address.get(..user).and_then(|user| user.find(':')).map(|name| name + 1..user);
        let hidden_to = password.as_ref().map_or(0, |password| password.end);
        found.extend(password.map(|password| begin + password.start..begin + password.end));
        let values = parameters(address).map(|(_, value)| value.start.max(hidden_to)..value.end);
        found.extend(
            values.filter(|value| !value.is_empty()).map(|value| begin + value.start..begin + value.end),
        );
        begin += address.len();
    }
    found
}

/// The values of an address's query whose names tell of a secret, as they stand there and as they are meant.
pub fn query_secrets(address: &str) -> Vec<String> {
    let values = telling(address).filter_map(|value| address.get(value));
    let mut secrets: Vec<String> =
        values.flat_map(|value| [value.to_owned(), percent_decoded(value)]).collect();
    secrets.dedup();
    secrets
}

/// Where values stand in an address's query whose names tell of a secret.
fn telling(address: &str) -> impl Iterator<Item = Range<usize>> {
    parameters(address).filter(|(name, _)| names_secret(name)).map(|(_, value)| value)
}

/// Names and values of an address's query; what has no name is a value.
fn parameters(address: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    let query = address.find('?').map_or(address.len(), |mark| mark + 1);
    let mut end = query;
    let text = address.get(query..).unwrap_or_default().split('#').next().unwrap_or_default();
    let parameters = text.split('&').map(move |parameter| {
        let begin = end;
        end = begin + parameter.len() + 1;
        let name = parameter.split_once('=').map_or("", |(name, _)| name);
        let value = if name.is_empty() { 0 } else { name.len() + 1 };
        (name, begin + value..begin + parameter.len())
    });
    parameters.filter(|(_, value)| !value.is_empty())
}

/// `%41` is `A` (RFC 3986 section 2.1).
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = decoded.and_then(|_| after.get(2..)).unwrap_or(after);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn passwords_and_values_of_queries_are_hidden_in_addresses() {
        for (text, hidden) in [
            ("mqtt://me:secret@host:1883", "mqtt://me:***@host:1883"),
            ("mqtt://host:1883", "mqtt://host:1883"),
            ("http://h/in?token=abc", "http://h/in?token=***"),
            ("ws://me:pa?ss@h/in?a=1&&b=2&c=#top", "ws://me:***@h/in?a=***&&b=***&c=#top"),
            ("http://h/in?abc", "http://h/in?***"),
            ("http://h/in?mail=a@b&token=abc", "http://h/in?mail=***&token=***"),
            ("http://h:80/in?mail=a@b&token=abc", "http://h:******&token=***"),
            ("http://me:pw@h/in?mail=a@b&token=abc", "http://me:******&token=***"),
            ("--set=platform.address=http://h/?k=v", "--set=platform.address=http://h/?k=***"),
            ("`http://h/?k=v` and 'ws://h?k=v', or?", "`http://h/?k=***` and 'ws://h?k=***', or?"),
            ("is it? yes=no", "is it? yes=no"),
        ] {
            assert_eq!(hide_credentials(text), hidden);
        }
    }

    #[test]
    fn keys_on_a_command_line_are_hidden() {
        for (argument, hidden) in [
            ("coap.dtls.key=abc", "coap.dtls.key=***"),
            ("--set=coap.dtls.subscriber_key=a=b", "--set=coap.dtls.subscriber_key=***"),
            ("coap.dtls.key.env=NAME", "coap.dtls.key.env=NAME"),
            ("load.hold=1s", "load.hold=1s"),
            ("mqtt://u:p@host", "mqtt://u:***@host"),
        ] {
            assert_eq!(hide_in_argument(argument), hidden);
        }
    }

    #[test]
    fn values_whose_names_tell_of_a_secret_are_known() {
        let secrets =
            query_secrets("http://h/in?access_token=a%2Fbc&site=north&X-Api-Key=k1&apikey=k2&sig=s");
        assert_eq!(secrets, ["a%2Fbc", "a/bc", "k1", "k2", "s"]);
        assert!(query_secrets("http://h/in?site=north&design=flat&zip=12").is_empty());
        assert_eq!(hide_query_secrets("/in?site=north&key=k1&x=2"), "/in?site=north&key=***&x=2");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(://|[?&=#@:% é]|[a-z]){0,60}") {
            hide_credentials(&text);
            query_secrets(&text);
        }
    }
}
