package handler

import (
	"context"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// Helpers of the admin APIs. They change topic by topic or resource by resource; one that fails
// does not undo the others.

// errReadOnly rejects every admin write of a cluster whose resources are changed by manifests only.
var errReadOnly = fmt.Errorf(
	"%w: the LogCluster has adminApi: ReadOnly; change its resources with kubectl or by manifest",
	metadata.ErrPolicy,
)

// writable returns an error if the cluster does not allow admin writes.
func (h *Handler) writable() error {
	if h.opts.Image().Policy.ReadOnly {
		return errReadOnly
	}
	return nil
}

// awaitTopic waits until this broker's metadata image shows a topic's change, so that the next
// request sees it.
func (h *Handler) awaitTopic(ctx context.Context, name string, enough func(*metadata.Topic) bool) {
	h.awaitImage(ctx, func(img *metadata.Image) bool {
		topic := img.Topic(name)
		return topic == nil || enough(topic)
	})
}

// repeated returns the names that occur more than once.
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
