//! The examples, which are templates of scenarios.

use crate::folder::about;

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// An example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example {
    /// Its name.
    pub name: &'static str,
    /// The scenario.
    pub text: &'static str,
}

impl Example {
    /// What it says of itself.
    pub fn about(&self) -> String {
        about(self.text)
    }
}

/// All of them, by name.
pub fn examples() -> impl Iterator<Item = Example> {
    EMBEDDED.iter().map(|&(name, text)| Example { name, text })
}

/// That of a name.
pub fn example(name: &str) -> Option<Example> {
    examples().find(|example| example.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::{Environment, SourceFile, matrix};

    /// A template must be right where nothing stands beside it.
    #[test]
    fn every_example_is_one_whole_text_and_says_what_it_is_about() {
        assert!(examples().count() > 30, "{}", examples().count());
        assert!(example("quickstart").is_some() && example("day").is_none() && example("../x").is_none());
        for example in examples() {
            let nothing = |_: &str| Err("there is nothing beside it".to_owned());
            let environment = Environment { profile: &nothing, variable: &|_| Some("x".into()) };
            let source = SourceFile { name: example.name.into(), text: example.text.into() };
            let read = matrix(&source, false, &[], &environment);
            assert!(read.is_ok(), "{}: {}", example.name, read.err().unwrap());
            assert!(example.about().len() > 10, "{}: {:?}", example.name, example.about());
        }
    }
}
