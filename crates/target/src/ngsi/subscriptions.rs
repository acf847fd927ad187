//! Subscriptions: which changes somebody is told of, and how (NGSIv2 specification, "Subscriptions").

use super::attribute::{Attributes, Format};
use super::entities::{self, Change, Key, Selection};
use super::filter::Filter;
use super::refusal::Refusal;
use super::request::is_in_scope;
use regex_lite::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Largest compiled pattern, in bytes.
const LARGEST_PATTERN: usize = 64 * 1024;
/// Most kinds of entities of one subscription or query.
const MOST_SELECTIONS: usize = 1000;
/// Longest throttling that is taken, in seconds: a year.
const LONGEST_THROTTLING: f64 = 366.0 * 86_400.0;

/// A subscription.
#[derive(Debug)]
pub struct Subscription {
    /// As written, for those who ask.
    written: Map<String, Value>,
    scope: String,
    entities: Vec<Selection>,
    /// Attributes one of which must be written; empty for any.
    condition: Vec<String>,
    filter: Option<Filter>,
    /// Who is told: host and port, and the path there.
    pub authority: String,
    /// See `authority`.
    pub target: String,
    /// Attributes that are told; `None` for all.
    attributes: Option<Vec<String>>,
    only_changed: bool,
    format: Format,
    throttling: Duration,
    /// Whether it is told of anything.
    active: bool,
    told: u64,
    last: Option<Instant>,
}

impl Subscription {
    /// Reads a subscription.
    ///
    /// # Errors
    /// Something in it is not what it must be, or is more than this target does.
    pub fn read(written: Value, scope: &str) -> Result<Subscription, Refusal> {
        let Value::Object(written) = written else {
            return Err(Refusal::bad("a subscription is a JSON object"));
        };
        known(
            &written,
            "a subscription",
            &["description", "subject", "notification", "throttling", "status"],
        )?;
        let subject = object(&written, "subject")?;
        known(subject, "subject", &["entities", "condition"])?;
        let entities = selections(subject.get("entities"))?;
        let (mut condition, mut filter) = (Vec::new(), None);
        if subject.contains_key("condition") {
            let written = object(subject, "condition")?;
            known(written, "condition", &["attrs", "expression"])?;
            condition = texts(written.get("attrs"), "condition.attrs")?;
            if written.contains_key("expression") {
                let expression = object(written, "expression")?;
                known(expression, "expression", &["q"])?;
                filter = expression.get("q").map(|q| Filter::read(text(q, "q")?)).transpose()?;
            }
        }
        let notification = object(&written, "notification")?;
        known(notification, "notification", &["http", "attrs", "attrsFormat", "onlyChangedAttrs"])?;
        let http = object(notification, "http")?;
        known(http, "http", &["url"])?;
        let (authority, target) = url(text(http.get("url").unwrap_or(&Value::Null), "url")?)?;
        let told = texts(notification.get("attrs"), "notification.attrs")?;
        let format = match notification.get("attrsFormat").map(|format| text(format, "attrsFormat")) {
            None | Some(Ok("normalized")) => Format::Normalized,
            Some(Ok("keyValues")) => Format::KeyValues,
            Some(_) => return Err(Refusal::bad("attrsFormat is normalized or keyValues here")),
        };
        let only_changed = match notification.get("onlyChangedAttrs") {
            None => false,
            Some(Value::Bool(only)) => *only,
            Some(_) => return Err(Refusal::bad("onlyChangedAttrs is true or false")),
        };
        let throttling = match written.get("throttling") {
            None => Duration::ZERO,
            Some(seconds) => throttling(seconds)?,
        };
        let active = written.get("status").map_or(Ok(true), status)?;
        Ok(Subscription {
            scope: scope.to_owned(),
            entities,
            condition,
            filter,
            authority,
            target,
            attributes: (!told.is_empty()).then_some(told),
            only_changed,
            format,
            throttling,
            active,
            told: 0,
            last: None,
            written,
        })
    }

