//! The form in which a scenario is set: a field for each setting of its JSON Schema, the basic ones first. What is set in a field changes
//! that key of the text and nothing else; what is written in the text is shown in the fields. Without a script, a button does that.

use crate::answer::{self, Answer, HTML};
use crate::checking::text_of;
use crate::editor::{self, Draft};
use crate::error_page;
use crate::fields::Fields;
use crate::profile_choices::{ProfileChoice, ProfileChoices};
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_report::plain;
use plimsoll_scenario::fields::{Field, FormItem, Group, Input, fields};
use plimsoll_scenario::{ScenarioText, Setting};
use std::sync::Arc;

/// The settings that are shown first, in this order. The platform is one where it is a name alone.
const BASIC: [&str; 11] = [
    "name",
    "description",
    "platform",
    "platform.profile",
    "population.devices",
    "population.subscribers",
    "message.size",
    "load.levels",
    "load.hold",
    "objectives.publish_p99",
    "objectives.delivered",
];
/// What the names of fields begin with, where a form sends all of them.
const SETS: &str = "set.";
/// Most settings that are changed at once.
const MOST_CHANGES: usize = 100;
/// What is shown of a scenario that cannot be read.
const UNREADABLE: &str = "The fields come back when the text can be read.";
const TEXT: &str = "text/plain; charset=utf-8";

/// Answers with the fields of a text, as a part of a page.
pub async fn answer(site: &Arc<Site>, text: &[u8]) -> Answer {
    let text = match text_of(text) {
        Ok(text) => text,
        Err(why) => return refused(why),
    };
    let own = Arc::clone(site);
    match site.permits.work(move || shown(&text, &ProfileChoices::of(&own.folder))).await {
        Ok(shown) => answer::text(HTML, plain::page(shown.into_string())),
        Err(_) => not_made(),
    }
}

/// Answers with a text in which one setting was changed, or with what is wrong.
pub async fn set(site: &Arc<Site>, asked: &Fields) -> Answer {
    let (text, key, value) =
        (asked.get("text").to_owned(), asked.get("key").to_owned(), asked.get("value").to_owned());
    if let Err(why) = text_of(text.as_bytes()) {
        return refused(why);
    }
    match site.permits.work(move || changed(&text, &[(key.as_str(), value.as_str())])).await {
        Ok(Ok(text)) => answer::text(TEXT, text),
        Ok(Err(wrong)) => {
            let mut answer = answer::text(TEXT, plain::page(wrong));
            *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
            answer
        }
        Err(_) => not_made(),
    }
}

/// Answers with the editor, in whose text all fields were set that say something else than the text.
pub async fn fill(site: &Arc<Site>, role: Role, asked: &Fields) -> Answer {
    let text = asked.get("text").replace("\r\n", "\n");
    if let Err(why) = text_of(text.as_bytes()) {
        return refused(why);
    }
    let set: Vec<(String, String)> = asked
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(SETS)?.to_owned(), value.to_owned())))
        .collect();
    let (name, before) = (asked.get("name").to_owned(), Some(asked.get("before").to_owned()));
    let before = before.filter(|before| !before.is_empty());
    let changed = site.permits.work(move || {
        let set: Vec<(&str, &str)> = set.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let changed = changed(&text, &set);
        (changed, text)
    });
    let (text, problem) = match changed.await {
        Ok((Ok(changed), _)) => (changed, None),
        Ok((Err(wrong), text)) => (text, Some(format!("Not set: {wrong}."))),
        Err(_) => return not_made(),
    };
    let status = if problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    editor::shown(site, role, status, Draft { name, text, before, problem }).await
}

fn not_made() -> Answer {
    error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The fields were not read.", "Try again.")
}

