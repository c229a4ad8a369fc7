package partition

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DefaultPreferredLeaderDelay is how long a partition's preferred leader must have been able to
// lead before leadership is moved back to it. It is long enough that a broker that restarts twice
// moves nothing, and short enough that leaders are balanced soon after a rolling restart.
const DefaultPreferredLeaderDelay = 30 * time.Second

// preferredLeaders records for each partition the time from which its preferred leader has been
// able to lead again. It is safe for concurrent use.
type preferredLeaders struct {
	delay time.Duration
	mu    struct {
		sync.Mutex
		since map[types.NamespacedName]time.Time
	}
}

func newPreferredLeaders(delay time.Duration) *preferredLeaders {
	p := &preferredLeaders{delay: delay}
	p.mu.since = map[types.NamespacedName]time.Time{}
	return p
}

// observe records whether a partition's preferred leader could take over leadership at the time
// now. It reports whether leadership is to move back now, and otherwise the time after which the
// caller must observe again; 0 if only another event can change the result.
func (p *preferredLeaders) observe(key types.NamespacedName, eligible bool,
	now time.Time) (due bool, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !eligible {
		delete(p.mu.since, key)
		return false, 0
	}
	since, known := p.mu.since[key]
	if !known {
		since, p.mu.since[key] = now, now
	}
	if left := p.delay - now.Sub(since); left > 0 {
		return false, left
	}
	return true, 0
}

func (p *preferredLeaders) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.since, key)
}