    /// Changes what may be changed: whether it is active.
    ///
    /// # Errors
    /// Something else is to be changed.
    pub fn patch(&mut self, written: &Value) -> Result<(), Refusal> {
        let Value::Object(written) = written else {
            return Err(Refusal::bad("a subscription is a JSON object"));
        };
        known(written, "a change of a subscription", &["status"])?;
        self.active = written.get("status").map_or(Ok(self.active), status)?;
        Ok(())
    }

    /// The subscription as a text from which it can be made again.
    pub fn keep(&self) -> String {
        let mut written = self.written.clone();
        written.insert("status".into(), if self.active { "active" } else { "inactive" }.into());
        json!([self.scope, written]).to_string()
    }

    /// Makes the subscription of such a text.
    ///
    /// # Errors
    /// It is none.
    pub fn restore(text: &str) -> Result<Subscription, Refusal> {
        let read = serde_json::from_str(text);
        let (scope, written): (String, Value) =
            read.map_err(|_| Refusal::bad("what a store keeps is no subscription"))?;
        Subscription::read(written, &scope)
    }

    /// The subscription as JSON.
    pub fn write(&self, id: &str) -> Value {
        let mut written = self.written.clone();
        written.insert("status".into(), if self.active { "active" } else { "inactive" }.into());
        if let Some(Value::Object(notification)) = written.get_mut("notification") {
            notification.insert("timesSent".into(), self.told.into());
        }
        let mut object = Map::new();
        object.insert("id".into(), id.into());
        object.extend(written);
        Value::Object(object)
    }

    /// The notification of a change, where this subscription is told of it. `forced`: also where nothing changed.
    pub fn tell(
        &mut self,
        id: &str,
        change: &Change,
        attributes: &Attributes,
        forced: bool,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let triggers = if forced { &change.written } else { &change.changed };
        let meant = self.active
            && !triggers.is_empty()
            && (self.condition.is_empty() || triggers.iter().any(|name| self.condition.contains(name)))
            && self.takes(&change.key, attributes)
            && self.last.is_none_or(|last| now.duration_since(last) >= self.throttling);
        if !meant {
            return None;
        }
        let mut only = self.attributes.clone();
        if self.only_changed {
            let told = |name: &&String| only.as_ref().is_none_or(|only| only.contains(name));
            only = Some(triggers.iter().filter(told).cloned().collect());
        }
        let entity = entities::write(&change.key, attributes, only.as_deref(), self.format);
        Some(self.notification(id, vec![entity], now))
    }

    /// The first notification: all that is there and meant already. `None` where nothing is.
    pub fn tell_first<'a>(
        &mut self,
        id: &str,
        known: impl Iterator<Item = (&'a Key, &'a Attributes)>,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let meant = known.filter(|(key, attributes)| self.takes(key, attributes));
        let data: Vec<Value> = meant
            .map(|(key, attributes)| {
                entities::write(key, attributes, self.attributes.as_deref(), self.format)
            })
            .collect();
        (self.active && !data.is_empty()).then(|| self.notification(id, data, now))
    }

    /// How many kinds of entities it names.
    pub fn selections(&self) -> usize {
        self.entities.len()
    }

    /// How attributes are written in its notifications, as their header says.
    pub fn format(&self) -> &'static str {
        match self.format {
            Format::Normalized => "normalized",
            Format::KeyValues => "keyValues",
        }
    }

    fn takes(&self, key: &Key, attributes: &Attributes) -> bool {
        is_in_scope(&self.scope, &key.path)
            && self.entities.iter().any(|selection| selection.names(key))
            && self.filter.as_ref().is_none_or(|filter| filter.holds(attributes))
    }

    fn notification(&mut self, id: &str, data: Vec<Value>, now: Instant) -> Vec<u8> {
        self.told += 1;
        self.last = Some(now);
        json!({ "subscriptionId": id, "data": data }).to_string().into_bytes()
    }
}

