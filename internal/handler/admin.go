package handler

import (
	"context"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// This file contains helpers of the admin APIs. An admin request changes its topics or resources
// one after the other. If one change fails, the other changes remain.

// errReadOnly is the error for all changes by admin requests if the LogCluster allows changes by
// manifests only.
var errReadOnly = fmt.Errorf(
	"%w: the LogCluster has adminApi: ReadOnly; change its resources with kubectl or by manifest",
	metadata.ErrPolicy,
)

// writable returns an error if the LogCluster does not allow changes by admin requests.
func writable(img *metadata.Image) error {
	if img.Policy.ReadOnly {
		return errReadOnly
	}
	return nil
}

// awaitTopic waits until a topic in this broker's metadata image satisfies enough, so that the
// client's next request finds the changed topic. It also returns if the topic does not exist.
func (h *Handler) awaitTopic(ctx context.Context, name string, enough func(*metadata.Topic) bool) {
	h.awaitImage(ctx, func(img *metadata.Image) bool {
		topic := img.Topic(name)
		return topic == nil || enough(topic)
	})
}

// repeated returns a map in which the names that occur more than once have the value true.
func repeated[T any](all []T, name func(*T) string) map[string]bool {
	seen, duplicates := map[string]bool{}, map[string]bool{}
	for i := range all {
		key := name(&all[i])
		duplicates[key] = seen[key]
		seen[key] = true
	}
	return duplicates
}

func partitionRef(topic string, index int32) replica.PartitionID {
	return replica.PartitionID{Topic: topic, Index: index}
}
