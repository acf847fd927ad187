//! Values by topic name or topic filter: a tree of levels, in which both ways of matching (MQTT 5 section 4.7) are walks.
//! No recursion: a name has up to 65,536 levels.

use std::collections::HashMap;

const ROOT: usize = 0;
/// About what a node takes, bytes.
const NODE_SIZE: usize = 128;

/// A tree of levels.
pub struct Tree<T> {
    nodes: Vec<Node<T>>,
    vacant: Vec<usize>,
}

struct Node<T> {
    children: HashMap<Box<str>, usize>,
    value: Option<T>,
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Node { children: HashMap::new(), value: None }
    }
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Tree { nodes: vec![Node::default()], vacant: Vec::new() }
    }
}

/// Bytes that a path takes at most.
pub fn cost(path: &str) -> usize {
    (1 + memchr::memchr_iter(b'/', path.as_bytes()).count()) * NODE_SIZE + path.len()
}

impl<T> Tree<T> {
    /// Puts a value in the place of that path; what stood there before.
    pub fn insert(&mut self, path: &str, value: T) -> Option<T> {
        let mut at = ROOT;
        for level in path.split('/') {
            at = match self.child(at, level) {
                Some(child) => child,
                None => {
                    let child = self.vacant.pop().unwrap_or_else(|| {
                        self.nodes.push(Node::default());
                        self.nodes.len() - 1
                    });
                    self.nodes.get_mut(at)?.children.insert(level.into(), child);
                    child
                }
            };
        }
        self.nodes.get_mut(at)?.value.replace(value)
    }

    /// The value in the place of that path.
    pub fn get_mut(&mut self, path: &str) -> Option<&mut T> {
        let at = path.split('/').try_fold(ROOT, |at, level| self.child(at, level))?;
        self.nodes.get_mut(at)?.value.as_mut()
    }

    /// Takes out the value in the place of that path.
    pub fn remove(&mut self, path: &str) -> Option<T> {
        let mut way = Vec::new();
        let mut at = ROOT;
        for level in path.split('/') {
            let child = self.child(at, level)?;
            way.push((at, level, child));
            at = child;
        }
        let value = self.nodes.get_mut(at)?.value.take()?;
        for (parent, level, child) in way.into_iter().rev() {
            let needed = |node: &Node<T>| node.value.is_some() || !node.children.is_empty();
            if self.nodes.get(child).is_some_and(needed) {
                break;
            }
            if let Some(parent) = self.nodes.get_mut(parent) {
                parent.children.remove(level);
            }
            if let Some(node) = self.nodes.get_mut(child) {
                *node = Node::default();
            }
            self.vacant.push(child);
        }
        Some(value)
    }

