package election

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// DefaultPreferredLeaderDelay is the time for which a preferred leader must have been able to lead
// before leadership moves back to it. The delay is long enough that a broker that soon restarts
// again is not elected in between, and short enough that leaders are balanced soon after a rolling
// restart.
const DefaultPreferredLeaderDelay = 30 * time.Second

// preferred contains, for each partition of a set, the time since which the preferred leader has
// been able to take over leadership.
type preferred map[partitionset.Key]time.Time

// observe processes a set's partitions at the time now. It returns the partitions whose leadership
// must move back now. It also returns the time after which the caller must repeat the call, or 0 if
// the result can change only after another event.
func (p preferred) observe(set *partitionset.Set, brokers map[int32]placement.BrokerState,
	topics map[string]partitionset.Topic, delay time.Duration,
	now time.Time) (due map[partitionset.Key]bool, again time.Duration) {
	for key := range p {
		if entry, _ := set.Get(key); !eligible(key, entry, brokers, topics) {
			delete(p, key)
		}
	}
	for key, entry := range set.All() {
		if !eligible(key, entry, brokers, topics) {
			continue
		}
		since, known := p[key]
		if !known {
			since, p[key] = now, now
		}
		left := delay - now.Sub(since)
		if left > 0 {
			if again == 0 || left < again {
				again = left
			}
			continue
		}
		if due == nil {
			due = map[partitionset.Key]bool{}
		}
		due[key] = true
	}
	return due, again
}

// eligible reports whether a partition's leadership can move to the preferred leader: another
// broker leads and serves, and the preferred leader is up, not in controlled shutdown, and in sync
// in its current broker epoch.
func eligible(key partitionset.Key, entry partitionset.Entry,
	brokers map[int32]placement.BrokerState, topics map[string]partitionset.Topic) bool {
	topic, exists := topics[key.Topic]
	if !exists || key.Index >= topic.Partitions || !entry.BelongsTo(topic.Tag) || !entry.Serves() {
		return false
	}
	id := entry.Assignment.Replicas[0]
	broker := brokers[id]
	return entry.State.Leader != id && broker.Liveness == placement.Up && !broker.Leaving &&
		slices.ContainsFunc(entry.State.ISR, func(m placement.InSyncReplica) bool {
			return m.Broker == id && m.Epoch == broker.Epoch
		})
}