fn refused((status, what): (StatusCode, &'static str)) -> Answer {
    error_page::of(status, what, "Change it, and try again.")
}

/// The text with other values of some fields, or what is wrong. A field that says what the text says changes nothing.
fn changed(text: &str, set: &[(&str, &str)]) -> Result<String, String> {
    let mut text =
        ScenarioText::read(text).map_err(|_| "the text cannot be read: correct it first".to_owned())?;
    let form = fields(&text);
    let mut changes = 0;
    for (key, typed) in set {
        let Some(field) = form.iter().find_map(|item| item.field(key)) else {
            return Err(format!("the form has no field `{key}`"));
        };
        let typed = typed.replace("\r\n", "\n");
        let written = text.setting(key);
        let is_said = match &written {
            Some(setting) => setting.value.trim() == typed.trim() || !setting.is_in_line,
            None => typed.trim().is_empty(),
        };
        if is_said {
            continue;
        }
        changes += 1;
        if changes > MOST_CHANGES {
            return Err(format!(
                "at most {MOST_CHANGES} settings are changed at once: write them in the text"
            ));
        }
        let meant = field.meant(&typed);
        let new = text.with(key, meant).map_err(|error| error.to_string())?;
        text = ScenarioText::read(&new).map_err(|_| format!("`{key}` cannot be set to that"))?;
    }
    Ok(text.text().to_owned())
}

/// The fields of a text.
pub fn shown(text: &str, profiles: &ProfileChoices) -> Markup {
    let Ok(text) = ScenarioText::read(text) else {
        return html! { p.note { (UNREADABLE) } };
    };
    let mut items = fields(&text);
    let basic: Vec<FormItem> = BASIC.iter().filter_map(|path| take(&mut items, path)).collect();
    let (general, sections): (Vec<FormItem>, Vec<FormItem>) =
        items.into_iter().partition(|item| matches!(item, FormItem::Field(_)));
    let form = Form { text: &text, profiles };
    html! {
        div.basic { @for item in &basic { (form.basic(item)) } }
        @for item in &sections { (form.item(item)) }
        (form.folded("general", "Of the whole scenario.", &general))
    }
}

/// Takes an item out of a form.
fn take(items: &mut Vec<FormItem>, path: &str) -> Option<FormItem> {
    let is_it =
        |item: &FormItem| item.path() == path && (path != "platform" || matches!(item, FormItem::Field(_)));
    if let Some(at) = items.iter().position(is_it) {
        return Some(items.remove(at));
    }
    items.iter_mut().find_map(|item| match item {
        FormItem::Group(group) => take(&mut group.items, path),
        FormItem::Field(_) => None,
    })
}

/// What fields are made from.
struct Form<'a> {
    text: &'a ScenarioText,
    profiles: &'a ProfileChoices,
}

