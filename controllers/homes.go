package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// homeAfter is for how long a partition's preferred leader has been able to lead when it gets the
// partition back: long enough that a broker which starts, stops and starts again moves nothing,
// short enough that a rolling restart ends with leaders spread.
const homeAfter = 30 * time.Second

// homes remembers since when each partition's preferred leader could take it back. Partitions are
// looked at at once, one never twice at a time.
type homes struct {
	after time.Duration
	mu    struct {
		sync.Mutex
		since map[types.NamespacedName]time.Time
	}
}

func newHomes(after time.Duration) *homes {
	h := &homes{after: after}
	h.mu.since = map[types.NamespacedName]time.Time{}
	return h
}

// look takes in whether a partition could go home at the time now. It tells whether it is time to,
// and if not, when to look again; zero: not before something else happens.
func (h *homes) look(key types.NamespacedName, could bool, now time.Time) (due bool,
	again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !could {
		delete(h.mu.since, key)
		return false, 0
	}
	since, waits := h.mu.since[key]
	if !waits {
		since, h.mu.since[key] = now, now
	}
	if left := h.after - now.Sub(since); left > 0 {
		return false, left
	}
	return true, 0
}
