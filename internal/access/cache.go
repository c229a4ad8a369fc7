package access

import (
	"sync"
	"time"
)

const (
	// cacheTTL is how long a decision of the API server is cached. A withdrawn right therefore stays
	// in effect for up to cacheTTL.
	cacheTTL = 10 * time.Second
	// cacheMax is the maximum number of cached decisions.
	cacheMax = 1024
)

// question identifies a decision of the API server: a user and a right.
type question struct {
	user  string
	right Right
}

// decision is a cached answer of the API server.
type decision struct {
	allowed bool
	until   time.Time
}

// cache contains decisions of the API server. The zero value is empty. It is safe for concurrent
// use.
type cache struct {
	mu        sync.Mutex
	decisions map[question]decision
}

// get returns the cached decision on q if it is not older than cacheTTL.
func (c *cache) get(q question, now time.Time) (allowed, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, known := c.decisions[q]
	// If the clock was set back, a decision must not stay valid for longer than cacheTTL.
	if !known || !now.Before(d.until) || d.until.Sub(now) > cacheTTL {
		return false, false
	}
	return d.allowed, true
}

// put adds a decision. If the cache is full, put first removes the expired decisions, or all
// decisions if none has expired.
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
