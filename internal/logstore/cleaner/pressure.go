package cleaner

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore/compaction"
)

const (
	// pressureBytesMin is the minimum garbage, in bytes, for which a log needs a pass under storage
	// pressure. The garbage must also exceed a share of the log, in percent: severeGarbageMin under
	// severe pressure, otherwise pressureGarbageMax, which is also the garbage that the pass may
	// leave. Without this share, a large log with random updates would be rewritten repeatedly.
	pressureBytesMin   = 1 << 20
	pressureGarbageMax = 5
	severeGarbageMin   = 1
	// pressureRetry is the minimum time between the end of a pass and the next pass over the same
	// log because of storage pressure.
	pressureRetry = 10 * time.Second
	// pressureRollBytes is the minimum size of an active segment that is rolled under storage
	// pressure. pressureRollInterval is the minimum time between two such rolls of a log. Active
	// segments cannot be cleaned, and with default settings active segments alone can fill a volume.
	pressureRollBytes    = 256 << 10
	pressureRollInterval = time.Minute
	// pressureUrgency is the urgency of a log without garbage under storage pressure. Each mebibyte
	// of garbage adds 1, so the log with the most garbage is compacted first, however long other
	// logs have waited.
	pressureUrgency = 3
)

// Pressure is the degree to which the volume lacks free space.
type Pressure int

// The values of Pressure.
const (
	NoPressure Pressure = iota
	// Moderate means that every log with more than 5 % of garbage needs a pass, which leaves at
	// most 5 %.
	Moderate
	// Severe means that every log with more than 1 % of garbage needs a pass, which leaves none.
	Severe
)

// SetPressure sets the storage pressure on the volume. Under pressure, logs with garbage need a
// pass regardless of their dirty ratios, and the log with the most garbage is first. Active
// segments are rolled, so passes can include their records.
func (c *Cleaner) SetPressure(pressure Pressure) {
	c.mu.Lock()
	c.mu.pressure = pressure
	for _, state := range c.mu.logs {
		state.pressure = pressure
	}
	c.mu.Unlock()
	c.awake()
}

// ReclaimableBytes returns the garbage in all logs, in bytes, as far as it is known. It reads only
// the results of estimates and passes.
func (c *Cleaner) ReclaimableBytes() (bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.mu.logs {
		switch {
		case state.running() && state.progress.Measured:
			bytes += max(0, state.progress.ReclaimableBytes)
		case state.estimate.Known:
			bytes += state.estimate.Bytes
		}
	}
	return bytes
}

// underPressure returns the garbage in bytes for which a log needs a pass under storage pressure,
// or 0 if the log needs none. If the garbage is unknown, half of the dirty section is assumed.
//
// If a log has no dirty records, the last pass has left its garbage, for example because the disk
// had no space for a segment. Then the next attempt follows after a minute.
func (in triggerInputs) underPressure(s compaction.Sections, now time.Time) int64 {
	all, garbage := s.CleanBytes+s.DirtyBytes, s.DirtyBytes/2
	if e := in.estimate; e.Known && e.Sections.Truncations == s.Truncations {
		garbage = e.Bytes
	}
	switch {
	case in.pressure == NoPressure, all == 0, now.Before(in.pressureAfter),
		s.DirtyBytes == 0 && now.Before(in.garbageAfter):
		return 0
	case garbage < pressureBytesMin, garbage*100 <= all*in.pressure.leastGarbage():
		return 0
	}
	return garbage
}

// leastGarbage returns the share of garbage, in percent, above which a log needs a pass.
func (p Pressure) leastGarbage() int64 {
	if p >= Severe {
		return severeGarbageMin
	}
	return pressureGarbageMax
}

// rollActive rolls the active segments of the logs that rollsDue returns, because only the records
// of rolled segments become cleanable. It is called before the logs are viewed for the queue. The
// records of a rolled segment become cleanable with the next flush, within a second.
func (c *Cleaner) rollActive(views []logView, now time.Time) {
	for _, log := range c.rollsDue(views, now) {
		if _, err := log.Roll(); err != nil {
			c.options().Logger.Debug("failed to roll a log before a pass", "partition", log.ID(),
				"error", err)
		}
	}
}

// rollsDue returns the logs to roll, and records the time of the roll. These are logs with a large
// active segment while the volume is short of space, and logs whose active segment contains records
// deleted by DeleteRecords. The caller rolls the logs without holding Cleaner.mu.
func (c *Cleaner) rollsDue(views []logView, now time.Time) (due []*compaction.Compaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.opts.Workers == 0 {
		return nil
	}
	for _, view := range views {
		large := c.mu.pressure != NoPressure &&
			view.Blocked[compaction.BlockedActive] >= pressureRollBytes
		if !view.compacted() || !large && !view.DeletedActive {
			continue
		}
		state := c.stateLocked(view.log, now)
		if state == nil || now.Sub(state.rolled) < pressureRollInterval {
			continue
		}
		if moment := state.tombstonesDue(view); !large && (moment.IsZero() || now.Before(moment)) {
			continue
		}
		state.rolled = now
		due = append(due, view.log)
	}
	return due
}
