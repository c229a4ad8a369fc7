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

// RetainedTopic describes the partitions of a deleted topic whose records are retained
// (reclaimPolicy Retain). A later Topic of the same name continues with the records.
type RetainedTopic struct {
	// Topic is the deleted Topic's name.
	Topic string `json:"topic"`
	// ID is the first 8 characters of the topic id, as in the PartitionSets.
	ID string `json:"id"`
	// Partitions is the number of partitions with retained records.
	Partitions int32 `json:"partitions"`
	// Removing is true while brokers delete the records.
	// +optional
	Removing bool `json:"removing,omitempty"`
	// WaitsFor contains the brokers that have not deleted the records yet.
	// +optional
	// +listType=atomic
	WaitsFor []int32 `json:"waitsFor,omitempty"`
	// Command is the command that removes the records permanently. It is absent while they are being
	// removed.
	// +optional
	Command string `json:"command,omitempty"`
}

// GivenUp is a consent to the removal of a deleted topic's retained records.
type GivenUp struct {
	Topic string // name of the deleted Topic
	ID    string // first 8 characters of the topic id
}

// String returns the consent as a word of AnnotationRemoveRetained: TOPIC=ID.
func (g GivenUp) String() string { return g.Topic + "=" + g.ID }

// GivenUp returns the consents in annotation heartwood.dev/remove-retained, in which spaces
// separate them. A word without an id results in an empty id, which matches no topic.
func (c *LogCluster) GivenUp() []GivenUp {
	var all []GivenUp
	for word := range strings.FieldsSeq(c.Annotations[AnnotationRemoveRetained]) {
		topic, id, _ := strings.Cut(word, "=")
		all = append(all, GivenUp{topic, id})
	}
	return all
}

// RemoveRetainedCommand returns the command that removes a deleted topic's retained records.
func RemoveRetainedCommand(c *LogCluster, topic string) string {
	return fmt.Sprintf("kubectl heartwood retained remove -n %s --cluster %s %s", c.Namespace, c.Name,
		topic)
}
