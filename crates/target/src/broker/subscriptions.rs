//! Who subscribes to what: overlapping and shared subscriptions, and where a message goes.

use super::memory::{Held, Memory};
use super::topics::{Tree, cost};
use crate::tcp::Slots;
use plimsoll_codec::mqtt::{QoS, topic};
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes of routes that are remembered.
const MOST_REMEMBERED: usize = 32 * 1024 * 1024;

/// How a subscription wants its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The highest quality of service.
    pub qos: QoS,
    /// Not the messages that the client itself publishes.
    pub no_local: bool,
    /// With the retain flag that the publisher set.
    pub retain_as_published: bool,
    /// The identifier that comes with its messages.
    pub identifier: Option<u32>,
}

/// How a session gets a message, all of its subscriptions taken together: once, at the highest quality of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The highest quality of service.
    pub qos: QoS,
    /// With the retain flag that the publisher set.
    pub retain_as_published: bool,
    /// The identifiers of all subscriptions that match.
    pub identifiers: Option<Rc<[u32]>>,
}

/// A session that a topic's messages go to.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// The session.
    pub session: u64,
    /// How it gets messages of others; nothing where only shared subscriptions match.
    pub grant: Grant,
    /// How it gets its own.
    pub own: Option<Grant>,
}

/// Where the messages of a topic go.
#[derive(Debug)]
pub struct Route {
    /// The topic.
    pub topic: Rc<str>,
    /// The sessions.
    pub targets: Vec<Target>,
    /// The groups of shared subscriptions.
    pub groups: Vec<u64>,
    /// The state of subscriptions that it was made of.
    version: u64,
}

/// Everybody's subscriptions to one filter.
#[derive(Default)]
struct Subscribers {
    members: Vec<(u64, Wish)>,
    groups: Vec<u64>,
}

/// Members of a shared subscription.
struct Group {
    name: Box<str>,
    members: Vec<(u64, Wish)>,
    next: usize,
}

/// Everybody's subscriptions.
#[derive(Default)]
pub struct Subscriptions {
    filters: Tree<Subscribers>,
    groups: Slots<Group>,
    routes: HashMap<Rc<str>, Rc<Route>>,
    remembered: usize,
    version: u64,
}

/// The filters of one session, and their bytes.
#[derive(Default)]
pub struct Filters(HashMap<Box<str>, Held>);

impl Wish {
    fn grant(&self) -> Grant {
        Grant {
            qos: self.qos,
            retain_as_published: self.retain_as_published,
            identifiers: self.identifier.map(|identifier| Rc::from([identifier])),
        }
    }
}

impl Grant {
    fn merge(&mut self, wish: &Wish) {
        self.qos = self.qos.max(wish.qos);
        self.retain_as_published |= wish.retain_as_published;
        if let Some(identifier) = wish.identifier {
            let known = self.identifiers.as_deref().unwrap_or_default();
            self.identifiers = Some(known.iter().copied().chain([identifier]).collect());
        }
    }
}

impl Subscriptions {
    /// A session subscribes, or changes its subscription. Whether it is new.
    pub fn subscribe(
        &mut self,
        session: u64,
        filters: &mut Filters,
        filter: &str,
        wish: Wish,
        memory: &Rc<Memory>,
    ) -> bool {
        self.version += 1;
        let new = !filters.0.contains_key(filter);
        if new {
            // The filter, and what stands for the session beside it.
            filters.0.insert(filter.into(), memory.hold(cost(filter) + filter.len() + size_of::<Wish>()));
        }
        let (group, filter) = parts(filter);
        if self.filters.get_mut(filter).is_none() {
            self.filters.insert(filter, Subscribers::default());
        }
        let Some(subscribers) = self.filters.get_mut(filter) else { return new };
        let members = match group {
            None => &mut subscribers.members,
            Some(name) => {
                let groups = &mut self.groups;
                let mut known = subscribers.groups.iter().copied();
                let id = known.find(|id| groups.get(*id).is_some_and(|group| *group.name == *name));
                let id = id.unwrap_or_else(|| {
                    let id = groups.insert(Group { name: name.into(), members: Vec::new(), next: 0 });
                    subscribers.groups.push(id);
                    id
                });
                match groups.get_mut(id) {
                    Some(group) => &mut group.members,
                    None => return new,
                }
            }
        };
        if new {
            members.push((session, wish));
        } else if let Some((_, known)) = members.iter_mut().find(|(member, _)| *member == session) {
            *known = wish;
        }
        new
    }

    /// A session no longer subscribes. Whether it did.
    pub fn unsubscribe(&mut self, session: u64, filters: &mut Filters, filter: &str) -> bool {
        let known = filters.0.remove(filter).is_some();
        if known {
            self.remove(session, filter);
        }
        known
    }

    /// A session ends.
    pub fn leave(&mut self, session: u64, filters: Filters) {
        for filter in filters.0.keys() {
            self.remove(session, filter);
        }
    }

    fn remove(&mut self, session: u64, filter: &str) {
        self.version += 1;
        let (group, filter) = parts(filter);
        let Some(subscribers) = self.filters.get_mut(filter) else { return };
        match group {
            None => subscribers.members.retain(|(member, _)| *member != session),
            Some(name) => subscribers.groups.retain(|&id| {
                let Some(group) = self.groups.get_mut(id).filter(|group| *group.name == *name) else {
                    return true;
                };
                group.members.retain(|(member, _)| *member != session);
                let needed = !group.members.is_empty();
                if !needed {
                    drop(self.groups.remove(id));
                }
                needed
            }),
        }
        if subscribers.members.is_empty() && subscribers.groups.is_empty() {
            self.filters.remove(filter);
        }
    }

    /// Whether a route is still true.
    pub fn holds(&self, route: &Route) -> bool {
        route.version == self.version
    }

