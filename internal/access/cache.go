package access

import (
	"sync"
	"time"
)

const (
	// cacheTTL is how long a decision of the API server is used. A right that is withdrawn remains
	// that long.
	cacheTTL = 10 * time.Second
	// cacheMax is the maximum number of cached decisions.
	cacheMax = 1024
)

// question is what the API server decides.
type question struct {
	user  string
	right Right
}

// decision is an answer of the API server.
type decision struct {
	allowed bool
	until   time.Time
}

// cache holds decisions of the API server. The zero value is empty. It is safe for concurrent use.
type cache struct {
	mu        sync.Mutex
	decisions map[question]decision
}

// get returns a decision that is not older than cacheTTL.
func (c *cache) get(q question, now time.Time) (allowed, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, known := c.decisions[q]
	// A clock that was set back must not make a decision valid for long.
	if !known || !now.Before(d.until) || d.until.Sub(now) > cacheTTL {
		return false, false
	}
	return d.allowed, true
}

// put adds a decision. If the cache is full, it removes the old ones or, if none is old, all.
func (c *cache) put(q question, allowed bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decisions == nil {
		c.decisions = map[question]decision{}
	}
	if len(c.decisions) >= cacheMax {
		for q, d := range c.decisions {
			if !now.Before(d.until) {
				delete(c.decisions, q)
			}
		}
	}
	if len(c.decisions) >= cacheMax {
		clear(c.decisions)
	}
	c.decisions[q] = decision{allowed, now.Add(cacheTTL)}
}
