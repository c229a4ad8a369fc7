package replica

import (
	"context"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// sessions contains the fetch sessions of the consumers and followers that fetch from this broker.
type sessions struct {
	set   *Set
	cache sessionCache
	watch sessionWatch
}

// FetchResponse is the response to a fetch that may be part of a session.
type FetchResponse struct {
	Session int32 // session id; 0 if there is no session
	// Results contains all requested partitions if there is no session, and in a consumer's first
	// fetch of a session. Otherwise it contains only the partitions that have something to report.
	Results []FetchResult
}

// FetchInSession is like Fetch, for a request that may start, continue or close a session
// (KIP-227). A fetch that continues a session names only the partitions whose request has changed,
// and the partitions that it removes. FetchInSession fails with session.ErrNotFound,
// session.ErrEpoch or session.ErrTopicIDs; after such an error nothing has changed. A follower
// receives only the partitions that have something to report, with or without a session.
func (s *Set) FetchInSession(ctx context.Context, req FetchRequest) (FetchResponse, error) {
	now := time.Now()
	if req.Session.Full() && req.Session.ID != 0 {
		s.sessions.close(s.sessions.cache.get(req.Session.ID))
	}
	var in *fetchSession
	switch req.Session.Epoch {
	case session.None:
	case session.New:
		in = s.sessions.open(&req, now)
	default:
		if in = s.sessions.cache.get(req.Session.ID); in == nil || !in.belongsTo(req.Replica) {
			return FetchResponse{}, session.ErrNotFound
		}
		if in.topicIDs != req.TopicIDs {
			return FetchResponse{}, session.ErrTopicIDs
		}
	}
	if in == nil {
		return FetchResponse{Results: s.Fetch(ctx, req)}, nil
	}
	if err := in.begin(ctx, req.Session); err != nil {
		if in.isClosed() {
			s.sessions.clear(in)
		}
		return FetchResponse{}, err
	}
	defer s.sessions.endFetch(in)
	return s.sessions.fetch(ctx, in, &req, now)
}

// open starts a session for a request, or returns nil if the cache has no room. It also closes the
// sessions that the cache evicts, and the sessions of the follower's earlier broker epochs.
func (s *sessions) open(req *FetchRequest, now time.Time) *fetchSession {
	opened, evicted := s.cache.add(req.Replica, len(req.Partitions), now)
	for _, out := range append(evicted, s.cache.removeEarlier(req.Replica)...) {
		s.finish(out)
	}
	if opened != nil {
		opened.topicIDs = req.TopicIDs
	}
	return opened
}

// endFetch ends one fetch of a session.
func (s *sessions) endFetch(in *fetchSession) {
	in.fetchLock <- struct{}{}
	if in.isClosed() {
		s.clear(in)
	}
}

// close closes a session. It does nothing if in is nil.
func (s *sessions) close(in *fetchSession) {
	if in != nil && s.cache.remove(in) {
		s.finish(in)
	}
}

// finish ends a session. It is called once for each session that the cache has removed.
func (s *sessions) finish(in *fetchSession) {
	close(in.closed)
	in.interrupt()
	s.clear(in)
}

// clear removes the partitions of a closed session. If a fetch of the session is in progress, they
// are removed when that fetch ends. clear acquires fetchLock and does not release it, because a
// closed session accepts no fetches.
func (s *sessions) clear(in *fetchSession) {
	select {
	case <-in.fetchLock:
		for _, p := range in.partitions {
			s.removePartition(p)
		}
	default:
	}
}

// removePartition removes a partition from its session.
func (s *sessions) removePartition(sp *sessionPartition) {
	p, follower := s.set.view.Load().partitions[sp.request.ID], sp.session.follower
	if p != nil && follower != nil {
		if r := p.role.Load(); r.leaderState != nil {
			r.leaderState.sessionClosed(follower.Broker, &sp.session.lastFetch)
		}
	}
	s.watch.remove(sp)
	sp.session.remove(sp)
}

// markConsumers marks a partition dirty in consumers' sessions, and wakes their waiting fetches.
func (s *sessions) markConsumers(id PartitionID) { s.watch.mark(id, false, true) }

// markFollowers marks a partition dirty in followers' sessions. If wake is set, it also wakes their
// waiting fetches.
func (s *sessions) markFollowers(id PartitionID, wake bool) { s.watch.mark(id, true, wake) }

// markImage marks the partitions that an image has changed as dirty in all sessions, and wakes the
// waiting fetches.
func (s *sessions) markImage(changed []PartitionID) {
	if len(changed) == 0 {
		return
	}
	s.watch.markEach(changed)
	for _, in := range s.cache.all() {
		in.wake()
	}
}

// markAllOf makes a follower's next fetch mark all its partitions dirty.
func (s *sessions) markAllOf(broker int32) {
	for _, in := range s.cache.all() {
		if in.follower != nil && in.follower.Broker == broker {
			in.markAllNext.Store(true)
		}
	}
}

// sessionCache is a session.Cache with a lock. The lock is a leaf.
type sessionCache struct {
	mu    sync.Mutex
	cache session.Cache[*fetchSession]
}

func (c *sessionCache) add(follower *metadata.InSync, size int,
	now time.Time) (opened *fetchSession, evicted []*fetchSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	opened, evicted, _ = c.cache.Add(follower, size, now,
		func(id int32) *fetchSession { return newFetchSession(id, follower) })
	return opened, evicted
}

func (c *sessionCache) removeEarlier(follower *metadata.InSync) []*fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cache.RemoveEarlier(follower)
}

func (c *sessionCache) get(id int32) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cache.Get(id)
}

// use updates the time at which a session was last used, and its number of partitions. It reports
// whether the cache has room for these partitions.
func (c *sessionCache) use(s *fetchSession, size int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cache.Use(s.id, s, size, now)
}

func (c *sessionCache) remove(s *fetchSession) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cache.Remove(s.id, s)
}

func (c *sessionCache) all() []*fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cache.All()
}

// sessionWatch maps partition ids to the partitions of all sessions.
type sessionWatch struct {
	mu         sync.RWMutex
	partitions map[PartitionID][]*sessionPartition // lists by partition id; no list is empty
}

func (w *sessionWatch) add(p *sessionPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.partitions == nil {
		w.partitions = map[PartitionID][]*sessionPartition{}
	}
	p.watched = true
	w.partitions[p.request.ID] = append(w.partitions[p.request.ID], p)
}

func (w *sessionWatch) remove(p *sessionPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !p.watched {
		return
	}
	p.watched = false
	list := w.partitions[p.request.ID]
	for i, other := range list {
		if other == p {
			list[i] = list[len(list)-1]
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			break
		}
	}
	if w.partitions[p.request.ID] = list; len(list) == 0 {
		delete(w.partitions, p.request.ID)
	}
}

// mark marks a partition dirty in the sessions of followers or, if followers is false, of
// consumers. It copies the list, because a fetch that it wakes may change the list.
func (w *sessionWatch) mark(id PartitionID, followers, wake bool) {
	var few [8]*sessionPartition
	w.mu.RLock()
	list := append(few[:0], w.partitions[id]...)
	w.mu.RUnlock()
	for _, p := range list {
		if followers == (p.session.follower != nil) {
			p.session.mark(p, wake)
		}
	}
}

// markEach marks partitions dirty in all sessions without waking fetches. It holds mu throughout.
func (w *sessionWatch) markEach(ids []PartitionID) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, id := range ids {
		for _, p := range w.partitions[id] {
			p.session.mark(p, false)
		}
	}
}