    /// The values of all filters that match a topic name. Paths are topic filters.
    pub fn filters_matching<'a>(&'a self, name: &str) -> Vec<&'a T> {
        let mut found = Vec::new();
        let mut here = vec![ROOT];
        let mut next = Vec::new();
        // Names that begin with `$` are not matched by a filter that begins with a wildcard.
        let mut wildcards = !name.starts_with('$');
        for level in name.split('/') {
            for &at in &here {
                if wildcards {
                    found.extend(self.child(at, "#").and_then(|child| self.value(child)));
                    next.extend(self.child(at, "+"));
                }
                next.extend(self.child(at, level));
            }
            wildcards = true;
            std::mem::swap(&mut here, &mut next);
            next.clear();
        }
        for at in here {
            found.extend(self.value(at));
            // `#` also matches its parent level.
            found.extend(self.child(at, "#").and_then(|child| self.value(child)));
        }
        found
    }

    /// The values of all topic names that a filter matches. Paths are topic names.
    pub fn names_matching<'a>(&'a self, filter: &str) -> Vec<&'a T> {
        let mut here = vec![ROOT];
        let mut found = Vec::new();
        for level in filter.split('/') {
            let mut next = Vec::new();
            match level {
                "#" => {
                    let mut rest: Vec<usize> = here.iter().flat_map(|&at| self.all_children(at)).collect();
                    found.extend(here.iter().filter_map(|&at| self.value(at)));
                    while let Some(at) = rest.pop() {
                        found.extend(self.value(at));
                        rest.extend(self.all_children(at));
                    }
                    return found;
                }
                "+" => next.extend(here.iter().flat_map(|&at| self.all_children(at))),
                level => next.extend(here.iter().filter_map(|&at| self.child(at, level))),
            }
            here = next;
        }
        found.extend(here.into_iter().filter_map(|at| self.value(at)));
        found
    }

    fn child(&self, at: usize, level: &str) -> Option<usize> {
        self.nodes.get(at)?.children.get(level).copied()
    }

    fn value(&self, at: usize) -> Option<&T> {
        self.nodes.get(at)?.value.as_ref()
    }

    /// The children that a wildcard stands for.
    fn all_children(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let children = self.nodes.get(at).into_iter().flat_map(|node| &node.children);
        let hidden = move |level: &str| at == ROOT && level.starts_with('$');
        children.filter(move |(level, _)| !hidden(level)).map(|(_, child)| *child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::mqtt::topic;
    use proptest::prelude::*;

    /// Few levels, so that many match.
    fn path(levels: &'static [&'static str]) -> impl Strategy<Value = String> {
        proptest::collection::vec(proptest::sample::select(levels), 1..5).prop_map(|levels| levels.join("/"))
    }

    fn names() -> impl Strategy<Value = Vec<String>> {
        let name = path(&["a", "b", "", "$s"]).prop_filter("a name", |name| topic::valid_name(name));
        proptest::collection::vec(name, 1..20)
    }

    fn filters() -> impl Strategy<Value = Vec<String>> {
        let levels = &["a", "b", "", "$s", "+", "#"];
        let filter = path(levels).prop_filter("a filter", |filter| topic::valid_filter(filter));
        proptest::collection::vec(filter, 1..20)
    }

    fn tree(paths: &[String]) -> Tree<String> {
        let mut tree = Tree::default();
        for path in paths {
            tree.insert(path, path.clone());
        }
        tree
    }

    fn sorted(mut found: Vec<&String>) -> Vec<&String> {
        found.sort();
        found.dedup();
        found
    }

    proptest! {
        /// Both walks find what the naive matcher of the codec finds.
        #[test]
        fn walks_agree_with_the_naive_matcher(names in names(), filters in filters(), gone in 0usize..20) {
            let mut subscribed = tree(&filters);
            let mut kept = tree(&names);
            let gone = filters.get(gone).cloned();
            if let Some(gone) = &gone {
                let removed = subscribed.remove(gone);
                prop_assert_eq!(removed.as_ref(), Some(gone));
            }
            for name in &names {
                let naive = filters.iter()
                    .filter(|filter| topic::matches(filter, name) && Some(*filter) != gone.as_ref());
                prop_assert_eq!(sorted(subscribed.filters_matching(name)), sorted(naive.collect()));
            }
            for filter in &filters {
                let naive = names.iter().filter(|name| topic::matches(filter, name));
                prop_assert_eq!(sorted(kept.names_matching(filter)), sorted(naive.collect()));
            }
            for name in &names {
                kept.remove(name);
            }
            prop_assert_eq!(kept.vacant.len() + 1, kept.nodes.len());
            prop_assert!(kept.nodes[ROOT].children.is_empty());
        }
    }

    #[test]
    fn a_path_of_65_536_levels_is_no_matter() {
        let deep = "/".repeat(65_535);
        let mut tree = Tree::default();
        tree.insert(&deep, 1);
        assert_eq!(tree.filters_matching(&deep), [&1]);
        assert_eq!(tree.names_matching("#"), [&1]);
        assert_eq!(tree.get_mut(&deep), Some(&mut 1));
        assert_eq!(tree.remove(&deep), Some(1));
        assert_eq!(tree.remove(&deep), None);
        assert_eq!(cost(&deep), 65_536 * NODE_SIZE + 65_535);
    }
}
