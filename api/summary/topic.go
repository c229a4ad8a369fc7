package summary

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Topics is the answer of GET /api/v1/topics.
type Topics struct {
	Topics []Topic `json:"topics"`
}

// Topic is what the brokers that answer know of a topic: what the operator writes to its status on
// Kubernetes. A broker in a pod knows its own replicas only, and the message of Compacting says how
// many partitions are missing.
type Topic struct {
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	Compacted  bool   `json:"compacted"`
	// SizeBytes is that of the leaders' logs.
	SizeBytes int64 `json:"sizeBytes"`
	// Compaction and Compacting are absent when the topic is not compacted, Compaction also while
	// no leader reported.
	Compaction *v1alpha1.CompactionStatus `json:"compaction,omitempty"`
	Compacting *Compacting                `json:"compacting,omitempty"`
}

// Compacting is condition Compacting.
type Compacting struct {
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

// Known is what the metadata say of a topic.
type Known struct {
	Name       string
	Partitions int
	Replicas   int // of all partitions
	Compacted  bool
	CleanNow   string // value of the annotation; "": none
}

// Of sums a topic up.
func Of(known Known, rows Rows, from Asked) Topic {
	topic := Topic{Topic: known.Name, Partitions: known.Partitions, Compacted: known.Compacted}
	for _, row := range rows.Replicas {
		if row.Leader {
			topic.SizeBytes += row.SizeBytes
		}
	}
	if !known.Compacted {
		return topic
	}
	topic.Compaction = WithCleanNow(Compaction(rows),
		CleanNow(known.CleanNow, nil, rows, known.Replicas))
	condition := Condition(rows, known.Partitions, from)
	topic.Compacting = &Compacting{condition.Status, condition.Reason, condition.Message}
	return topic
}

// WithCleanNow puts the parts of a status together; either may be nil.
func WithCleanNow(status *v1alpha1.CompactionStatus,
	cleanNow *v1alpha1.CleanNowStatus) *v1alpha1.CompactionStatus {
	if status == nil && cleanNow != nil {
		status = &v1alpha1.CompactionStatus{}
	}
	if status != nil {
		status.CleanNow = cleanNow
	}
	return status
}
