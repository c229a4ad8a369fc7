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

// request is the wish for a pass at once, by hand; the zero value is none. It is not kept over a restart.
type request struct {
	at      time.Time
	through int64 // the log end when it was asked: what is below shall take part
}

// requestPatience is how long a request waits for what it asked for to be sealed. What cannot be cleaned by then is held back by
// something else, as minLag or an open transaction, and the pass goes over the rest.
const requestPatience = 5 * time.Second

// due tells whether the request's pass may begin.
func (r request) due(v cleanView, now time.Time) bool {
	return !r.at.IsZero() && (v.Bound >= r.through || now.Sub(r.at) >= requestPatience)
}

// CleanNow asks for a pass over one log at once, whatever its dirty ratio, the estimate of its garbage and a quarantine say; the
// pass leaves no garbage for the sake of I/O. The active segment is rolled, so that it takes part. It returns when that is noted.
func (c *Cleaner) CleanNow(id PartitionID) error {
	log := c.store.Log(id)
	switch {
	case log == nil:
		return fmt.Errorf("%w: %s", ErrNoLog, id)
	case !log.Settings().Compact:
		return fmt.Errorf("%w: %s", ErrNotCompacted, id)
	case c.options().Workers == 0:
		return ErrCleanerDisabled
	}
	end, err := log.rollNow()
	if err != nil {
		return fmt.Errorf("roll %s to clean it: %w", id, err)
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.stateLocked(log, now)
	if state == nil {
		return fmt.Errorf("%w: %s is just being replaced", ErrClosed, id)
	}
	state.request, state.quarantine = request{now, end}, quarantine{}
	c.awake()
	return nil
}

// CleanNowTopic is CleanNow for each partition of a topic that is here, and tells how many were asked. It asks all of them, and
// returns the errors joined.
func (c *Cleaner) CleanNowTopic(topic string) (asked int, err error) {
	found := false
	for _, log := range c.store.Logs() {
		if log.id.Topic != topic {
			continue
		}
		found = true
		if failed := c.CleanNow(log.id); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		asked++
	}
	if !found {
		err = fmt.Errorf("%w: topic %s", ErrNoLog, topic)
	}
	return asked, err
}

// stateLocked returns what is known of a log, nil if what is known is of its namesake, which is not forgotten yet. It needs Cleaner.mu.
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
