package v1alpha1

// ConditionSpread is True on a LogCluster if its brokers, and the replicas of each partition, are
// spread across racks as evenly as possible. It is absent unless brokers are known to be in at
// least two racks.
const ConditionSpread = "Spread"

// Reasons of ConditionSpread.
const (
	// ReasonSpread: the condition is True.
	ReasonSpread = "Spread"
	// ReasonReplicasNotSpread: some partitions' replicas are in fewer racks than possible.
	ReasonReplicasNotSpread = "ReplicasNotSpread"
	// ReasonBrokersNotSpread: the numbers of brokers in two racks differ by more than one.
	ReasonBrokersNotSpread = "BrokersNotSpread"
)
