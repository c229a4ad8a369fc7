package replica

import (
	"sync"

	"heartwood.dev/heartwood/internal/metadata"
)

// fetchers contains a broker's fetchers: one for each leader and durability.
type fetchers struct {
	set  *Set
	dial Dial // nil if the set follows no leader
	// changing is held while fetchers are started and stopped. Stopping a fetcher can take as long as
	// applying a response.
	changing sync.Mutex
	closed   bool       // guarded by changing
	mu       sync.Mutex // guards running; a leaf
	running  map[fetcherKey]*fetcher
}

// remove removes and returns the fetchers with a matching key.
func (s *fetchers) remove(matches func(fetcherKey) bool) (removed []*fetcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, f := range s.running {
		if matches(key) {
			removed = append(removed, f)
			delete(s.running, key)
		}
	}
	return removed
}

// getOrStart returns the fetcher with a key, and starts it if it is not running. The caller holds
// changing.
func (s *fetchers) getOrStart(key fetcherKey) *fetcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[key] == nil {
		s.running[key] = startFetcher(s.set, key)
	}
	return s.running[key]
}

// follow makes the fetchers copy every followed partition from its current leader, and from no
// other broker. The applier calls it.
func (s *fetchers) follow(img *metadata.Image, partitions map[PartitionID]*partition) {
	node := s.set.node
	self, up := img.Broker(node)
	byFetcher := map[fetcherKey]map[PartitionID]*followedPartition{}
	for id, p := range partitions {
		r := p.role.Load()
		if !up || s.dial == nil || p.log == nil || !r.follows(node) {
			continue
		}
		if _, up := img.Broker(r.leader); !up {
			continue // the leader is down, and a later image will name another one
		}
		key := fetcherKey{r.leader, p.log.Settings().Fsync}
		if byFetcher[key] == nil {
			byFetcher[key] = map[PartitionID]*followedPartition{}
		}
		byFetcher[key][id] = &followedPartition{partition: p, role: r}
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed {
		return
	}
	for _, f := range s.remove(func(key fetcherKey) bool { return byFetcher[key] == nil }) {
		f.stop()
	}
	for key, followed := range byFetcher {
		leader, _ := img.Broker(key.leader)
		s.getOrStart(key).setPartitions(leader, metadata.InSync{Broker: node, Epoch: self.Epoch},
			followed)
	}
}

// logSynced notifies a leader's fetcher that one of its logs has been synced. It does not wait for
// the fetcher, because it is called by the goroutine that syncs all logs.
func (s *fetchers) logSynced(leader int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.running[fetcherKey{leader, true}]; f != nil {
		signal(f.synced)
	}
}

// logStopped notifies a leader's fetchers that the log of one of their partitions has stopped.
func (s *fetchers) logStopped(leader int32, id PartitionID) {
	s.mu.Lock()
	running := []*fetcher{s.running[fetcherKey{leader, false}], s.running[fetcherKey{leader, true}]}
	s.mu.Unlock()
	for _, f := range running {
		if f != nil {
			f.logStopped(id)
		}
	}
}

// close stops all fetchers. No fetcher can be started afterwards.
func (s *fetchers) close() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.closed = true
	for _, f := range s.remove(func(fetcherKey) bool { return true }) {
		f.stop()
	}
}
