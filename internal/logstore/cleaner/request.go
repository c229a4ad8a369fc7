package cleaner

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// Errors of CleanNow.
var (
	ErrUnknownPartition = errors.New("no such partition here")
	ErrNotCompacted     = errors.New("topic is not compacted")
	ErrDisabled         = errors.New("cleaner has no workers")
)

// request is a request for a pass at once; the zero value is none. It does not survive a restart.
type request struct {
	at time.Time
	// through is the log end when the request was made: the pass waits until records below it are
	// cleanable.
	through int64
	// ticket numbers the requests of a log from 1. A pass serves all tickets up to its own.
	ticket int64
}

// requestWaitMax is how long a request waits for the rolled segment to become cleanable. A
// segment that is not cleanable by then is blocked for another reason, such as minLag or an open
// transaction, and the pass skips it.
const requestWaitMax = 5 * time.Second

// ready reports whether the request's pass may start.
func (r request) ready(s logstore.Sections, now time.Time) bool {
	return s.Bound >= r.through || now.Sub(r.at) >= requestWaitMax
}

// CleanNow requests a pass over one log at once, regardless of its dirty ratio, the estimate of its
// garbage and a quarantine. The pass leaves no garbage to save I/O, and the active segment
// is rolled so that the pass includes it. CleanNow returns a ticket without waiting for the pass:
// the request is served once Status returns this ticket or a higher one as CleanNowServed.
func (c *Cleaner) CleanNow(id logstore.PartitionID) (ticket int64, err error) {
	log := c.store.Log(id)
	switch {
	case log == nil:
		return 0, fmt.Errorf("%w: %s", ErrUnknownPartition, id)
	case !log.Settings().Compact:
		return 0, fmt.Errorf("%w: %s", ErrNotCompacted, id)
	case c.options().Workers == 0:
		return 0, ErrDisabled
	}
	compaction := log.Compaction()
	end, err := compaction.Roll()
	if err != nil {
		return 0, fmt.Errorf("roll %s to clean it: %w", id, err)
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.stateLocked(compaction, now)
	if state == nil {
		return 0, fmt.Errorf("%w: %s is being replaced", logstore.ErrClosed, id)
	}
	state.asked++
	state.request, state.quarantine = request{now, end, state.asked}, quarantine{}
	c.awake()
	return state.asked, nil
}