impl Form<'_> {
    /// An item that is shown at once.
    fn basic(&self, item: &FormItem) -> Markup {
        match item {
            FormItem::Field(field) => self.field(field),
            FormItem::Group(Group { path, items, .. }) => html! {
                fieldset { legend { (path) } @for item in items { (self.item(item)) } }
            },
        }
    }

    fn item(&self, item: &FormItem) -> Markup {
        match item {
            FormItem::Field(field) => self.field(field),
            FormItem::Group(Group { path, description, items }) => self.folded(path, description, items),
        }
    }

    /// A group that is folded, with the number of its settings that are written.
    fn folded(&self, path: &str, description: &str, items: &[FormItem]) -> Markup {
        let set = self.written(items);
        html! {
            @if !items.is_empty() {
                details data-section=(path) {
                    summary { strong { (path) } " " @if set > 0 { span.chip { (set) " set" } } " " span.note { (description) } }
                    @for item in items { (self.item(item)) }
                }
            }
        }
    }

    /// How many settings of these are written.
    fn written(&self, items: &[FormItem]) -> usize {
        let of_one = |item: &FormItem| match item {
            FormItem::Field(field) => usize::from(self.text.setting(&field.path).is_some()),
            FormItem::Group(group) => self.written(&group.items),
        };
        items.iter().map(of_one).sum()
    }

    fn field(&self, field: &Field) -> Markup {
        let Field { path, description, default, input, .. } = field;
        let setting = self.text.setting(path);
        let hint = format!("hint-{path}");
        let default_is_said = description.contains("efault");
        html! {
            div.field {
                label for={ "field-" (path) } { (path) }
                @match &setting {
                    Some(setting) if !setting.is_in_line => {
                        input id={ "field-" (path) } value=(setting.value) readonly aria-describedby=(hint);
                    }
                    _ => { (self.control(field, setting.as_ref(), &hint)) }
                }
                p.hint id=(hint) {
                    (description)
                    @if let Input::Text { how: Some(how), .. } = input { " It is " (how) "." }
                    @if let Input::Number { least, most, .. } = input { (bounds(least.as_deref(), most.as_deref())) }
                    @if *input == Input::Yaml { " Written as YAML in one line." }
                    @if let Some(default) = default.as_ref().filter(|_| !default_is_said) { " Default: " (default) "." }
                    @if setting.as_ref().is_some_and(|setting| !setting.is_in_line) { " It has several lines: change it in the text." }
                }
                @if *input == Input::Profile { (self.profile(setting.as_ref())) }
            }
        }
    }

    fn control(&self, field: &Field, setting: Option<&Setting>, hint: &str) -> Markup {
        let Field { path, default, input, .. } = field;
        let (id, name) = (format!("field-{path}"), format!("{SETS}{path}"));
        let value = setting.map(|setting| setting.value.as_str());
        let shown = value.unwrap_or_default();
        let number = value.is_none_or(|value| value.parse::<f64>().is_ok());
        html! {
            @match input {
                Input::Profile => {
                    select id=(id) name=(name) data-key=(path) data-renew aria-describedby=(hint) {
                        (self.profiles(shown))
                    }
                }
                Input::Choice(words) => {
                    select id=(id) name=(name) data-key=(path) aria-describedby=(hint) {
                        option value="" selected[value.is_none()] {
                            @match default { Some(default) => { "default: " (default) } None => { "not set" } }
                        }
                        @for word in words { option value=(word) selected[value == Some(word.as_str())] { (word) } }
                        @if let Some(other) = value.filter(|value| !words.iter().any(|word| word == value)) {
                            option value=(other) selected { (other) }
                        }
                    }
                }
                Input::Number { is_whole, least, most } if number => {
                    input id=(id) name=(name) data-key=(path) type="number" value=(shown) min=[least.as_ref()] max=[most.as_ref()]
                        step=(if *is_whole { "1" } else { "any" }) placeholder=[default.as_ref()] aria-describedby=(hint);
                }
                Input::Text { pattern, longest, .. } => {
                    input id=(id) name=(name) data-key=(path) value=(shown) pattern=[pattern.as_ref()] maxlength=[longest.as_ref()]
                        placeholder=[default.as_ref()] spellcheck="false" autocomplete="off" aria-describedby=(hint);
                }
                Input::Number { .. } | Input::Yaml => {
                    input id=(id) name=(name) data-key=(path) value=(shown) spellcheck="false" autocomplete="off" aria-describedby=(hint);
                }
            }
        }
    }

    fn profiles(&self, written: &str) -> Markup {
        let chosen = self.profiles.named(written);
        let option = |choice: &ProfileChoice| {
            let is_chosen = chosen.is_some_and(|chosen| chosen.value == choice.value);
            // A file keeps the path under which it is written.
            let value = if is_chosen { written } else { choice.value.as_str() };
            html! { option value=(value) selected[is_chosen] { (choice.value) " \u{2013} " (choice.title) } }
        };
        html! {
            @if chosen.is_none() { option value=(written) selected { (written) } }
            @if !self.profiles.own.is_empty() {
                optgroup label="Files of the folder" { @for choice in &self.profiles.own { (option(choice)) } }
            }
            optgroup label="Profiles of Plimsoll" { @for choice in self.profiles.embedded { (option(choice)) } }
        }
    }

    /// What the chosen platform is.
    fn profile(&self, setting: Option<&Setting>) -> Markup {
        let chosen = setting.and_then(|setting| self.profiles.named(&setting.value));
        html! {
            @if let Some(choice) = chosen {
                details.platform data-section="profile" {
                    summary { "About " (choice.value) ": " (choice.title) }
                    @for paragraph in choice.description.split("\n\n") { p { (paragraph) } }
                    @if !choice.qualities.is_empty() {
                        dl.choices { @for (name, value) in &choice.qualities { div { dt { (name) } dd { (value) } } } }
                    }
                }
            }
        }
    }
}

