//! Values of resources (1.1 core, appendix C): what a device holds, and what somebody else wrote.

use std::borrow::Cow;

/// The kind of value that a resource holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A whole number with a sign.
    Integer,
    /// A number.
    Float,
    /// True or false.
    Boolean,
    /// Text.
    String,
    /// Bytes.
    Opaque,
    /// Seconds since 1970.
    Time,
    /// An instance of an object.
    ObjectLink,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 7] =
        [Kind::Integer, Kind::Float, Kind::Boolean, Kind::String, Kind::Opaque, Kind::Time, Kind::ObjectLink];
}

/// A value of a known kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A whole number with a sign.
    Integer(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// Text.
    String(&'a str),
    /// Bytes.
    Opaque(&'a [u8]),
    /// Seconds since 1970.
    Time(i64),
    /// Object and instance.
    ObjectLink(u16, u16),
}

impl Value<'_> {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Integer(_) => Kind::Integer,
            Value::Float(_) => Kind::Float,
            Value::Boolean(_) => Kind::Boolean,
            Value::String(_) => Kind::String,
            Value::Opaque(_) => Kind::Opaque,
            Value::Time(_) => Kind::Time,
            Value::ObjectLink(..) => Kind::ObjectLink,
        }
    }

    /// Whether it is no number, or one that can be compared with others.
    pub fn is_finite(&self) -> bool {
        !matches!(self, Value::Float(number) if !number.is_finite())
    }

    /// It as a number, for conditions on when to notify; `None` where it is none.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Value::Integer(number) | Value::Time(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => None,
        }
    }
}

/// A value as it was read. Formats tell kinds apart more or less: one says `true`, the other sends a byte.
#[derive(Clone, Debug, PartialEq)]
pub enum Given<'a> {
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// Text; also what plain text has for any kind.
    Text(Cow<'a, str>),
    /// Bytes; also what TLV has for any kind.
    Bytes(Cow<'a, [u8]>),
    /// Object and instance.
    ObjectLink(u16, u16),
}

impl Given<'_> {
    /// Bytes that it takes beside its place.
    pub fn length(&self) -> usize {
        match self {
            Given::Text(text) => text.len(),
            Given::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// The value that this is for a resource of that kind; `None` where it is none.
    pub fn as_kind(&self, kind: Kind) -> Option<Value<'_>> {
        Some(match (self, kind) {
            (Given::Text(text), Kind::String) => Value::String(text),
            (Given::Text(text), _) => return super::text::read(text, kind),
            (Given::Bytes(bytes), _) => {
                return super::tlv::read_value(bytes, kind).filter(Value::is_finite);
            }
            (Given::Integer(number), Kind::Integer) => Value::Integer(*number),
            (Given::Integer(number), Kind::Time) => Value::Time(*number),
            (Given::Integer(number), Kind::Float) => Value::Float(*number as f64),
            (Given::Float(number), Kind::Float) if number.is_finite() => Value::Float(*number),
            (Given::Float(number), Kind::Integer) => Value::Integer(whole(*number)?),
            (Given::Float(number), Kind::Time) => Value::Time(whole(*number)?),
            (Given::Boolean(is_true), Kind::Boolean) => Value::Boolean(*is_true),
            (Given::ObjectLink(object, instance), Kind::ObjectLink) => Value::ObjectLink(*object, *instance),
            _ => return None,
        })
    }

    /// The same with bytes of its own.
    pub fn into_owned(self) -> Given<'static> {
        match self {
            Given::Integer(number) => Given::Integer(number),
            Given::Float(number) => Given::Float(number),
            Given::Boolean(is_true) => Given::Boolean(is_true),
            Given::Text(text) => Given::Text(text.into_owned().into()),
            Given::Bytes(bytes) => Given::Bytes(bytes.into_owned().into()),
            Given::ObjectLink(object, instance) => Given::ObjectLink(object, instance),
        }
    }
}

impl From<Value<'_>> for Given<'static> {
    fn from(value: Value<'_>) -> Given<'static> {
        match value {
            Value::Integer(number) | Value::Time(number) => Given::Integer(number),
            Value::Float(number) => Given::Float(number),
            Value::Boolean(is_true) => Given::Boolean(is_true),
            Value::String(text) => Given::Text(text.to_owned().into()),
            Value::Opaque(bytes) => Given::Bytes(bytes.to_vec().into()),
            Value::ObjectLink(object, instance) => Given::ObjectLink(object, instance),
        }
    }
}

/// A number that has nothing behind its point, and that a float has exactly.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_taken_as_the_resource_holds_it() {
        assert_eq!(Given::Integer(5).as_kind(Kind::Float), Some(Value::Float(5.0)));
        assert_eq!(Given::Float(5.0).as_kind(Kind::Time), Some(Value::Time(5)));
        assert_eq!(Given::Float(5.5).as_kind(Kind::Integer), None);
        assert_eq!(Given::Float(f64::NAN).as_kind(Kind::Integer), None);
        assert_eq!(Given::Text("5.5".into()).as_kind(Kind::Float), Some(Value::Float(5.5)));
        assert_eq!(Given::Text("5.5".into()).as_kind(Kind::String), Some(Value::String("5.5")));
        assert_eq!(Given::Bytes(vec![1, 0].into()).as_kind(Kind::Integer), Some(Value::Integer(256)));
        assert_eq!(Given::Boolean(true).as_kind(Kind::Integer), None);
    }
}