/// Reads the entities of a subscription or query: each by id or pattern, and type or pattern.
///
/// # Errors
/// There are none, or one of them is none.
pub fn selections(written: Option<&Value>) -> Result<Vec<Selection>, Refusal> {
    let Some(Value::Array(list)) =
        written.filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
    else {
        return Err(Refusal::bad("entities are a list, of one at least"));
    };
    if list.len() > MOST_SELECTIONS {
        return Err(Refusal::bad(format!("entities are {MOST_SELECTIONS} at most")));
    }
    let read = list.iter().map(|written| {
        let Value::Object(written) = written else {
            return Err(Refusal::bad("what stands in entities is a JSON object"));
        };
        known(written, "entities", &["id", "idPattern", "type", "typePattern"])?;
        let one = |name: &str| written.get(name).map(|value| text(value, name)).transpose();
        if written.contains_key("id") == written.contains_key("idPattern") {
            return Err(Refusal::bad("entities have either id or idPattern"));
        }
        if written.contains_key("type") && written.contains_key("typePattern") {
            return Err(Refusal::bad("entities have either type or typePattern"));
        }
        Ok(Selection {
            ids: one("id")?.map(str::to_owned).into_iter().collect(),
            id_pattern: one("idPattern")?.map(pattern).transpose()?,
            kinds: one("type")?.map(str::to_owned).into_iter().collect(),
            kind_pattern: one("typePattern")?.map(pattern).transpose()?,
            filter: None,
        })
    });
    read.collect()
}

/// Compiles a pattern.
///
/// # Errors
/// It is none, or too large.
pub fn pattern(text: &str) -> Result<Regex, Refusal> {
    let compiled = RegexBuilder::new(text).size_limit(LARGEST_PATTERN).build();
    compiled.map_err(|_| Refusal::bad(format!("`{text}` is no pattern, or too large a one")))
}

/// Reads a list of texts; none where nothing is written.
///
/// # Errors
/// It is no such list.
pub fn texts(written: Option<&Value>, what: &str) -> Result<Vec<String>, Refusal> {
    let wrong = || Refusal::bad(format!("{what} is a list of texts"));
    let list = match written {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(wrong()),
    };
    list.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

/// Takes apart the address that is told: `http://host:port/path`.
fn url(text: &str) -> Result<(String, String), Refusal> {
    let wrong = || Refusal::bad(format!("`{text}` is no address to notify: http://host:port/path"));
    let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_sound = |c: char| c.is_ascii_graphic();
    if authority.is_empty() || authority.contains('@') || !rest.chars().all(is_sound) {
        return Err(wrong());
    }
    // A colon within brackets is part of an IPv6 address.
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    Ok((authority, format!("/{path}")))
}

fn throttling(seconds: &Value) -> Result<Duration, Refusal> {
    let seconds = seconds.as_f64().filter(|seconds| (0.0..=LONGEST_THROTTLING).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| Refusal::bad("throttling is a number of seconds"))
}

fn status(written: &Value) -> Result<bool, Refusal> {
    match written.as_str() {
        Some("active") => Ok(true),
        Some("inactive") => Ok(false),
        _ => Err(Refusal::bad("status is active or inactive")),
    }
}

fn object<'a>(of: &'a Map<String, Value>, name: &str) -> Result<&'a Map<String, Value>, Refusal> {
    let found = of.get(name).and_then(Value::as_object);
    found.ok_or_else(|| Refusal::bad(format!("{name} is missing, or no JSON object")))
}

fn text<'a>(value: &'a Value, what: &str) -> Result<&'a str, Refusal> {
    value.as_str().ok_or_else(|| Refusal::bad(format!("{what} is missing, or no text")))
}