fn bounds(least: Option<&str>, most: Option<&str>) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!(" From {least} to {most}."),
        (Some(least), None) => format!(" At least {least}."),
        (None, Some(most)) => format!(" At most {most}."),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    const SCENARIO: &str = "# Mine.\nname: mine\nplatform: embedded # here\npopulation: { devices: 10 }\nload: { levels: [100], hold: 10s }\n";

    fn shown_of(text: &str) -> String {
        let place = tempfile::tempdir().unwrap();
        shown(text, &ProfileChoices::of(&Folder::open(place.path()).unwrap())).into_string()
    }

    #[test]
    fn basic_settings_come_first_and_others_are_folded() {
        let shown = shown_of(SCENARIO);
        let first = shown.find("<details data-section=").unwrap();
        for key in BASIC.iter().filter(|key| **key != "platform.profile") {
            let field = format!("name=\"{SETS}{key}\"");
            assert_eq!(shown.matches(&field).count(), 1, "{key}");
            assert!(shown.find(&field).is_some_and(|at| at < first), "{key}");
        }
        assert!(
            shown.contains("name=\"set.mqtt.qos\"") && shown.contains("data-section=\"mqtt\""),
            "{shown}"
        );
        assert!(!shown.contains("<details open"), "{shown}");
    }

    #[test]
    fn a_field_has_its_value_bounds_and_description() {
        let shown = shown_of(SCENARIO);
        for part in [
            "value=\"10\" min=\"1\" max=\"268435455\"",
            "From 1 to 268435455.",
            "Simulated publishers.",
            "<option value=\"embedded\" selected>",
            "About embedded:",
            "written like `250ms`",
            "<option value=\"\" selected>default: 1</option>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let own = shown_of(&SCENARIO.replace("embedded", "\"<b>\""));
        assert!(own.contains("<option value=\"&lt;b&gt;\" selected>") && !own.contains("<b>"), "{own}");
        let attached = shown_of(&SCENARIO.replace("embedded", "{ profile: existing }"));
        assert!(
            attached.contains("name=\"set.platform.profile\"") && !attached.contains("name=\"set.platform\"")
        );
        let lines = shown_of(
            &SCENARIO.replace("load: { levels: [100], hold: 10s }", "load:\n  levels:\n    - 1\n  hold: 1s"),
        );
        assert!(
            lines.contains("value=\"[1]\" readonly") && lines.contains("It has several lines"),
            "{lines}"
        );
        assert!(shown_of("a: [").contains(UNREADABLE));
    }

    #[test]
    fn a_field_changes_its_key_and_says_what_is_wrong() {
        let set = |set: &[(&str, &str)]| changed(SCENARIO, set);
        assert_eq!(set(&[("population.devices", "20")]).unwrap(), SCENARIO.replace("10 }", "20 }"));
        assert_eq!(set(&[("platform", "mosquitto")]).unwrap(), SCENARIO.replace("embedded", "mosquitto"));
        assert_eq!(set(&[("name", "mine"), ("mqtt.qos", ""), ("load.levels", "[100]")]).unwrap(), SCENARIO);
        assert_eq!(set(&[("mqtt.qos", "2")]).unwrap(), format!("{SCENARIO}mqtt:\n  qos: 2\n"));
        assert_eq!(set(&[("description", "a: b")]).unwrap(), format!("{SCENARIO}description: \"a: b\"\n"));
        assert_eq!(set(&[("load.hold", "")]).unwrap(), SCENARIO.replace(", hold: 10s", ""));
        assert!(set(&[("load.levels", "[1")]).unwrap_err().contains("no value in one line"));
        assert!(set(&[("x.y", "1")]).unwrap_err().contains("no field `x.y`"));
        assert!(changed("a: [", &[("name", "b")]).unwrap_err().contains("cannot be read"));
    }
}
