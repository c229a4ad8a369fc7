package partition

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DefaultPreferredLeaderDelay is the time for which a partition's preferred leader must have been
// able to lead before leadership is moved back to it. It is long enough that a broker that soon
// restarts again is not elected in between, and short enough that leaders are balanced soon after a
// rolling restart.
const DefaultPreferredLeaderDelay = 30 * time.Second

// preferredLeaders stores, for each partition, the time since which its preferred leader has been
// able to take over leadership. It is safe for concurrent use.
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

// observe processes whether a partition's preferred leader could take over leadership at the time
// now (argument eligible). The result due reports whether leadership must move back now. If due is
// false, the result again is the time after which the caller must repeat the call. It is 0 if due
// can change only after another event.
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
