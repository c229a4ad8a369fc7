package session

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// fakeSession is the type S of a Cache under test.
type fakeSession struct{ id int32 }

func open(id int32) *fakeSession { return &fakeSession{id} }

// fullCache returns a cache with SessionsMax sessions of size partitions each.
func fullCache(t *testing.T, follower *metadata.InSync, size int,
	now time.Time) (*Cache[*fakeSession], []*fakeSession) {
	t.Helper()
	var cache Cache[*fakeSession]
	var all []*fakeSession
	for range SessionsMax {
		opened, evicted, ok := cache.Add(follower, size, now, open)
		if !ok || evicted != nil {
			t.Fatalf("Add with %d sessions: ok %t, evicted %v", cache.Len(), ok, evicted)
		}
		all = append(all, opened)
	}
	return &cache, all
}

// TestCacheEvictsByKIP227 checks which session is evicted from a full cache when a new one is
// added.
func TestCacheEvictsByKIP227(t *testing.T) {
	follower := &metadata.InSync{Broker: 2, Epoch: 1}
	begin := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		existing, added *metadata.InSync
		size            int // size of the new session; each existing session has size 10
		after           time.Duration
		ok              bool
	}{
		"young sessions remain":                 {nil, nil, 1000, time.Minute, false},
		"an old smaller one is evicted":         {nil, nil, 11, 3 * time.Minute, true},
		"an old one of the same size remains":   {nil, nil, 10, 3 * time.Minute, false},
		"a follower's outranks a consumer's":    {follower, nil, 1000, 3 * time.Minute, false},
		"a follower evicts a young consumer's":  {nil, follower, 1, time.Second, true},
		"a follower does not evict a young one": {follower, follower, 1000, time.Minute, false},
		"a follower evicts an old smaller follower": {follower, follower, 1000, 3 * time.Minute,
			true},
	} {
		cache, all := fullCache(t, c.existing, 10, begin)
		now := begin.Add(c.after)
		for _, s := range all {
			cache.Use(s.id, s, 10, now)
		}
		_, evicted, ok := cache.Add(c.added, c.size, now, open)
		if ok != c.ok || (len(evicted) == 1) != c.ok || cache.Len() != SessionsMax {
			t.Errorf("%s: added %t, evicted %d, %d sessions remain", name, ok, len(evicted),
				cache.Len())
		}
	}
}

func TestCacheEvictsUnusedSessionsFirst(t *testing.T) {
	begin := time.Unix(1000, 0)
	later := begin.Add(3 * time.Minute)
	cache, all := fullCache(t, &metadata.InSync{Broker: 2, Epoch: 1}, 10, begin)
	for _, s := range all[1:] {
		cache.Use(s.id, s, 10, later)
	}
	if _, evicted, _ := cache.Add(nil, 1, later, open); len(evicted) != 1 || evicted[0] != all[0] {
		t.Errorf("evicted %v, want the unused session", evicted)
	}
	if got, want := cache.Partitions(), 10*(SessionsMax-1)+1; got != want {
		t.Errorf("%d partitions, want %d", got, want)
	}
	if _, _, ok := cache.Add(nil, PartitionsMax+1, later, open); ok {
		t.Error("added a session with more partitions than all sessions may have")
	}
}

func TestCacheRemovesEarlierBrokerEpochs(t *testing.T) {
	now := time.Unix(1000, 0)
	var cache Cache[*fakeSession]
	add := func(follower *metadata.InSync) *fakeSession {
		s, _, _ := cache.Add(follower, 1, now, open)
		return s
	}
	old := add(&metadata.InSync{Broker: 2, Epoch: 1})
	add(&metadata.InSync{Broker: 2, Epoch: 2})
	add(&metadata.InSync{Broker: 3, Epoch: 1})
	add(nil)
	if removed := cache.RemoveEarlier(&metadata.InSync{Broker: 2, Epoch: 2}); len(removed) != 1 ||
		removed[0] != old || cache.Get(old.id) != nil || cache.Len() != 3 {
		t.Errorf("removed %v, %d sessions remain", removed, cache.Len())
	}
	if cache.Remove(old.id, old) {
		t.Error("removed a session twice")
	}
}