/// Refuses what this target would have to pass over in silence.
fn known(object: &Map<String, Value>, what: &str, names: &[&str]) -> Result<(), Refusal> {
    match object.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Refusal::bad(format!("{what}: this target does not know `{name}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::attribute::Attribute;
    use super::*;

    fn subscription(change: impl FnOnce(&mut Value)) -> Result<Subscription, Refusal> {
        let mut written = json!({
            "subject": { "entities": [{ "idPattern": "^road.*", "type": "Road" }] },
            "notification": { "http": { "url": "http://127.0.0.1:9/n" } },
        });
        change(&mut written);
        Subscription::read(written, "/#")
    }

    fn told(subscription: &mut Subscription, id: &str, written: &[&str], changed: &[&str]) -> Option<Value> {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let key = Key { id: id.into(), kind: "Road".into(), path: "/".into() };
        let change = Change { key, written: names(written), changed: names(changed) };
        let value = |value: i32| Attribute::of(value.into()).unwrap();
        let attributes = [("speed".into(), value(50)), ("cars".into(), value(3))].into();
        let body = subscription.tell("s", &change, &attributes, false, Instant::now())?;
        Some(serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn only_what_is_meant_and_changed_is_told() {
        let mut all = subscription(|_| {}).unwrap();
        assert_eq!(
            told(&mut all, "road1", &["speed"], &["speed"]).unwrap()["data"][0]["cars"]["value"],
            json!(3)
        );
        assert!(told(&mut all, "river1", &["speed"], &["speed"]).is_none());
        assert!(told(&mut all, "road1", &["speed"], &[]).is_none());
        let mut some = subscription(|written| {
            written["subject"]["condition"] =
                json!({ "attrs": ["speed"], "expression": { "q": "speed>40" } });
            written["notification"]["attrsFormat"] = json!("keyValues");
            written["notification"]["onlyChangedAttrs"] = json!(true);
        })
        .unwrap();
        assert!(told(&mut some, "road1", &["cars"], &["cars"]).is_none());
        assert_eq!(
            told(&mut some, "road1", &["speed"], &["speed"]).unwrap()["data"],
            json!([{ "id": "road1", "type": "Road", "speed": 50 }])
        );
        let slow = json!({ "attrs": [], "expression": { "q": "speed<40" } });
        let mut slow = subscription(|written| written["subject"]["condition"] = slow).unwrap();
        assert!(told(&mut slow, "road1", &["speed"], &["speed"]).is_none());
        let mut throttled = subscription(|written| written["throttling"] = json!(3600)).unwrap();
        assert!(told(&mut throttled, "road1", &["speed"], &["speed"]).is_some());
        assert!(told(&mut throttled, "road1", &["speed"], &["speed"]).is_none());
        all.patch(&json!({ "status": "inactive" })).unwrap();
        assert!(told(&mut all, "road1", &["speed"], &["speed"]).is_none());
        assert_eq!(all.write("s")["notification"]["timesSent"], json!(1));
    }

    #[test]
    fn what_would_be_passed_over_is_refused() {
        for change in [
            |written: &mut Value| written["expires"] = json!("2040-01-01T00:00:00Z"),
            |written: &mut Value| written["subject"]["entities"] = json!([]),
            |written: &mut Value| written["subject"]["entities"][0]["id"] = json!("x"),
            |written: &mut Value| written["subject"]["entities"][0]["idPattern"] = json!("("),
            |written: &mut Value| written["notification"]["http"]["url"] = json!("https://x/"),
            |written: &mut Value| written["notification"]["http"]["url"] = json!("http://a b/"),
            |written: &mut Value| written["throttling"] = json!(-1),
            |written: &mut Value| written["status"] = json!("asleep"),
            |written: &mut Value| *written = json!([]),
        ] {
            assert_eq!(subscription(change).map(|_| ()).unwrap_err().status, 400);
        }
        assert_eq!(url("http://[::1]:8080").unwrap(), ("[::1]:8080".into(), "/".into()));
        assert_eq!(url("http://here/a/b").unwrap(), ("here:80".into(), "/a/b".into()));
    }
}
