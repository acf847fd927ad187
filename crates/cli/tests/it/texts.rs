//! What people read is plain: short sentences, usual words, lines that fit. README, CONTRIBUTING, every page of docs and every
//! `--help` are checked, and the words of schemas, examples and profiles.

use regex_lite::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Most words of a sentence.
const MOST_WORDS: usize = 25;
/// Longest line of Markdown, in columns. A row of a table cannot be broken, nor can a link.
const WIDEST: usize = 120;
/// Words over which readers stumbled; CONTRIBUTING says what to write instead.
static BANNED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        "(?i)\\b(bears?|bore|borne|tells?|told|telling|befalls?|befell|befallen|dear|dearer|dearest|whoever|likewise|\
         anew)\\b",
    )
});
static ITEM: LazyLock<Regex> = LazyLock::new(|| regex(r"^([-*]|[0-9]+\.) "));
static CODE: LazyLock<Regex> = LazyLock::new(|| regex("`[^`]*`"));
static LINK: LazyLock<Regex> = LazyLock::new(|| regex(r"!?\[([^\]]*)\]\([^)]*\)"));
static END_OF_SENTENCE: LazyLock<Regex> = LazyLock::new(|| regex(r#"[.!?]["')]?\s+"#));

fn regex(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages, by their paths from the root.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from("README.md"), PathBuf::from("CONTRIBUTING.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// A stretch of prose: where it begins, and its text without marks.
struct Prose {
    line: usize,
    text: String,
}

/// The prose of a page: paragraphs, items of lists, headings and cells of tables; no code.
fn prose(markdown: &str) -> Vec<Prose> {
    let mut found: Vec<Prose> = Vec::new();
    let (mut fenced, mut open, mut blank) = (false, false, true);
    for (number, line) in (1..).zip(markdown.lines()) {
        let text = line.trim();
        if text.starts_with("```") {
            (fenced, open) = (!fenced, false);
            continue;
        }
        let is_code = fenced || (line.starts_with("    ") && (blank || !open));
        if text.is_empty() || is_code {
            open = false;
            blank = text.is_empty();
            continue;
        }
        blank = false;
        if let Some(row) = text.strip_prefix('|') {
            let cells = row.trim_end_matches('|').replace("\\|", " ");
            // A cell lists; what its semicolons part are items.
            let items = cells.split(['|', ';']);
            found.extend(items.map(|item| Prose { line: number, text: item.trim().to_owned() }));
            open = false;
            continue;
        }
        let begins = !open || text.starts_with('#') || ITEM.is_match(text);
        let own = ITEM.replace(text.trim_start_matches('#').trim_start(), "").into_owned();
        match found.last_mut().filter(|_| !begins) {
            Some(last) => last.text += &format!(" {own}"),
            None => found.push(Prose { line: number, text: own }),
        }
        open = !text.starts_with('#');
    }
    for one in &mut found {
        let without_code = CODE.replace_all(&one.text, "`").into_owned();
        let without_links = LINK.replace_all(&without_code, "$1").into_owned();
        one.text = without_links.replace("**", "");
    }
    found
}

/// The sentences of a text.
fn sentences(text: &str) -> Vec<String> {
    let mut rest = text;
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(place) = END_OF_SENTENCE.find_at(rest, from) {
        // "e.g. this" and "v. 3" go on.
        let goes_on = rest[place.end()..].starts_with(char::is_lowercase);
        if goes_on {
            from = place.end();
            continue;
        }
        found.push(rest[..place.end()].trim().to_owned());
        rest = &rest[place.end()..];
        from = 0;
    }
    found.push(rest.trim().to_owned());
    found
}

fn words(sentence: &str) -> usize {
    sentence
        .split_whitespace()
        .filter(|word| word.contains(|c: char| c.is_alphanumeric() || c == '`'))
        .count()
}

/// What is wrong with a stretch of prose.
fn faults(place: &str, text: &str) -> Vec<String> {
    let mut found: Vec<String> = BANNED
        .find_iter(text)
        .map(|word| format!("{place}: the word `{}`: {text:.60}", word.as_str()))
        .collect();
    for sentence in sentences(text) {
        let count = words(&sentence);
        if count > MOST_WORDS {
            let begin: String = sentence.chars().take(60).collect();
            found.push(format!("{place}: a sentence of {count} words: {begin} ..."));
        }
    }
    found
}

#[test]
fn pages_are_plain() {
    let mut found = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for Prose { line, text } in prose(&text) {
            found.extend(faults(&format!("{}:{line}", page.display()), &text));
        }
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

/// Editors show the descriptions of schemas, and readers copy examples and profiles.
#[test]
fn schemas_examples_and_profiles_use_usual_words() {
    let mut found = Vec::new();
    let mut read = 0;
    for folder in ["docs/schema", "examples", "platforms", "platforms/balancers"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let is_prose = |line: &str| line.contains("\"description\": ") || line.contains("# ");
            for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| is_prose(line)) {
                read += 1;
                let words = BANNED.find_iter(line).map(|word| word.as_str());
                found.extend(words.map(|word| format!("{}:{number}: the word `{word}`", path.display())));
            }
        }
    }
    assert!(read > 1000, "{read} lines are not all of them");
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

#[test]
fn lines_of_pages_fit() {
    let link = Regex::new(r"^\s*- \[[^\]]*\]\([^)]*\)$").unwrap();
    let mut found = Vec::new();
    for page in pages().into_iter().chain([PathBuf::from("CHANGELOG.md")]) {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            let breaks = line.trim_start().contains(' ') && !line.trim_start().starts_with('|');
            let breaks = breaks && !link.is_match(line);
            if breaks && line.chars().count() > WIDEST {
                found.push(format!("{}:{number}: {} columns", page.display(), line.chars().count()));
            }
        }
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

/// Each link to a file of the repository leads to one, and to a heading that is there.
#[test]
fn links_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut found = Vec::new();
    for page in pages().into_iter().chain([PathBuf::from("CHANGELOG.md")]) {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        let folder = page.parent().unwrap_or(Path::new("")).to_owned();
        for target in link.captures_iter(&text).map(|found| found[1].to_owned()) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) =
                target.split_once('#').map_or((target.as_str(), None), |(p, a)| (p, Some(a)));
            let path = if path.is_empty() { page.clone() } else { folder.join(path) };
            let whole = root().join(&path);
            if !whole.exists() {
                found.push(format!("{}: no file {target}", page.display()));
                continue;
            }
            let Some(anchor) = anchor else { continue };
            let headings: BTreeSet<String> = fs::read_to_string(&whole)
                .unwrap_or_default()
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| slug(line.trim_start_matches('#').trim()))
                .collect();
            if !headings.contains(anchor) {
                found.push(format!("{}: no heading {target}", page.display()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A heading as the anchor that Markdown renderers give it.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).arg("--help").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The names of commands below a help text's heading `Commands:`, and of those under other headings of commands.
fn commands(help: &str) -> Vec<String> {
    let entry = Regex::new(r"^  ([a-z][a-z-]+)(  |$)").unwrap();
    let listed = help.lines().skip_while(|line| !line.ends_with("ommands:"));
    let listed = listed.take_while(|line| !line.starts_with("Options:"));
    listed
        .filter_map(|line| Some(entry.captures(line)?[1].to_owned()))
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn help_is_plain_and_has_an_example() {
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let below = commands(&help(&words));
        open.extend(below.iter().map(|name| command.iter().chain([name]).cloned().collect()));
        if below.is_empty() {
            all.push(command);
        }
    }
    assert!(all.len() > 15, "{all:?}");
    // An option's text ends where the next option begins.
    let entry = Regex::new(r"\n\s*(?:-\w, )?--?[\w<\[-][^\n]*\n|\n\n|\n\s+- ").unwrap();
    let mut found = Vec::new();
    for command in all {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        let text = help(&arguments);
        let place = format!("plimsoll {} --help", command.join(" "));
        if !text.contains("Example") {
            found.push(format!("{place}: no example"));
        }
        for line in text.lines().filter(|line| line.chars().count() > 80) {
            found.push(format!("{place}: a line of {} columns: {line}", line.chars().count()));
        }
        for part in entry.split(&text).filter(|part| !part.contains("plimsoll ")) {
            let joined = part.split_whitespace().collect::<Vec<_>>().join(" ");
            found.extend(faults(&place, &joined));
        }
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

/// The texts in a file of source, without what is filled in; its tests and comments are left out.
fn literals(source: &str) -> Vec<String> {
    let literal = Regex::new(r#""((?:[^"\\]|\\(?s:.))*)""#).unwrap();
    let filled_in = Regex::new(r"\{[^{}]*\}|`[^`]*`").unwrap();
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    // A quotation mark as a character begins no text.
    let code = lines.collect::<Vec<_>>().join("\n").replace("'\"'", "' '");
    let texts = literal.captures_iter(&code).map(|found| found[1].to_owned());
    texts.map(|text| filled_in.replace_all(&text, "`").into_owned()).collect()
}

/// What the program writes of causes, faults and advice has none of the words over which readers stumble.
#[test]
fn messages_of_the_program_are_plain() {
    let mut found = Vec::new();
    let mut seen = 0;
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                let skipped = ["tests", "benches", "examples"].contains(&name.as_str());
                folders.extend((!skipped).then_some(path));
            } else if name.ends_with(".rs") && name != "tests.rs" {
                for text in literals(&fs::read_to_string(&path).unwrap()) {
                    seen += 1;
                    if let Some(word) = BANNED.find(&text) {
                        found.push(format!("{}: `{}`: {text:.70}", path.display(), word.as_str()));
                    }
                }
            }
        }
    }
    assert!(seen > 1_000, "{seen} texts");
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

#[test]
fn the_checks_find_what_they_look_for() {
    let source = "// it \"tells\"\nlet told = format!(\"{told} bears\");\n#[cfg(test)]\nlet a = \"dear\";";
    assert_eq!(literals(source), ["` bears"]);
    let long = vec!["word"; 26].join(" ");
    let page = format!(
        "# Title\n\nA load it bears. {long}.\n\n    code that tells\n\n| a | {long} |\n- item\n  goes on\n"
    );
    let found: Vec<String> = prose(&page).iter().flat_map(|one| faults("p", &one.text)).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(prose("- item\n  goes on\n- next\n").len(), 2);
    assert_eq!(sentences("One, e.g. this. Two?").len(), 2);
    assert_eq!(slug("What it prints, `-v`"), "what-it-prints--v");
}
