package report

// Placement is the response of GET /api/v1/placement: the partitions' leaders and replicas, as in
// the broker's metadata image.
type Placement struct {
	Partitions []PlacedPartition `json:"partitions"`
	// Retained contains the partitions of deleted topics whose records are retained or being removed.
	Retained []RetainedPartition `json:"retained"`
	// Brokers contains the brokers that are up.
	Brokers []BrokerHost `json:"brokers"`
}

// PlacedPartition is one partition of a topic.
type PlacedPartition struct {
	Topic          string  `json:"topic"`
	Partition      int32   `json:"partition"`
	Leader         int32   `json:"leader"` // -1 if no leader is up
	LeaderEpoch    int32   `json:"leaderEpoch"`
	Replicas       []int32 `json:"replicas"` // the preferred leader first
	InSyncReplicas []int32 `json:"inSyncReplicas"`
	// Target contains the target replicas of a reassignment; it is absent without a reassignment.
	Target []int32 `json:"target,omitempty"`
	// Lag is the number of offsets by which the slowest replica is behind the leader. It is absent
	// unless the broker leads the partition and serves it.
	Lag *int64 `json:"lag,omitempty"`
	// Reason explains why the partition does not serve or is not fully replicated: ReplicaLost (all
	// its in-sync replicas have lost their records, so it stays offline until a user accepts the
	// loss), LeaderOffline, LeaderStarting, UnderMinInSyncReplicas, Reassigning or UnderReplicated. It
	// is absent if the partition serves and all its replicas are in sync. Only the leader itself
	// reports LeaderStarting.
	Reason string `json:"reason,omitempty"`
}

// RetainedPartition is one partition of a deleted topic.
type RetainedPartition struct {
	Topic       string  `json:"topic"`
	Partition   int32   `json:"partition"`
	Replicas    []int32 `json:"replicas"`    // brokers that hold the records
	LeaderEpoch int32   `json:"leaderEpoch"` // leader epoch of the last election
	Tag         string  `json:"tag"`         // first 8 characters of the topic id
	// Removing is true while brokers delete the records, because a user has accepted their loss.
	Removing bool `json:"removing,omitempty"`
}

// BrokerHost is a broker, and the host at which clients reach it.
type BrokerHost struct {
	Broker int32  `json:"broker"`
	Host   string `json:"host"`
}
