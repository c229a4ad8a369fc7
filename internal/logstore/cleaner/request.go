package cleaner

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/compaction"
)

// Errors of CleanNow.
var (
	ErrUnknownPartition = errors.New("this broker has no log of the partition")
	ErrNotCompacted     = errors.New("topic is not compacted")
	ErrDisabled         = errors.New("cleaner has no workers")
)

// request is a request for a pass at once. The zero value means that there is no request. A request
// does not survive a restart.
type request struct {
	moment time.Time
	// through is the log end at the time of the request. The pass waits until the records below it
	// are cleanable.
	through int64
	// ticket is the number of the request. Each log's requests are numbered from 1. A pass serves
	// its own request and all earlier ones.
	ticket int64
}

// requestWaitMax is the maximum time that a request waits for the rolled segment to become
// cleanable. If the segment is not cleanable by then, another reason blocks it, such as minLag or
// an open transaction, and the pass skips the segment.
const requestWaitMax = 5 * time.Second

// ready reports whether the requested pass may start.
func (r request) ready(s compaction.Sections, now time.Time) bool {
	return s.Bound >= r.through || now.Sub(r.moment) >= requestWaitMax
}

// CleanNow requests a pass over one log at once, regardless of its dirty ratio, its estimated
// garbage and its quarantine. The pass leaves no garbage to save I/O. CleanNow rolls the log so
// that the pass includes the active segment. It does not wait for the pass but returns a ticket.
// The request is served once Status returns this ticket or a higher ticket as CleanNowServed.
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
