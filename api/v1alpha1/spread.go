package v1alpha1

// ConditionSpread is True on a LogCluster if its brokers and the replicas of each partition are
// spread across racks as evenly as possible. A LogCluster whose brokers are not known to be in at
// least two racks does not have it.
const ConditionSpread = "Spread"

// Reasons of ConditionSpread.
const (
	// ReasonSpread: the condition is True.
	ReasonSpread = "Spread"
	// ReasonReplicasNotSpread: partitions have replicas in fewer racks than they could have.
	ReasonReplicasNotSpread = "ReplicasNotSpread"
	// ReasonBrokersNotSpread: the numbers of brokers in two racks differ by more than one.
	ReasonBrokersNotSpread = "BrokersNotSpread"
)
