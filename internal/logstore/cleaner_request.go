package logstore

import (
	"errors"
	"fmt"
	"time"
)

// What CleanNow fails with.
var (
	ErrNoLog           = errors.New("no such partition here")
	ErrNotCompacted    = errors.New("topic is not compacted")
	ErrCleanerDisabled = errors.New("cleaner has no workers")
)

// request is the wish for a pass at once, by hand; the zero value is none. It is not kept over a
// restart.
type request struct {
	at      time.Time
	through int64 // the log end when it was asked: what is below shall take part
	// its number in the log's state, from 1; it is served with all that were made before it
	ticket int64
}

// requestPatience is how long a request waits for what it asked for to be sealed. What cannot be
// cleaned by then is held back by something else, as minLag or an open transaction, and the pass
// goes over the rest.
const requestPatience = 5 * time.Second

// due tells whether the request's pass may begin.
func (r request) due(v cleanView, now time.Time) bool {
	return v.Bound >= r.through || now.Sub(r.at) >= requestPatience
}

// CleanNow asks for a pass over one log at once, whatever its dirty ratio, the estimate of its
// garbage and a quarantine say; the pass leaves no garbage for the sake of I/O. The active segment
// is rolled, so that it takes part. It returns when that is noted, with a ticket: the request was
// served when Status gives it, or a higher one, as CleanNowServed.
func (c *Cleaner) CleanNow(id PartitionID) (ticket int64, err error) {
	log := c.store.Log(id)
	switch {
	case log == nil:
		return 0, fmt.Errorf("%w: %s", ErrNoLog, id)
	case !log.Settings().Compact:
		return 0, fmt.Errorf("%w: %s", ErrNotCompacted, id)
	case c.options().Workers == 0:
		return 0, ErrCleanerDisabled
	}
	end, err := log.rollNow()
	if err != nil {
		return 0, fmt.Errorf("roll %s to clean it: %w", id, err)
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.stateLocked(log, now)
	if state == nil {
		return 0, fmt.Errorf("%w: %s is just being replaced", ErrClosed, id)
	}
	state.asked++
	state.request, state.quarantine = request{now, end, state.asked}, quarantine{}
	c.awake()
	return state.asked, nil
}

// stateLocked returns what is known of a log, nil if what is known is of its namesake, which is not
// forgotten yet. It needs Cleaner.mu.
func (c *Cleaner) stateLocked(log *Log, now time.Time) *cleanerState {
	state := c.mu.logs[log.id]
	if state == nil {
		state = &cleanerState{log: log, seen: now}
		c.mu.logs[log.id] = state
	}
	if state.log != log {
		return nil
	}
	return state
}