    /// Where the messages of a topic go.
    pub fn route(&mut self, name: &str) -> Rc<Route> {
        let known = self.routes.get(name);
        if let Some(route) = known.filter(|route| self.holds(route)) {
            return Rc::clone(route);
        }
        if self.remembered > MOST_REMEMBERED || known.is_some() {
            // What one change has made untrue is untrue of all.
            self.routes.clear();
            self.remembered = 0;
        }
        let route = Rc::new(self.find(name));
        self.remembered += name.len() + size_of::<Route>() + route.targets.len() * size_of::<Target>();
        self.routes.insert(Rc::clone(&route.topic), Rc::clone(&route));
        route
    }

    fn find(&self, name: &str) -> Route {
        let mut route =
            Route { topic: name.into(), targets: Vec::new(), groups: Vec::new(), version: self.version };
        let mut positions = HashMap::new();
        for Subscribers { members, groups } in self.filters.filters_matching(name) {
            route.groups.extend(groups);
            for (session, wish) in members {
                let position = *positions.entry(*session).or_insert(route.targets.len());
                let own = !wish.no_local;
                match route.targets.get_mut(position) {
                    Some(target) => {
                        target.grant.merge(wish);
                        match &mut target.own {
                            Some(grant) if own => grant.merge(wish),
                            None if own => target.own = Some(wish.grant()),
                            _ => {}
                        }
                    }
                    None => route.targets.push(Target {
                        session: *session,
                        grant: wish.grant(),
                        own: own.then(|| wish.grant()),
                    }),
                }
            }
        }
        route
    }

    /// The member of a group that the next message goes to: in turns, and those that are connected before others.
    pub fn member(&mut self, group: u64, is_connected: impl Fn(u64) -> bool) -> Option<(u64, Grant)> {
        let Group { members, next, .. } = self.groups.get_mut(group)?;
        let count = members.len();
        let turns = (0..count).map(|turn| (*next + turn) % count);
        let connected = turns.clone().find(|at| members.get(*at).is_some_and(|(id, _)| is_connected(*id)));
        let at = connected.or_else(|| turns.clone().next())?;
        let chosen = members.get(at).map(|(session, wish)| (*session, wish.grant()));
        *next = at + 1;
        chosen
    }
}

/// The group of a shared subscription, and the filter itself. Brokers of MQTT 3.1.1 read `$share` in the same way.
fn parts(filter: &str) -> (Option<&str>, &str) {
    match topic::shared(filter) {
        Some(shared) => (Some(shared.group), shared.filter),
        None => (None, filter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(qos: QoS) -> Wish {
        Wish { qos, no_local: false, retain_as_published: false, identifier: None }
    }

    #[test]
    fn overlapping_subscriptions_are_one_delivery_with_all_identifiers() {
        let memory = Memory::new(usize::MAX);
        let (mut all, mut filters) = (Subscriptions::default(), Filters::default());
        let first = Wish { identifier: Some(1), no_local: true, ..wish(QoS::AtMostOnce) };
        let second = Wish { identifier: Some(2), retain_as_published: true, ..wish(QoS::AtLeastOnce) };
        assert!(all.subscribe(7, &mut filters, "a/#", first, &memory));
        assert!(all.subscribe(7, &mut filters, "a/+", second, &memory));
        assert!(!all.subscribe(7, &mut filters, "a/+", second, &memory), "known already");
        let route = all.route("a/b");
        let [target] = &route.targets[..] else { panic!("{route:?}") };
        let mut identifiers = target.grant.identifiers.as_deref().unwrap().to_vec();
        identifiers.sort_unstable();
        assert_eq!((target.session, target.grant.qos, identifiers), (7, QoS::AtLeastOnce, vec![1, 2]));
        assert!(target.grant.retain_as_published);
        assert_eq!(target.own.as_ref().unwrap().identifiers.as_deref(), Some(&[2][..]), "no local");
        assert!(all.holds(&route) && Rc::ptr_eq(&route, &all.route("a/b")));
        assert!(all.unsubscribe(7, &mut filters, "a/+") && !all.unsubscribe(7, &mut filters, "a/+"));
        assert!(!all.holds(&route));
        assert_eq!(all.route("a/b").targets[0].own, None);
        all.leave(7, filters);
        assert!(all.route("a/b").targets.is_empty());
        assert!(!memory.is_full());
    }

    #[test]
    fn members_of_a_group_take_turns_and_the_connected_ones_come_first() {
        let memory = Memory::new(usize::MAX);
        let mut all = Subscriptions::default();
        let mut filters: [Filters; 3] = Default::default();
        for (session, filters) in (0..).zip(&mut filters) {
            all.subscribe(session, filters, "$share/g/a", wish(QoS::AtMostOnce), &memory);
        }
        let mut other = Filters::default();
        all.subscribe(9, &mut other, "$share/h/a", wish(QoS::AtMostOnce), &memory);
        let groups = all.route("a").groups.clone();
        assert_eq!(groups.len(), 2);
        let mut turn = |connected: &[u64]| all.member(groups[0], |id| connected.contains(&id)).unwrap().0;
        assert_eq!([(); 4].map(|()| turn(&[0, 1, 2])), [0, 1, 2, 0]);
        assert_eq!([(); 3].map(|()| turn(&[0, 2])), [2, 0, 2]);
        assert_eq!([(); 2].map(|()| turn(&[])), [0, 1], "somebody keeps it");
        let [first, second, third] = filters;
        all.leave(0, first);
        all.leave(1, second);
        assert_eq!(all.member(groups[0], |_| true).unwrap().0, 2);
        all.leave(2, third);
        assert_eq!(all.member(groups[0], |_| true), None);
        assert_eq!(all.route("a").groups, groups[1..]);
    }
}
