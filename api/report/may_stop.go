package report

// MayStop is the response of GET /api/v1/may-stop/BROKER. It states whether the partitions that the
// responding brokers lead keep enough in-sync replicas while BROKER is stopped.
type MayStop struct {
	Broker  int32 `json:"broker"`
	MayStop bool  `json:"mayStop"`
	// Blocking contains at most BlockingMax of the partitions that would have too few in-sync
	// replicas.
	Blocking []BlockingPartition `json:"blocking"`
}

// BlockingMax is the maximum length of MayStop.Blocking.
const BlockingMax = 5

// BlockingPartition is a partition that would have too few in-sync replicas if the broker stopped.
type BlockingPartition struct {
	Topic             string  `json:"topic"`
	Partition         int32   `json:"partition"`
	Replicas          []int32 `json:"replicas"`
	InSyncReplicas    []int32 `json:"inSyncReplicas"` // brokers that are up
	MinInSyncReplicas int     `json:"minInSyncReplicas"`
}
