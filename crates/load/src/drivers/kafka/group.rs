//! A subscriber's place in its consumer group.

use plimsoll_codec::kafka::{self, Joined, Member};

/// A member of which nothing is heard for so many milliseconds is put out, and one that does not join again for so many when the
/// group is shared out.
const SILENCE: i32 = 10_000;
const REBALANCE: i32 = 60_000;

/// See the module.
#[derive(Default)]
pub struct Place {
    /// What the broker calls this member; empty where it has no name yet.
    member: String,
    generation: i32,
    /// All members, where this one leads the group.
    members: Vec<String>,
    /// Whether the group is to be joined again, since it is shared out anew.
    pub joins_again: bool,
}

impl Place {
    /// The member, for requests.
    pub fn member<'a>(&'a self, group: &'a str) -> Member<'a> {
        Member { group, generation: self.generation, name: &self.member }
    }

    /// Appends a request to join.
    pub fn join(&mut self, group: &str, topic: &str, correlation: i32, out: &mut Vec<u8>) {
        self.joins_again = false;
        kafka::join_group((group, &self.member), topic, (SILENCE, REBALANCE), correlation, out);
    }

    /// The group does not know this member any more.
    pub fn forget(&mut self) {
        self.member.clear();
    }

    /// Whether the broker has given this member a name.
    pub fn has_name(&self) -> bool {
        !self.member.is_empty()
    }

    /// The group was joined.
    pub fn joined(&mut self, joined: Joined) {
        let leads = joined.leader == joined.member;
        self.generation = joined.generation;
        self.member = joined.member;
        self.members = if leads { joined.members } else { Vec::new() };
    }

    /// Appends what each member is to read, where this one leads, and asks for its own share.
    pub fn sync(
        &mut self,
        (group, topic): (&str, &str),
        partitions: &[i32],
        correlation: i32,
        out: &mut Vec<u8>,
    ) {
        let shares = kafka::shared_out(&std::mem::take(&mut self.members), partitions);
        kafka::sync_group(self.member(group), topic, &shares, correlation, out);
    }
}
