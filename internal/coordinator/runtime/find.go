package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// findTimeout limits how long Find waits until the topic has been created and the key's partition
// has a leader.
const findTimeout = 5 * time.Second

// Find returns the broker that coordinates a key. It creates the topic if it does not exist.
func (r *Runtime[S, K, A]) Find(ctx context.Context, key string) (metadata.Broker, error) {
	if r.opts.Image().Topic(r.opts.Topic.Name) == nil {
		ctx, cancel := context.WithTimeout(ctx, findTimeout)
		defer cancel()
		// ErrTopicExists means that another broker has created the topic in the meantime.
		if _, err := r.opts.Admin.CreateTopic(ctx, r.opts.Topic); err != nil &&
			!errors.Is(err, metadata.ErrTopicExists) {
			return metadata.Broker{}, fmt.Errorf("%w: %w", ErrNotAvailable, err)
		}
		r.opts.Await(ctx, func(img *metadata.Image) bool {
			_, ok := r.leader(img, key)
			return ok
		})
	}
	if broker, ok := r.leader(r.opts.Image(), key); ok {
		return broker, nil
	}
	return metadata.Broker{}, ErrNotAvailable
}

// Lookup returns the broker that coordinates a key. It returns false if there is none now.
func (r *Runtime[S, K, A]) Lookup(key string) (metadata.Broker, bool) {
	return r.leader(r.opts.Image(), key)
}

// leader returns the leader of a key's partition. It returns false if the partition has none, or if
// the image does not list that broker.
func (r *Runtime[S, K, A]) leader(img *metadata.Image, key string) (metadata.Broker, bool) {
	topic := img.Topic(r.opts.Topic.Name)
	if topic == nil || len(topic.Partitions) == 0 {
		return metadata.Broker{}, false
	}
	return img.Broker(topic.Partitions[PartitionFor(key, len(topic.Partitions))].Leader)
}
