package replica

import (
	"cmp"
	"sync"

	"golang.org/x/time/rate"

	"heartwood.dev/heartwood/internal/metadata"
)

// fetchers are the goroutines that copy what other brokers lead.
type fetchers struct {
	mu      sync.Mutex // of running and closed; held while fetchers are started and stopped, not while they fetch
	running map[fetcherKey]*fetcher
	closed  bool
}

// follow has every partition copied from the broker that leads it, and none from one that does not any more. It is Apply's.
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
	s.fetchers.mu.Lock()
	defer s.fetchers.mu.Unlock()
	if s.fetchers.closed {
		return
	}
	for key, f := range s.fetchers.running {
		if wanted[key] == nil {
			f.stop()
			delete(s.fetchers.running, key)
		}
	}
	for key, of := range wanted {
		f := s.fetchers.running[key]
		if f == nil {
			f = s.startFetcher(key)
			s.fetchers.running[key] = f
		}
		leader, _ := img.Broker(key.leader)
		f.assign(leader, metadata.InSync{Broker: s.node, Epoch: self.Epoch}, of)
	}
}

// synced is told that a log that follows a leader was synced.
func (s *fetchers) synced(leader int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.running[fetcherKey{leader, true}]; f != nil {
		signal(f.synced)
	}
}

// close stops all, for good.
func (s *fetchers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for key, f := range s.running {
		f.stop()
		delete(s.running, key)
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

// newCatchUp returns the bucket of bytes for replicas that are not in sync; a second's worth may be taken at once.
func newCatchUp(bytesRate int64) *rate.Limiter {
	if bytesRate <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(bytesRate), int(max(bytesRate, pullPartitionBytesMax)))
}
