package runtime

import (
	"log/slog"
	"maps"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/metadata"
)

// Machine is the state machine of one shard. Only the shard's goroutine calls it. K is the type
// that identifies the machine's timers, and A is the type of an answer's result.
//
// The methods that return an Output must not change stored state themselves. The runtime appends
// the records of the Output, and then passes them to Replay.
type Machine[K comparable, A any] interface {
	// Replay applies one stored record. While the shard is loading, the runtime passes every record of
	// the log, in order. Later it passes each record of an Output after appending it. Replay returns
	// the answers to requests that were waiting for the record.
	Replay(now time.Time, key, value []byte) ([]state.Answer[A], error)
	// Loaded is called once, after all records of the log have been replayed, and before any other
	// method. The delta contains all topics that were created or deleted while the shard read the log.
	Loaded(now time.Time, d Delta) state.Output[A]
	// ApplyMetadata is called with each metadata image in which topics, or the settings of
	// coordinators (Options.ConfigChanged), have changed.
	ApplyMetadata(now time.Time, d Delta) state.Output[A]
	// Fire is called when the timer with the given key expires.
	Fire(now time.Time, key K) state.Output[A]
	// Expire returns records that delete expired state. It may return somewhat more than limit
	// records. If more is true, Expire must be called again at once. Otherwise the runtime calls
	// Expire at intervals of Options.ExpireInterval.
	Expire(now time.Time, limit int) (out state.Output[A], more bool)
	// Measure updates the shard's metrics. The runtime calls it after each event. sample is set at
	// intervals of SampleInterval; only then does Measure update metrics that are expensive to
	// compute.
	Measure(sample bool)
	// Close is called when the shard discards the machine.
	Close()
	// LogValue summarizes the state, for the log message after loading.
	slog.LogValuer
}

// TransactionalMachine is a Machine whose records may belong to producers' transactions. The
// runtime then calls ReplayAt instead of Replay. Other Machines receive no records of transactions.
type TransactionalMachine[A any] interface {
	// ReplayAt applies one stored record. If the record belongs to a transaction, it takes effect only
	// when the transaction is committed.
	ReplayAt(now time.Time, r state.Stored) ([]state.Answer[A], error)
	// ReplayMarker applies the marker that ends a transaction. The partition does not necessarily
	// contain a record of the producer.
	ReplayMarker(now time.Time, m state.Marker) ([]state.Answer[A], error)
}

// Delta contains the changes of the cluster's metadata since the machine's previous Delta. A
// deleted topic whose records are kept (reclaim policy Retain) is in neither map. If a topic is
// created again with the same name, the new topic adopts the records, and the offsets stored for
// the old topic remain valid.
type Delta struct {
	Image   *metadata.Image
	Changed map[string]bool // names of topics that were created or deleted
	Deleted map[string]bool // names of topics that were deleted together with their records
}

// deltaOf returns the changes between two metadata images, before and now. before may be nil.
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

// merge adds the topic names of another delta to d.
func (d *Delta) merge(other Delta) {
	if d.Changed == nil {
		d.Changed, d.Deleted = map[string]bool{}, map[string]bool{}
	}
	maps.Copy(d.Changed, other.Changed)
	maps.Copy(d.Deleted, other.Deleted)
}
