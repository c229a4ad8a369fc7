package admin

import (
	"context"

	"heartwood.dev/heartwood/internal/metadata"
)

// This file contains helpers for the admin APIs. An admin request changes its topics or resources
// one after the other. If one change fails, the other changes remain.

// awaitTopic waits until enough returns true for a topic in this broker's metadata image, so that
// the client's next request finds the change. It also returns if the topic does not exist.
func (h *Handler) awaitTopic(ctx context.Context, name string, enough func(*metadata.Topic) bool) {
	h.awaitImage(ctx, func(img *metadata.Image) bool {
		topic := img.Topic(name)
		return topic == nil || enough(topic)
	})
}

// repeated returns the set of names that occur more than once.
func repeated[T any](all []T, name func(*T) string) map[string]bool {
	seen, duplicates := map[string]bool{}, map[string]bool{}
	for i := range all {
		key := name(&all[i])
		duplicates[key] = seen[key]
		seen[key] = true
	}
	return duplicates
}
