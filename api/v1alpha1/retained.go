package v1alpha1

import (
	"fmt"
	"strings"
)

// Reasons of events about retained records.
const (
	// EventRemovingRetained: brokers have begun to delete the retained records of a deleted topic.
	EventRemovingRetained = "RemovingRetained"
	// EventRetainedKept: a word in AnnotationRemoveRetained was removed, because it matches no
	// retained records, or because the Topic exists again.
	EventRetainedKept = "RetainedKept"
)

// RetainedTopic contains the partitions of a deleted topic whose records are retained
// (reclaimPolicy Retain). A Topic of the same name continues with the records.
type RetainedTopic struct {
	// Topic is the name of the deleted Topic.
	Topic string `json:"topic"`
	// ID is the first 8 characters of the topic id, as in the PartitionSets.
	ID string `json:"id"`
	// Partitions is the number of partitions with retained records.
	Partitions int32 `json:"partitions"`
	// Removing is true while brokers delete the records.
	// +optional
	Removing bool `json:"removing,omitempty"`
	// WaitsFor are the brokers that have not deleted the records yet.
	// +optional
	// +listType=atomic
	WaitsFor []int32 `json:"waitsFor,omitempty"`
	// Command is the command that removes the records for good; absent while they are being removed.
	// +optional
	Command string `json:"command,omitempty"`
}

// GivenUp is a consent to the removal of the retained records of a deleted topic.
type GivenUp struct {
	Topic string // name of the deleted Topic
	ID    string // first 8 characters of the topic id
}

// String returns the consent as a word of AnnotationRemoveRetained: TOPIC=ID.
func (g GivenUp) String() string { return g.Topic + "=" + g.ID }

// GivenUp returns the consents in annotation heartwood.dev/remove-retained, which are separated by
// spaces. A word without an id is returned with an empty id, which matches no topic.
func (c *LogCluster) GivenUp() []GivenUp {
	var all []GivenUp
	for word := range strings.FieldsSeq(c.Annotations[AnnotationRemoveRetained]) {
		topic, id, _ := strings.Cut(word, "=")
		all = append(all, GivenUp{topic, id})
	}
	return all
}

// RemoveRetainedCommand returns the command that removes the retained records of a deleted topic.
func RemoveRetainedCommand(c *LogCluster, topic string) string {
	return fmt.Sprintf("kubectl heartwood retained remove -n %s --cluster %s %s", c.Namespace, c.Name,
		topic)
}
