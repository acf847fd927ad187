//! Names and values of a query or a form, as browsers write them (URL Standard, 5).

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads them. What is no pair is a name without a value.
    pub fn read(written: &[u8]) -> Fields {
        Fields(form_urlencoded::parse(written).into_owned().collect())
    }

    /// The first value of that name; empty where there is none.
    pub fn get(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All values of that name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// A text as a value of a query.
pub fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_escaped_is_read_again() {
        let text = "a&b=c d/\u{e4}\n";
        let fields = Fields::read(format!("x=1&text={}&x=2&y", escaped(text)).as_bytes());
        assert_eq!(fields.get("text"), text);
        assert_eq!(fields.all("x").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((fields.get("y"), fields.get("z")), ("", ""));
        assert_eq!(Fields::read(b"%ff=%zz").get("\u{fffd}"), "%zz");
    }
}
