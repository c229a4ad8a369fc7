package report

// Replicas is the response of GET /api/v1/topics/TOPIC/replicas: the replicas of a topic's
// partitions. The lag is known only for partitions that brokers of this process lead.
type Replicas struct {
	Topic      string                `json:"topic"`
	Partitions []ReplicatedPartition `json:"partitions"`
	// Brokers contains the brokers that are up.
	Brokers []BrokerHost `json:"brokers"`
}

// ReplicatedPartition is one partition with its replicas.
type ReplicatedPartition struct {
	Partition         int32 `json:"partition"`
	Leader            int32 `json:"leader"` // -1 if no leader is up
	LeaderEpoch       int32 `json:"leaderEpoch"`
	MinInSyncReplicas int   `json:"minInSyncReplicas"`
	// Reported is true if a broker of this process leads the partition. Otherwise the offsets and the
	// lags are absent.
	Reported       bool   `json:"reported"`
	LogStartOffset *int64 `json:"logStartOffset,omitempty"`
	LogEndOffset   *int64 `json:"logEndOffset,omitempty"`
	HighWatermark  *int64 `json:"highWatermark,omitempty"`
	// Reason has the same values as PlacedPartition.Reason.
	Reason   string             `json:"reason,omitempty"`
	Replicas []PartitionReplica `json:"replicas"`
}

// PartitionReplica is a replica of a partition. Responses contain the preferred leader first.
type PartitionReplica struct {
	Broker int32 `json:"broker"`
	Leader bool  `json:"leader"`
	InSync bool  `json:"inSync"`
	// Joining is true if a reassignment keeps or adds the replica but the replica is not yet in sync.
	// Leaving is true if the reassignment removes the replica.
	Joining bool `json:"joining,omitempty"`
	Leaving bool `json:"leaving,omitempty"`
	// Lag is the number of offsets by which the replica is behind the leader; absent if unknown.
	Lag *int64 `json:"lag,omitempty"`
}
