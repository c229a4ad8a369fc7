package summary

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Topics is the response body of GET /api/v1/topics.
type Topics struct {
	Topics []Topic `json:"topics"`
}

// Topic summarizes the responding brokers' reports on a topic. On Kubernetes, the operator writes
// the same values to the Topic's status. A broker in a pod summarizes only its own replicas; the
// message of Compacting then states how many partitions are missing.
type Topic struct {
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	Compacted  bool   `json:"compacted"`
	// SizeBytes is the total size of the leaders' logs.
	SizeBytes int64 `json:"sizeBytes"`
	// Records is the number of records in the leaders' logs, including tombstones, superseded records
	// and transaction markers. It is absent if the topic is not compacted, or if any partition's
	// leader has not reported. RecordsExact is false if part of the number is an estimate.
	Records      *int64 `json:"records,omitempty"`
	RecordsExact bool   `json:"recordsExact"`
	// DistinctKeys is Records without the garbage that passes have counted. If Records is exact, this
	// is an upper bound on the number of keys. It is absent until a pass has covered each partition.
	DistinctKeys *int64 `json:"distinctKeys,omitempty"`
	// Compaction and Compacting are absent if the topic is not compacted. Compaction is also absent
	// while no leader reports.
	Compaction *v1alpha1.CompactionStatus `json:"compaction,omitempty"`
	Compacting *Compacting                `json:"compacting,omitempty"`
}

// Compacting is condition Compacting.
type Compacting struct {
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

// Metadata is the part of a topic's metadata that Of needs.
type Metadata struct {
	Name       string
	Partitions int
	Replicas   int // total over all partitions
	Compacted  bool
	CleanNow   string // value of annotation heartwood.dev/clean-now; "" without the annotation
}

// Of aggregates the reports on a topic.
func Of(topic Metadata, rows Rows, polled Polled) Topic {
	counted := Topic{Topic: topic.Name, Partitions: topic.Partitions, Compacted: topic.Compacted}
	for _, row := range rows.Replicas {
		if row.Leader {
			counted.SizeBytes += row.SizeBytes
		}
	}
	if !topic.Compacted {
		return counted
	}
	counted.Compaction = WithCleanNow(Compaction(rows),
		CleanNow(topic.CleanNow, nil, rows, topic.Replicas))
	counted.count(rows)
	condition := Condition(rows, topic.Partitions, polled)
	counted.Compacting = &Compacting{condition.Status, condition.Reason, condition.Message}
	return counted
}

// count sums the records and the keys in the leaders' logs. A sum stays absent if any partition's
// leader has not reported the value.
func (t *Topic) count(rows Rows) {
	leaders := rows.leaders()
	if len(leaders) == 0 || len(leaders) < t.Partitions {
		return
	}
	records, keys, exact, known := int64(0), int64(0), true, true
	for _, leader := range leaders {
		if leader.Records == nil {
			return
		}
		records += *leader.Records
		exact = exact && leader.RecordsExact
		if known = known && leader.DistinctKeys != nil; known {
			keys += *leader.DistinctKeys
		}
	}
	t.Records, t.RecordsExact = &records, exact
	if known {
		t.DistinctKeys = &keys
	}
}

// WithCleanNow sets status.CleanNow and returns status. If status is nil and cleanNow is not, it
// creates a status. Both arguments can be nil.
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
