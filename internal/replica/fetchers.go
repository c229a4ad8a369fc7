package replica

import (
	"cmp"
	"sync"

	"golang.org/x/time/rate"

	"heartwood.dev/heartwood/internal/metadata"
)

// fetchers are the goroutines that copy what other brokers lead.
type fetchers struct {
	// held while fetchers are started and stopped, which may take as long as a leader's answer is
	// carried out
	changing sync.Mutex
	closed   bool       // changing guards it
	mu       sync.Mutex // of running; a leaf
	running  map[fetcherKey]*fetcher
}

// take returns those that go, and lists them no more.
func (s *fetchers) take(goes func(fetcherKey) bool) (gone []*fetcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, f := range s.running {
		if goes(key) {
			gone = append(gone, f)
			delete(s.running, key)
		}
	}
	return gone
}

// of returns the fetcher of a key, which is started if there is none. changing is held.
func (s *fetchers) of(key fetcherKey, start func() *fetcher) *fetcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[key] == nil {
		s.running[key] = start()
	}
	return s.running[key]
}

// follow has every partition copied from the broker that leads it, and none from one that does not
// any more. It is Apply's.
func (s *Set) follow(img *metadata.Image, partitions map[PartitionID]*partition) {
	self, up := img.Broker(s.node)
	wanted := map[fetcherKey]map[PartitionID]*pulling{}
	for id, p := range partitions {
		r := p.role.Load()
		if !up || s.dial == nil || p.log == nil || !r.follows(s.node) {
			continue
		}
		if _, leads := img.Broker(r.leader); !leads {
			continue // it is dead; another image will say who leads
		}
		key := fetcherKey{r.leader, p.log.Settings().Fsync}
		if wanted[key] == nil {
			wanted[key] = map[PartitionID]*pulling{}
		}
		wanted[key][id] = &pulling{partition: p, role: r}
	}
	s.fetchers.changing.Lock()
	defer s.fetchers.changing.Unlock()
	if s.fetchers.closed {
		return
	}
	for _, f := range s.fetchers.take(func(key fetcherKey) bool { return wanted[key] == nil }) {
		f.stop()
	}
	for key, of := range wanted {
		f := s.fetchers.of(key, func() *fetcher { return s.startFetcher(key) })
		leader, _ := img.Broker(key.leader)
		f.assign(leader, metadata.InSync{Broker: s.node, Epoch: self.Epoch}, of)
	}
}

// synced is told that a log that follows a leader was synced. It is called by who syncs all logs,
// and waits for no fetcher.
func (s *fetchers) synced(leader int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.running[fetcherKey{leader, true}]; f != nil {
		signal(f.synced)
	}
}

// close stops all, for good.
func (s *fetchers) close() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.closed = true
	for _, f := range s.take(func(fetcherKey) bool { return true }) {
		f.stop()
	}
}

// configure takes over what an image says of copying, if that is new. It is Apply's.
func (s *Set) configure(now metadata.Replication) {
	if now == s.copying {
		return
	}
	s.copying = now
	s.lagMax.Store(int64(cmp.Or(now.LagMax, s.defaults.LagMax)))
	other := newCatchUp(now.CatchUpBytesRate)
	s.catchUp.SetLimit(other.Limit())
	s.catchUp.SetBurst(other.Burst())
}

// newCatchUp returns the bucket of bytes for replicas that are not in sync; a second's worth may be
// taken at once.
func newCatchUp(bytesRate int64) *rate.Limiter {
	if bytesRate <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(bytesRate), int(max(bytesRate, pullPartitionBytesMax)))
}
