package metadata

// Losses contains the logs of a broker that have lost records. The broker has found the losses
// before it registers.
type Losses struct {
	// Cluster is the id of the cluster to which the logs belong; "" if it is unknown. The losses do
	// not concern the replicas of another cluster.
	Cluster string `json:",omitempty"`
	Logs    []LostLog
}

// LostLog is a log that has lost records (ADR 0315).
type LostLog struct {
	Topic     string // Kafka name of the topic
	TopicID   ID     // id of the topic; the zero id if it is unknown, because the directory is missing
	Partition int32
	// ReplicaIncarnation is the replica incarnation id that the loss concerns. It is nil if the broker
	// has received no metadata image since it found the loss. The loss then concerns the id that is
	// recorded at the registration.
	ReplicaIncarnation *string `json:",omitempty"`
	// Next is a new, unique replica incarnation id, which replaces the id that the loss concerns. By
	// this id the broker detects in an image that the loss is recorded.
	Next string
}

// In returns the lost logs that belong to a cluster. l may be nil.
func (l *Losses) In(cluster string) []LostLog {
	if l == nil || l.Cluster != "" && l.Cluster != cluster {
		return nil
	}
	return l.Logs
}
