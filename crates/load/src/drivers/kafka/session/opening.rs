//! The way of a client until it is ready: who it is, the topic, who leads its partitions, its place in the group, and where it begins.

use super::{Phase, Session, has_no_coordinator, joins_again};
use crate::driver::Client;
use crate::drivers::messaging::{Failure, Happened};
use crate::drivers::words;
use plimsoll_codec::kafka::{self, Cluster, Node, error};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The most connections of a subscriber beside its own: a cluster with more brokers would be no cluster.
const MOST_BRANCHES: usize = 256;

/// How often a branch asks who leads its partitions: for two seconds.
const MOST_LOOKS: u32 = 20;

impl Session {
    /// The answer to what the phase awaited.
    pub(super) fn answered(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        match self.phase {
            Phase::Mechanisms => match kafka::mechanisms(body).map_err(Failure::malformed)? {
                (error::NONE, _) => self.ask(Phase::Login, out),
                (_, known) if known.is_empty() => {
                    let told = "the platform asks nobody for a user name (SASL); remove `kafka.username`";
                    return Err(Failure::lasting(told.to_owned()));
                }
                (_, known) => {
                    let known = words::plain(&known.join(", "));
                    let told =
                        format!("the platform takes no user name with a password (SASL PLAIN), but {known}");
                    return Err(Failure::lasting(told));
                }
            },
            Phase::Login => match kafka::authenticated(body).map_err(Failure::malformed)? {
                (error::NONE, _) => self.ask(Phase::Topic, out),
                (error, said) => {
                    let said = if said.is_empty() { error::told(error) } else { words::plain(said) };
                    return Err(Failure::lasting(format!("the platform does not let the user in: {said}")));
                }
            },
            Phase::Topic => return self.knows(&kafka::cluster(body).map_err(Failure::malformed)?, out),
            Phase::Making => match kafka::created_topic(body).map_err(Failure::malformed)? {
                error::NONE => self.ask(Phase::Topic, out),
                error::TOPIC_EXISTS => return Ok(self.pause_before(Phase::Topic)),
                error => return self.ask_again(error),
            },
            Phase::Coordinator => match kafka::coordinator(body).map_err(Failure::malformed)? {
                (error::NONE, node) if self.node == Some(node) => self.ask(Phase::Joining, out),
                (error::NONE, node) => {
                    let nodes = std::mem::take(&mut self.nodes);
                    return self.turn_to(&nodes, node);
                }
                (error, _) => return self.group_refused(error),
            },
            Phase::Joining => {
                let joined = kafka::joined(body).map_err(Failure::malformed)?;
                match joined.error {
                    error::NONE => {
                        self.place.joined(joined);
                        self.ask(Phase::Share, out);
                    }
                    error::UNKNOWN_MEMBER if self.place.has_name() => {
                        self.place.forget();
                        self.ask(Phase::Joining, out);
                    }
                    error::UNKNOWN_MEMBER => return Ok(self.pause_before(Phase::Joining)),
                    error => return self.group_refused(error),
                }
            }
            Phase::Share => match kafka::share(body).map_err(Failure::malformed)? {
                (error::NONE, partitions) => {
                    self.reading.assign(&partitions, true);
                    if self.reading.is_empty() {
                        return Ok(self.become_ready(out));
                    }
                    self.ask(Phase::Offsets, out);
                }
                // Only who joins again has the members among whom it is to share out.
                (error, _)
                    if joins_again(error) || error::is_passing(error) && !has_no_coordinator(error) =>
                {
                    self.note_membership(error);
                    return Ok(self.pause_before(Phase::Joining));
                }
                (error, _) => return self.group_refused(error),
            },
            Phase::Offsets => {
                for (partition, offset, error) in kafka::read_up_to(body).map_err(Failure::malformed)? {
                    if error != error::NONE {
                        return self.group_refused(error);
                    }
                    self.reading.found(partition, offset);
                }
                return self.spread(out);
            }
            Phase::Ends => {
                for found in kafka::offsets(body).map_err(Failure::malformed)? {
                    if found.error == error::NOT_LEADER {
                        return Err(Failure::passing("another broker has taken over a partition"));
                    }
                    if found.error != error::NONE {
                        return self.ask_again(found.error);
                    }
                    self.reading.found(found.partition, found.offset);
                }
                if !self.reading.unknown().is_empty() {
                    return Err(Failure::passing("the platform did not say where partitions end"));
                }
                self.lacks_removed = false;
                self.commit(out);
                return Ok(self.become_ready(out));
            }
            Phase::Branches | Phase::Ready => {
                return Err(Failure::passing("the platform sent an answer to nothing we asked"));
            }
        }
        Ok(Happened::Nothing)
    }

