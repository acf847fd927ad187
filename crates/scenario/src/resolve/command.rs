//! What brings the platform up and takes it down where no profile does, commands of the user's or an engine, and the address that
//! is assumed until it has.

use crate::address::{SCHEMES, Scheme, Wire};
use crate::check::near_miss;
use crate::config::{AttachedPlatform, Compose, Manifests, PlatformCommand, With};
use crate::context::Context;
use crate::plan::{CommandPlan, Endpoint, Protocol};
use crate::profile::Profile;
use plimsoll_model::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The host of the address that is assumed. Of all hosts, this one forbids the least.
const ASSUMED_HOST: &str = "localhost";

/// What brings a platform up that no profile starts.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    Command(&'a PlatformCommand),
    Compose(&'a Compose),
    Manifests(&'a Manifests),
}

impl<'a> Way<'a> {
    /// Those that the scenario names.
    fn all(attached: &'a AttachedPlatform) -> Vec<Way<'a>> {
        let command = attached.command.as_deref().map(Way::Command);
        let compose = attached.compose.as_deref().map(Way::Compose);
        let manifests = attached.manifests.as_deref().map(Way::Manifests);
        [command, compose, manifests].into_iter().flatten().collect()
    }

    /// Its key below `platform`.
    fn name(self) -> &'static str {
        match self {
            Way::Command(_) => "command",
            Way::Compose(_) => "compose",
            Way::Manifests(_) => "manifests",
        }
    }

    /// Its key.
    pub(super) fn key(self) -> String {
        format!("platform.{}", self.name())
    }

    fn scheme(self) -> Option<&'a str> {
        let scheme = match self {
            Way::Command(command) => &command.scheme,
            Way::Compose(compose) => &compose.scheme,
            Way::Manifests(manifests) => &manifests.scheme,
        };
        scheme.as_deref()
    }

    /// What follows the port in the address, where that is known before.
    fn path(self) -> Option<&'a str> {
        match self {
            Way::Command(_) => None,
            Way::Compose(compose) => compose.path.as_deref(),
            Way::Manifests(manifests) => manifests.path.as_deref(),
        }
    }

    /// How long it may take until the platform is up, and until it is down.
    fn within(self) -> [Nanos; 2] {
        match self {
            Way::Command(command) => [command.within.0, command.down_within.0],
            Way::Compose(compose) => [compose.within.0, compose.down_within.0],
            Way::Manifests(manifests) => [manifests.within.0, manifests.down_within.0],
        }
    }
}

/// What brings a platform up, where that is not another one: a population may have an address of its own.
pub(super) fn of(attached: &AttachedPlatform) -> Option<Way<'_>> {
    Way::all(attached).first().copied().filter(|_| attached.address.is_none())
}

/// Where the platform is that is brought up: at the address that was printed, before that at one of the same scheme.
pub(super) fn address(
    attached: &AttachedPlatform,
    profile: &Profile,
    spoken: Protocol,
    context: &mut Context<'_>,
) -> Option<Endpoint> {
    let way = of(attached).filter(|_| !starts(profile))?;
    let scheme = scheme(way, spoken, context);
    let Some(brought_up) = context.brought_up else {
        let path = if scheme.wire.websocket { "/" } else { "" };
        return Some(Endpoint {
            protocol: scheme.protocol,
            wire: scheme.wire,
            host: ASSUMED_HOST.to_owned(),
            port: scheme.port,
            path: way.path().unwrap_or(path).to_owned(),
        });
    };
    let printed = &brought_up.address;
    if (printed.protocol, printed.wire) != (scheme.protocol, scheme.wire) {
        let (own, expected) = (printed.scheme(), scheme.name);
        let key = way.key();
        context.error_with_help(
            &key,
            format!("`up` printed an address that begins with `{own}://`, not with `{expected}://`"),
            format!("write `scheme: {own}` below `{key}`"),
        );
    }
    Some(printed.clone())
}

/// What the address begins with, as the scenario says; else what devices speak, in clear.
fn scheme(way: Way<'_>, spoken: Protocol, context: &mut Context<'_>) -> &'static Scheme {
    let websocket = spoken == Protocol::WebSocket;
    let default = Scheme::of(spoken, Wire { tls: false, websocket });
    let Some(name) = way.scheme() else { return default };
    let known = SCHEMES.iter().find(|scheme| scheme.name == name);
    known.unwrap_or_else(|| {
        let help = near_miss(name, SCHEMES.iter().map(|scheme| scheme.name));
        context.error_with_help(
            &format!("{}.scheme", way.key()),
            format!("no address begins with `{name}://`"),
            help,
        );
        default
    })
}

