//! What is asked of Kafka: the names of the requests (Apache Kafka, "Protocol Guide", API keys).

use plimsoll_model::wire::Label;

/// By their keys, from 0 on.
const NAMES: [&str; 93] = [
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "AlterReplicaLogDirs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
    "DeleteGroups",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "OffsetDelete",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "DescribeQuorum",
    "AlterPartition",
    "UpdateFeatures",
    "Envelope",
    "FetchSnapshot",
    "DescribeCluster",
    "DescribeProducers",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "UnregisterBroker",
    "DescribeTransactions",
    "ListTransactions",
    "AllocateProducerIds",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ControllerRegistration",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "AssignReplicasToDirs",
    "ListConfigResources",
    "DescribeTopicPartitions",
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "AddRaftVoter",
    "RemoveRaftVoter",
    "UpdateRaftVoter",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
];
/// The highest version that is believed; none of them has come so far.
const VERSIONS: u16 = 24;

/// Whether there is such a request.
pub(super) fn is_known(key: u16, version: u16) -> bool {
    usize::from(key) < NAMES.len() && version < VERSIONS
}

/// Name and version, `Produce v9`; the name alone where a label does not hold both.
pub(super) fn verb(key: u16, version: u16) -> Label {
    let name = NAMES.get(usize::from(key)).copied().unwrap_or_default().as_bytes();
    let number = Label::number(version);
    let number = number.as_str().as_bytes();
    let mut text = [0; Label::LENGTH];
    let length = name.len() + 2 + number.len();
    let Some(whole) = text.get_mut(..length) else { return Label::from_bytes(name) };
    whole[..name.len()].copy_from_slice(name);
    whole[name.len()..name.len() + 2].copy_from_slice(b" v");
    whole[name.len() + 2..].copy_from_slice(number);
    Label::from_bytes(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_holds_the_version_where_it_fits() {
        assert_eq!(verb(0, 9).as_str(), "Produce v9");
        assert_eq!(verb(23, 4).as_str(), "OffsetForLeaderEpoch v4");
        assert_eq!(verb(44, 1).as_str(), "IncrementalAlterConfigs");
        assert_eq!(
            (NAMES[18], NAMES[36], NAMES[68]),
            ("ApiVersions", "SaslAuthenticate", "ConsumerGroupHeartbeat")
        );
    }
}
