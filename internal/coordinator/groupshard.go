package coordinator

import (
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/coordinator/state"
)

// groupShard is the runtime.Machine for the groups of one partition. It adds metrics, and the
// settings and topics from the metadata image, to the pure group.State.
type groupShard struct {
	*group.State
	groups *Groups

	configured settings // LogCluster settings that State uses
	expired    uint64   // number of expired offsets that the metric already includes

	// The metrics collector reads the following fields from another goroutine.
	offsets atomic.Int64
	phases  atomic.Pointer[map[string]int] // numbers of groups by phase name
}

func (g *Groups) newShard(timers state.Timers[group.TimerKey]) *groupShard {
	s := &groupShard{State: group.New(g.configFor(settings{}), timers), groups: g}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loaded[s] = struct{}{}
	return s
}

// Close implements runtime.Machine.
func (s *groupShard) Close() {
	s.groups.mu.Lock()
	defer s.groups.mu.Unlock()
	delete(s.groups.loaded, s)
}

// Loaded implements runtime.Machine. It checks the offsets of all topics, because topics may have
// been deleted while the partition was not loaded by any coordinator.
func (s *groupShard) Loaded(now time.Time, d runtime.Delta) group.Output {
	s.configure(settingsOf(d.Image)) // called first, because State.Loaded starts sessions
	s.State.Loaded(now)
	return s.deleteStaleOffsets(d)
}

// ApplyMetadata implements runtime.Machine.
func (s *groupShard) ApplyMetadata(_ time.Time, d runtime.Delta) group.Output {
	s.configure(settingsOf(d.Image))
	if !slices.ContainsFunc(slices.Collect(maps.Keys(d.Changed)), s.KnowsTopic) {
		return group.Output{}
	}
	return s.deleteStaleOffsets(d)
}

func (s *groupShard) configure(now settings) {
	if s.configured.differ(now) {
		s.configured = now
		s.Configure(s.groups.configFor(now))
	}
}

func (s *groupShard) deleteStaleOffsets(d runtime.Delta) group.Output {
	return s.DeleteStaleOffsets(func(topic string, id [16]byte) bool { return stale(d, topic, id) })
}

// stale reports whether an offset that was committed for the given topic id must be deleted,
// because the topic was deleted together with its records. A topic may also have been deleted and
// created again while the partition was not loaded by any coordinator. The topic id shows this: an
// offset with another id is stale, unless the new topic's reclaim policy is Retain, because the new
// topic may then have adopted the old records. If no topic has the name, the offset is kept until
// it expires.
func stale(d runtime.Delta, topic string, id [16]byte) bool {
	current := d.Image.Topic(topic)
	switch {
	case current != nil && current.ID == id:
		return false
	case d.Deleted[topic]:
		return true
	default:
		return current != nil && id != [16]byte{} && !current.RetainData
	}
}

// Measure implements runtime.Machine. It counts the groups by phase only if sample is set, because
// this visits every group.
func (s *groupShard) Measure(sample bool) {
	s.offsets.Store(int64(s.Offsets()))
	expired := s.Expired()
	s.groups.metrics.expired.Add(float64(expired - s.expired))
	s.expired = expired
	if sample {
		counts := map[string]int{}
		s.CountPhases(counts)
		s.phases.Store(&counts)
	}
}

// LogValue implements runtime.Machine.
func (s *groupShard) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("groups", s.Groups()), slog.Int("offsets", s.Offsets()))
}
