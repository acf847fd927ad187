//! The platform profiles that a scenario may name: those of the program, and the files of the folder.

use crate::folder::Folder;
use plimsoll_scenario::profile::Profile;
use plimsoll_scenario::profiles;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Those of the program do not change while it runs.
static EMBEDDED: LazyLock<Vec<ProfileChoice>> = LazyLock::new(|| {
    profiles().into_iter().map(|profile| ProfileChoice::of(profile.name.clone(), profile)).collect()
});

/// A profile in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileChoice {
    /// What a scenario writes: a name, or the path of a file.
    pub value: String,
    /// One line.
    pub title: String,
    /// What the reader must know, in paragraphs.
    pub description: String,
    /// What it offers, by name.
    pub qualities: BTreeMap<String, String>,
}

impl ProfileChoice {
    /// A profile that a scenario names by that.
    pub fn of(value: String, profile: Profile) -> ProfileChoice {
        let Profile { title, description, qualities, .. } = profile;
        ProfileChoice { value, title, description, qualities }
    }
}

/// All profiles that can be chosen.
pub struct ProfileChoices {
    /// Those of the program.
    pub embedded: &'static [ProfileChoice],
    /// Those of the folder.
    pub own: Vec<ProfileChoice>,
}

impl ProfileChoices {
    /// Those of a page with that folder.
    pub fn of(folder: &Folder) -> ProfileChoices {
        let own = folder
            .profiles()
            .into_iter()
            .map(|(name, profile)| ProfileChoice::of(format!("./{name}"), profile));
        ProfileChoices { embedded: &EMBEDDED, own: own.collect() }
    }

    /// That which a scenario names by a text.
    pub fn named(&self, value: &str) -> Option<&ProfileChoice> {
        let is_it = |choice: &&ProfileChoice| {
            choice.value == value || choice.value.strip_prefix("./").is_some_and(|file| file == value)
        };
        self.embedded.iter().chain(&self.own).find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_by_what_a_scenario_writes() {
        let place = tempfile::tempdir().unwrap();
        let profile = "name: own\ntitle: Mine\ncomponents: []\n";
        std::fs::write(place.path().join("own.yaml"), profile).unwrap();
        std::fs::write(place.path().join("scenario.yaml"), "name: a\nplatform: own\n").unwrap();
        let choices = ProfileChoices::of(&Folder::open(place.path()).unwrap());
        assert!(choices.embedded.len() > 20);
        assert_eq!(choices.named("mosquitto").unwrap().value, "mosquitto");
        for written in ["./own.yaml", "own.yaml"] {
            assert_eq!(choices.named(written).unwrap().title, "Mine", "{written}");
        }
        assert!(choices.named("own").is_none() && choices.named("scenario.yaml").is_none());
    }
}