    /// The group's coordinator refuses. Where another broker is the coordinator by now, that one is asked. A member that was ready begins
    /// from the start, so that the run has an incident of the time in which it reads nothing.
    fn group_refused(&mut self, error: i16) -> Result<Happened<'static>, Failure> {
        match has_no_coordinator(error) {
            true if self.was_ready => Err(Failure::passing(format!("the group: {}", error::told(error)))),
            true => Ok(self.pause_before(Phase::Coordinator)),
            false => self.ask_again(error),
        }
    }

    /// What the platform says of the topic and who leads its partitions.
    fn knows(&mut self, cluster: &Cluster, out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        match cluster.error {
            // Another broker knew it a moment ago.
            error::UNKNOWN_TOPIC if self.is_branch => return self.look_again(),
            error::UNKNOWN_TOPIC if self.was_ever_ready => {
                return Err(Failure::passing("the platform does not have the topic any more"));
            }
            error::UNKNOWN_TOPIC if self.settings.makes_topic() => {
                if std::mem::replace(&mut self.made, true) {
                    return Ok(self.pause_before(Phase::Topic));
                }
                self.ask(Phase::Making, out);
                return Ok(Happened::Nothing);
            }
            error::UNKNOWN_TOPIC => {
                let topic = &self.settings.topic;
                return Err(Failure::lasting(format!(
                    "the platform has no topic `{topic}`; make it there, or leave `kafka.topic` out for one that is made for the \
                     run"
                )));
            }
            error::NONE if cluster.partitions.is_empty() => {
                return self.ask_again(error::LEADER_NOT_AVAILABLE);
            }
            error::NONE => {}
            error => return self.ask_again(error),
        }
        self.partitions = cluster.partitions.iter().map(|own| own.number).collect();
        self.partitions.sort_unstable();
        if cluster.nodes.len() == 1 {
            self.node = cluster.nodes.first().map(|node| node.number);
        }
        match self.client {
            Client::Device(_) => {
                self.partition = kafka::partition_of(&self.key, self.partitions.len() as i32);
                let own = cluster.partitions.iter().find(|own| own.number == self.partition);
                match own.map(|own| (own.error, own.leader)) {
                    Some((error::NONE, leader)) if self.node == Some(leader) => Ok(self.become_ready(out)),
                    Some((error::NONE, leader)) => self.turn_to(&cluster.nodes, leader),
                    Some((error, _)) => self.ask_again(error),
                    None => self.ask_again(error::LEADER_NOT_AVAILABLE),
                }
            }
            Client::Subscriber(_) => {
                let failed =
                    cluster.partitions.iter().map(|own| own.error).find(|error| *error != error::NONE);
                if let Some(error) = failed {
                    return self.ask_again(error);
                }
                self.nodes.clone_from(&cluster.nodes);
                self.leaders = cluster.partitions.iter().map(|own| (own.number, own.leader)).collect();
                self.begin_reading(out)
            }
        }
    }

    /// A branch's broker says something else than the trunk's. That passes in a moment; where it does not, the trunk has to ask again.
    fn look_again(&mut self) -> Result<Happened<'static>, Failure> {
        self.looks += 1;
        if self.looks > MOST_LOOKS {
            return Err(Failure::passing("another broker has taken over its partitions"));
        }
        Ok(self.pause_before(Phase::Topic))
    }

    /// Goes on with the broker of that number.
    fn turn_to(&mut self, nodes: &[Node], number: i32) -> Result<Happened<'static>, Failure> {
        match self.address_of(nodes, number)? {
            Some(address) => {
                self.elsewhere = Some(number);
                Ok(Happened::Elsewhere(address))
            }
            None => Ok(self.pause_before(Phase::Topic)),
        }
    }

    /// Where a broker says that it is; `None` where nothing is known of it.
    fn address_of(&self, nodes: &[Node], number: i32) -> Result<Option<SocketAddr>, Failure> {
        let Some(node) = nodes.iter().find(|node| node.number == number) else { return Ok(None) };
        let (known, address) = &self.settings.known;
        let host = match node.host.as_str() {
            "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            host if host == known => Ok(*address),
            host => host.parse(),
        };
        match (host, u16::try_from(node.port)) {
            (Ok(host), Ok(port)) => Ok(Some(SocketAddr::new(host, port))),
            _ => {
                let host = words::plain(&node.host);
                Err(Failure::lasting(format!(
                    "a broker of the cluster calls itself `{host}`, which is no address: set its \
                     `advertised.listeners` to one"
                )))
            }
        }
    }

    /// A subscriber knows the topic and who leads its partitions.
    fn begin_reading(&mut self, out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        if self.is_branch {
            let is_led = |partition: &i32| self.leaders.get(partition).copied() == self.node;
            let all = self.node.is_some() && self.reading.partitions().iter().all(is_led);
            return if all { Ok(self.find_rest(out)) } else { self.look_again() };
        }
        if self.settings.group.is_some() {
            self.ask(Phase::Coordinator, out);
            return Ok(Happened::Accepted);
        }
        let leads = self.leaders.values().any(|leader| Some(*leader) == self.node);
        if let Some((_, &first)) = self.leaders.first_key_value().filter(|_| !leads) {
            let nodes = std::mem::take(&mut self.nodes);
            return self.turn_to(&nodes, first);
        }
        self.reading.assign(&self.partitions, false);
        Ok(match self.spread(out)? {
            Happened::Nothing => Happened::Accepted,
            other => other,
        })
    }

    /// Shares the subscriber's partitions out among the brokers that lead them: what is not led here is read over branches.
    fn spread(&mut self, out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        let mut others: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let mut own = Vec::new();
        for &partition in self.reading.partitions() {
            match self.leaders.get(&partition) {
                Some(&leader) if self.node != Some(leader) => {
                    others.entry(leader).or_default().push(partition)
                }
                Some(_) => own.push(partition),
                None => return Ok(self.pause_before(Phase::Topic)),
            }
        }
        if others.len() > MOST_BRANCHES {
            return Err(Failure::lasting(format!(
                "more than {MOST_BRANCHES} brokers lead partitions of the topic"
            )));
        }
        let mut branches = Vec::new();
        for (leader, partitions) in others {
            match self.address_of(&self.nodes, leader)? {
                Some(address) => branches.push((address, self.branch(leader, partitions))),
                None => return Ok(self.pause_before(Phase::Topic)),
            }
        }
        self.reading.keep(own);
        if !branches.is_empty() {
            self.awaits_branches = true;
            self.branches = Some(branches);
        }
        Ok(self.find_rest(out))
    }

    /// Asks where partitions end of which nothing else is known.
    fn find_rest(&mut self, out: &mut Vec<u8>) -> Happened<'static> {
        if self.reading.unknown().is_empty() {
            return self.become_ready(out);
        }
        self.ask(Phase::Ends, out);
        Happened::Nothing
    }
}
