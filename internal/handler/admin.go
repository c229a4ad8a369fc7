package handler

import (
	"context"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// What the admin APIs share. A change is made topic by topic or resource by resource; one that
// fails does not undo the others.

// errReadOnly refuses every admin write of a cluster where manifests rule.
var errReadOnly = fmt.Errorf(
	"%w: the LogCluster has adminApi: ReadOnly, so its resources are changed by whoever applies them",
	metadata.ErrPolicy,
)

// writable fails if the cluster lets admin requests change nothing.
func (h *Handler) writable() error {
	if h.opts.Image().Policy.ReadOnly {
		return errReadOnly
	}
	return nil
}

// awaitTopic waits until this broker's image shows a topic's change, so that who asks it next is
// told of it.
func (h *Handler) awaitTopic(ctx context.Context, name string, enough func(*metadata.Topic) bool) {
	h.awaitShown(ctx, func(img *metadata.Image) bool {
		topic := img.Topic(name)
		return topic == nil || enough(topic)
	})
}

// repeated returns the names that come more than once.
func repeated[T any](all []T, name func(*T) string) map[string]bool {
	seen, twice := map[string]bool{}, map[string]bool{}
	for i := range all {
		key := name(&all[i])
		twice[key] = seen[key]
		seen[key] = true
	}
	return twice
}

// partitionRef names a partition as the replicas do.
func partitionRef(topic string, index int32) replica.PartitionID {
	return replica.PartitionID{Topic: topic, Index: index}
}
