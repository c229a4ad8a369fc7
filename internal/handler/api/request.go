package api

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// AdminWaitMax limits how long a request may wait for the metadata store, even if the client's
// timeout is longer.
const AdminWaitMax = time.Minute

// AdminWait returns the client's timeout, limited to AdminWaitMax.
func AdminWait(millis int32) time.Duration {
	return min(time.Duration(max(0, millis))*time.Millisecond, AdminWaitMax)
}

// Writable returns an error if the LogCluster does not allow changes by admin requests.
func Writable(img *metadata.Image) error {
	if img.Policy.ReadOnly {
		return errReadOnly
	}
	return nil
}

// TopicName returns the name of the topic with an id.
func TopicName(img *metadata.Image, id metadata.ID) (string, error) {
	if topic := img.TopicByID(id); topic != nil {
		return topic.Name, nil
	}
	return "", ErrUnknownTopicID
}

// PartitionRef returns a topic and a partition index as a PartitionID.
func PartitionRef(topic string, index int32) replica.PartitionID {
	return replica.PartitionID{Topic: topic, Index: index}
}

// OrEmpty returns the string, or "" for nil. OrNull is the inverse.
func OrEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// OrNull returns a pointer to the string, or nil for "".
func OrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
