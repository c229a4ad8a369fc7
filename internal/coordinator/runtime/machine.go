package runtime

import (
	"log/slog"
	"maps"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/metadata"
)

// Machine is the state machine of one shard. Only the shard's goroutine calls it. K identifies its
// timers, A is the result type of its answers.
//
// The methods that return an Output must not change stored state themselves: the runtime appends
// the records, and then passes them to Replay.
type Machine[K comparable, A any] interface {
	// Replay applies one stored record, in log order: records of the log while loading, own records
	// once they were appended. It returns the answers of requests that waited for the record.
	Replay(now time.Time, key, value []byte) ([]state.Answer[A], error)
	// Loaded is called once, after all records of the log were replayed and before any other
	// method. The delta names all topics that changed while the log was read.
	Loaded(now time.Time, d Delta) state.Output[A]
	// ApplyMetadata is called when the metadata image has changed in a way that concerns shards.
	ApplyMetadata(now time.Time, d Delta) state.Output[A]
	// Fire is called when a timer is due.
	Fire(now time.Time, key K) state.Output[A]
	// Expire removes expired state and returns about limit records at most; more is true if Expire
	// must be called again. The runtime calls it once every Options.ExpireInterval.
	Expire(now time.Time, limit int) (out state.Output[A], more bool)
	// Measure updates metrics that change with each event; if sample is set, it also updates the
	// metrics that are expensive to compute. The runtime sets sample once every SampleInterval.
	Measure(sample bool)
	// Close is called when the shard discards the machine.
	Close()
	// LogValue summarises the loaded state.
	slog.LogValuer
}

// Delta contains the changes of the cluster's metadata since the machine last received a Delta.
// Names of topics that were deleted but keep their records (reclaim policy Retain) are in neither
// map: a topic that is created again under such a name adopts the records, and the offsets stored
// for them stay valid.
type Delta struct {
	Image   *metadata.Image
	Changed map[string]bool // names of topics that were created or deleted
	Deleted map[string]bool // names of topics that were deleted with their records
}

// deltaOf compares two images; before may be nil.
func deltaOf(before, now *metadata.Image) Delta {
	d := Delta{Image: now, Changed: map[string]bool{}, Deleted: map[string]bool{}}
	if before == nil {
		return d
	}
	for _, topic := range before.Topics {
		if now.TopicByID(topic.ID) == nil && !topic.RetainData {
			d.Changed[topic.Name], d.Deleted[topic.Name] = true, true
		}
	}
	for _, topic := range now.Topics {
		if before.TopicByID(topic.ID) == nil {
			d.Changed[topic.Name] = true
		}
	}
	return d
}

// merge adds the names of another delta.
func (d *Delta) merge(other Delta) {
	if d.Changed == nil {
		d.Changed, d.Deleted = map[string]bool{}, map[string]bool{}
	}
	maps.Copy(d.Changed, other.Changed)
	maps.Copy(d.Deleted, other.Deleted)
}
