//! The environment of a component. What else stands in ours, such as passwords, is nobody's business.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Variables that every component is given as we have them, where its profile or its user has no other value.
const GIVEN: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// What a component has: what every one is given, and what its profile says, with a value or passed on from ours.
pub fn of(written: &BTreeMap<String, Option<String>>) -> Vec<(OsString, OsString)> {
    let given = GIVEN.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let said = written.iter().filter_map(|(name, value)| {
        let value = value.as_ref().map(OsString::from).or_else(|| std::env::var_os(name))?;
        Some((OsString::from(name), value))
    });
    given.chain(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_has_what_its_profile_says_and_four_variables_beside_it() {
        let written = BTreeMap::from([
            ("MODE".to_owned(), Some("fast".to_owned())),
            // Cargo gives it to every test.
            ("CARGO_MANIFEST_DIR".to_owned(), None),
            ("PLIMSOLL_NOWHERE_SET".to_owned(), None),
        ]);
        let all = of(&written);
        let names: Vec<&str> = all.iter().filter_map(|(name, _)| name.to_str()).collect();
        assert!(names.contains(&"PATH") && names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
        assert!(all.contains(&("MODE".into(), "fast".into())), "{all:?}");
        assert!(names.iter().all(|name| GIVEN.contains(name) || written.contains_key(*name)), "{names:?}");
        assert!(!names.contains(&"PLIMSOLL_NOWHERE_SET"), "{names:?}");
    }
}
