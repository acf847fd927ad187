//! The way of a client until it is ready: who it is, the topic, who leads its partitions, its place in the group, and where it begins.

use super::{Phase, Session, joins_again, malformed};
use crate::driver::Client;
use crate::drivers::messaging::{Failure, Happened};
use crate::drivers::words;
use plimsoll_codec::kafka::{self, Cluster, error};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

impl Session {
    /// The answer to what the phase awaited.
    pub(super) fn answered(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        match self.phase {
            Phase::Mechanisms => match kafka::mechanisms(body).map_err(malformed)? {
                (error::NONE, _) => self.ask(Phase::Login, out),
                (_, known) => {
                    let known = words::plain(&known.join(", "));
                    let told =
                        format!("the platform takes no user name with a password (SASL PLAIN), but {known}");
                    return Err(Failure::lasting(told));
                }
            },
            Phase::Login => match kafka::authenticated(body).map_err(malformed)? {
                (error::NONE, _) => self.ask(Phase::Topic, out),
                (error, said) => {
                    let said = if said.is_empty() { error::told(error) } else { words::plain(said) };
                    return Err(Failure::lasting(format!("the platform does not let the user in: {said}")));
                }
            },
            Phase::Topic => return self.knows(&kafka::cluster(body).map_err(malformed)?, out),
            Phase::Making => match kafka::created_topic(body).map_err(malformed)? {
                error::NONE => self.ask(Phase::Topic, out),
                error::TOPIC_EXISTS => return Ok(self.pause_before(Phase::Topic)),
                error => return self.ask_again(error),
            },
            Phase::Coordinator => match kafka::coordinator(body).map_err(malformed)? {
                (error::NONE, node) if self.node.is_none_or(|own| own == node) => {
                    self.ask(Phase::Joining, out)
                }
                (error::NONE, _) => {
                    let told = "another broker of the cluster looks after the group, and subscribers here read from one";
                    return Err(Failure::lasting(told));
                }
                (error, _) => return self.ask_again(error),
            },
            Phase::Joining => {
                let joined = kafka::joined(body).map_err(malformed)?;
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
                    error => return self.ask_again(error),
                }
            }
            Phase::Share => match kafka::share(body).map_err(malformed)? {
                (error::NONE, partitions) => {
                    self.reading.assign(&partitions, true);
                    if self.reading.is_empty() {
                        return Ok(self.become_ready(out));
                    }
                    self.ask(Phase::Offsets, out);
                }
                // Only who joins again has the members among whom it is to share out.
                (error, _) if joins_again(error) || error::is_passing(error) => {
                    self.note_membership(error);
                    return Ok(self.pause_before(Phase::Joining));
                }
                (error, _) => return self.ask_again(error),
            },
            Phase::Offsets => {
                for (partition, offset, error) in kafka::read_up_to(body).map_err(malformed)? {
                    if error != error::NONE {
                        return self.ask_again(error);
                    }
                    self.reading.found(partition, offset);
                }
                return Ok(self.find_rest(out));
            }
            Phase::Latest => {
                for found in kafka::offsets(body).map_err(malformed)? {
                    if found.error != error::NONE {
                        return self.ask_again(found.error);
                    }
                    self.reading.found(found.partition, found.offset);
                }
                if !self.reading.unknown().is_empty() {
                    return Err(Failure::passing("the platform did not say where partitions end"));
                }
                self.commit(out);
                return Ok(self.become_ready(out));
            }
            Phase::Ready => return Err(Failure::passing("the platform sent an answer to nothing we asked")),
        }
        Ok(Happened::Nothing)
    }

    /// What the platform says of the topic and who leads its partitions.
    fn knows(&mut self, cluster: &Cluster, out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        match cluster.error {
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
                return Err(Failure::lasting(format!("the platform has no topic `{topic}`")));
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
                    Some((error::NONE, leader)) => self.turn_to(cluster, leader, out),
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
                let first = cluster.partitions.first().map_or(-1, |own| own.leader);
                if cluster.partitions.iter().any(|own| own.leader != first) {
                    let told =
                        "several brokers lead the topic's partitions, and subscribers here read from one";
                    return Err(Failure::lasting(told));
                }
                self.turn_to(cluster, first, out)
            }
        }
    }

    /// Goes on with the broker of that number, at the place where it says that it is.
    fn turn_to(
        &mut self,
        cluster: &Cluster,
        leader: i32,
        out: &mut Vec<u8>,
    ) -> Result<Happened<'static>, Failure> {
        if self.node == Some(leader) {
            return Ok(self.go_on(out));
        }
        let Some(node) = cluster.nodes.iter().find(|node| node.number == leader) else {
            return self.ask_again(error::LEADER_NOT_AVAILABLE);
        };
        let (known, address) = &self.settings.known;
        let host = match node.host.as_str() {
            "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            host if host == known => Ok(*address),
            host => host.parse(),
        };
        match (host, u16::try_from(node.port)) {
            (Ok(host), Ok(port)) => {
                self.elsewhere = Some(leader);
                Ok(Happened::Elsewhere(SocketAddr::new(host, port)))
            }
            _ => {
                let host = words::plain(&node.host);
                Err(Failure::lasting(format!(
                    "the broker that leads the partition calls itself `{host}`, which is no address: set its \
                     `advertised.listeners` to one"
                )))
            }
        }
    }

    /// The topic is there, and so is who leads it.
    fn go_on(&mut self, out: &mut Vec<u8>) -> Happened<'static> {
        if let Client::Device(_) = self.client {
            return self.become_ready(out);
        }
        if self.settings.group.is_some() {
            self.ask(Phase::Coordinator, out);
            return Happened::Accepted;
        }
        self.reading.assign(&self.partitions, false);
        match self.find_rest(out) {
            Happened::Nothing => Happened::Accepted,
            other => other,
        }
    }

    /// Asks where partitions end of which nothing else is known.
    fn find_rest(&mut self, out: &mut Vec<u8>) -> Happened<'static> {
        if self.reading.unknown().is_empty() {
            return self.become_ready(out);
        }
        self.ask(Phase::Latest, out);
        Happened::Nothing
    }
}
