//! Paths (1.1 core, section 7.3): object, instance, resource, instance of a resource.

use std::fmt;

/// Most levels of a path.
pub const DEEPEST: usize = 4;
/// The number that no object, instance or resource may have.
const RESERVED: u16 = u16::MAX;

/// What an operation is about: up to four numbers, from the object down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// Those beyond the depth are zero.
    ids: [u16; DEEPEST],
    depth: u8,
}

impl Path {
    /// Everything: no number at all.
    pub const ROOT: Path = Path { ids: [0; DEEPEST], depth: 0 };

    /// Of these numbers; `None` where they are more than four, or one of them is reserved.
    pub fn new(ids: &[u16]) -> Option<Path> {
        let mut path = Path::ROOT;
        for id in ids {
            path = path.child(*id)?;
        }
        Some(path)
    }

    /// A resource.
    pub const fn resource(object: u16, instance: u16, resource: u16) -> Path {
        Path { ids: [object, instance, resource, 0], depth: 3 }
    }

    /// One level further down; `None` at the deepest one, and of the reserved number.
    pub fn child(mut self, id: u16) -> Option<Path> {
        *self.ids.get_mut(usize::from(self.depth)).filter(|_| id != RESERVED)? = id;
        self.depth += 1;
        Some(self)
    }

    /// The first levels of it.
    pub fn up_to(self, depth: usize) -> Path {
        let kept = self.ids().get(..depth).unwrap_or(self.ids());
        let mut ids = [0; DEEPEST];
        ids.iter_mut().zip(kept).for_each(|(to, from)| *to = *from);
        Path { ids, depth: kept.len() as u8 }
    }

    /// Reads a text such as `/3303/0/5700` or `3303/0/5700`; `None` where it is no path. Zeros before a number are none of it.
    pub fn parse(text: &str) -> Option<Path> {
        let text = text.strip_prefix('/').unwrap_or(text);
        if text.is_empty() {
            return Some(Path::ROOT);
        }
        text.strip_suffix('/')
            .unwrap_or(text)
            .split('/')
            .try_fold(Path::ROOT, |path, part| path.child(number(part)?))
    }

    /// The numbers.
    pub fn ids(&self) -> &[u16] {
        self.ids.get(..usize::from(self.depth)).unwrap_or_default()
    }

    /// How many numbers it has.
    pub fn depth(&self) -> usize {
        usize::from(self.depth)
    }

    /// The object, where it has one.
    pub fn object(&self) -> Option<u16> {
        self.ids().first().copied()
    }

    /// The instance of the object.
    pub fn instance(&self) -> Option<u16> {
        self.ids().get(1).copied()
    }

    /// The resource.
    pub fn resource_id(&self) -> Option<u16> {
        self.ids().get(2).copied()
    }

    /// Whether the other path is this one or lies below it.
    pub fn covers(&self, other: &Path) -> bool {
        other.ids().starts_with(self.ids())
    }
}

/// A number of a path as text: decimal digits, without a zero before them.
fn number(text: &str) -> Option<u16> {
    let has_zeros = text.len() > 1 && text.starts_with('0');
    let is_number = !has_zeros && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.depth == 0 {
            return f.write_str("/");
        }
        self.ids().iter().try_for_each(|id| write!(f, "/{id}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_is_up_to_four_numbers() {
        let path = Path::parse("/3303/0/5700").unwrap();
        assert_eq!((path, path.to_string()), (Path::resource(3303, 0, 5700), "/3303/0/5700".to_owned()));
        assert_eq!((path.object(), path.instance(), path.resource_id()), (Some(3303), Some(0), Some(5700)));
        assert_eq!((Path::parse(""), Path::ROOT.to_string()), (Some(Path::ROOT), "/".to_owned()));
        assert_eq!(Path::parse("1/2/3/4"), Path::new(&[1, 2, 3, 4]));
        for wrong in ["1/2/3/4/5", "65535", "65536", "a", "1//2", "-1", "+1", "01", "//"] {
            assert_eq!(Path::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_path_covers_what_is_below_it() {
        let of = |text: &str| Path::parse(text).unwrap();
        assert!(Path::ROOT.covers(&of("3")) && of("3").covers(&of("3/0/1")) && of("3/0").covers(&of("3/0")));
        assert!(!of("3/0").covers(&of("3")) && !of("3").covers(&of("33/0")));
        assert_eq!(of("3/0/1").up_to(2), of("3/0"));
        assert_eq!(of("3").up_to(2), of("3"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_paths_survive(text in "[0-9/]{0,16}") {
            if let Some(path) = Path::parse(&text) {
                prop_assert_eq!(Path::parse(&path.to_string()), Some(path));
                prop_assert_eq!(Path::new(path.ids()), Some(path));
            }
        }
    }
}