/// Resolves what brings the platform up, at an address that is known or assumed. `variables` are those of the profile and of the
/// scenario.
pub(super) fn resolve(
    attached: &AttachedPlatform,
    profile: &Profile,
    variables: &BTreeMap<String, String>,
    address: Option<&Endpoint>,
    context: &mut Context<'_>,
) -> Option<CommandPlan> {
    let all = Way::all(attached);
    if let [first, other, ..] = all.as_slice() {
        let (first, other) = (first.name(), other.name());
        context.error_with_help(
            &format!("platform.{other}"),
            format!("both `{first}` and `{other}` bring the platform up"),
            "remove one of them",
        );
    }
    if let (Some(way), true, true) = (all.first(), attached.address.is_some(), context.part.is_none()) {
        let (key, name) = (way.key(), way.name());
        context.error_with_help(
            "platform.address",
            format!("`{key}` brings the platform up, and its address is known after that"),
            format!("remove the `address`, or the `{name}`"),
        );
    }
    let way = of(attached)?;
    let key = way.key();
    if starts(profile) {
        let name = way.name();
        context.error_with_help(
            &key,
            format!("the profile `{}` starts its own platform and takes no `{name}`", attached.profile),
            "leave it out, or use a profile that starts nothing, such as `existing`",
        );
        return None;
    }
    let [within, down_within] = way.within();
    for (name, within) in [("within", within), ("down_within", down_within)] {
        if within == Nanos::ZERO {
            context.error(&format!("{key}.{name}"), "no command ends within zero time");
        }
    }
    let (engine, [up, down]) = match way {
        Way::Command(command) => (None, commands(command, attached, variables, context)),
        Way::Compose(compose) => {
            let plan = super::engine::compose(compose, address, context);
            (Some(plan), super::engine::compose_in_words(compose))
        }
        Way::Manifests(manifests) => {
            let plan = super::engine::manifests(manifests, address, context);
            (Some(plan), super::engine::manifests_in_words(manifests))
        }
    };
    let folder = context.root.span.file().and_then(|file| Path::new(file).parent());
    let folder = folder.map(Path::to_owned).unwrap_or_default();
    Some(CommandPlan { up, down, engine, within, down_within, folder })
}

/// The words of the user's commands, filled in.
fn commands(
    command: &PlatformCommand,
    attached: &AttachedPlatform,
    variables: &BTreeMap<String, String>,
    context: &mut Context<'_>,
) -> [Vec<String>; 2] {
    let mut filled = |key: &str, words: &[String]| {
        let path = format!("platform.command.{key}");
        if words.first().is_none_or(|program| program.trim().is_empty()) {
            context.error_with_help(
                &path,
                "a command is a program and its arguments",
                "write them as a list, such as `[./up.sh, \"3\"]`",
            );
        }
        for (place, word) in words.iter().enumerate() {
            check_word(word, &format!("{path}.{place}"), (attached, variables), context);
        }
        words.iter().map(|word| fill(word, variables)).collect::<Vec<String>>()
    };
    [filled("up", &command.up), filled("down", &command.down)]
}

/// The names of the variables that the commands are filled with: a scenario may set them, whatever its profile knows.
pub(super) fn variables(attached: &AttachedPlatform) -> BTreeSet<&str> {
    // Populations with an address of their own inherit the variables, too.
    let command = attached.command.as_deref().into_iter();
    let words = command.flat_map(|command| command.up.iter().chain(&command.down));
    words.flat_map(|word| names(word)).collect()
}

/// Reports what a word may not hold.
fn check_word(
    word: &str,
    path: &str,
    (attached, variables): (&AttachedPlatform, &BTreeMap<String, String>),
    context: &mut Context<'_>,
) {
    if word.contains('\0') {
        context.error(path, "no word of a command holds a null character");
    }
    for name in names(word) {
        match attached.with.get(name) {
            Some(With::Environment(from)) => context.error_with_help(
                path,
                format!("`{{{name}}}` is a secret, and everybody on this host sees the words of a command"),
                format!("let the script read `${}`: it has the same environment", from.env),
            ),
            Some(With::Text(_)) => {}
            None if variables.contains_key(name) => {}
            None => context.error_with_help(
                path,
                format!("there is no variable `{name}`"),
                format!("write `with: {{ {name}: \"3\" }}` below `platform`"),
            ),
        }
    }
}

/// The variables of a text: each a small letter, then small letters, digits and `_`, in braces.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).filter(is_name)
}

/// A text with its variables filled in; other braces stay as they are, and so do those of a value.
fn fill(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let known = after.split_once('}').and_then(|(name, behind)| Some((variables.get(name)?, behind)));
        let Some((value, behind)) = known else {
            filled.push('{');
            rest = after;
            continue;
        };
        filled.push_str(value);
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

/// Whether a profile starts a platform itself.
fn starts(profile: &Profile) -> bool {
    !profile.components.is_empty() || profile.simulated.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_filled_once_and_other_braces_stay() {
        let variables =
            BTreeMap::from([("a".to_owned(), "{b}".to_owned()), ("b".to_owned(), "2".to_owned())]);
        for (text, filled) in [
            ("{a}-{b}", "{b}-2"),
            ("x{b}{b}y", "x22y"),
            ("{{b}}", "{2}"),
            ("{c} {} { {b", "{c} {} { {b"),
            ("{{.Names}} {\"b\":1}", "{{.Names}} {\"b\":1}"),
        ] {
            assert_eq!(fill(text, &variables), filled);
        }
        assert_eq!(names("{a}{b_2} {{c}} {D} {1} {} {d e} {f").collect::<Vec<_>>(), ["a", "b_2", "c"]);
    }
}
