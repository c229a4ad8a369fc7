package cleaner

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

const (
	// pressureBytesMin and pressureShareMin are the amounts of garbage from which a log needs a pass
	// under storage pressure: a number of bytes, or 1/pressureShareMin of the log.
	pressureBytesMin = 1 << 20
	pressureShareMin = 100
	// pressureRollBytes is the size from which an active segment is rolled under storage pressure,
	// and pressureRollInterval the minimum time between two such rolls of a log. Active segments
	// cannot be cleaned, and with default settings they alone may fill a volume.
	pressureRollBytes    = 256 << 10
	pressureRollInterval = time.Minute
	// pressureUrgency is the urgency of a log without garbage under storage pressure. Each mebibyte
	// of garbage adds 1, so the log with the most garbage is compacted first, however long other
	// logs have waited.
	pressureUrgency = 3
)

// SetPressure sets whether the volume is short of space. While it is, every log with garbage needs
// a pass, the log with the most garbage first, whatever its dirty ratio is. These passes leave no
// garbage to save I/O. Active segments are rolled, so that passes include their records.
func (c *Cleaner) SetPressure(on bool) {
	c.mu.Lock()
	c.mu.pressure = on
	for _, state := range c.mu.logs {
		state.pressure = on
	}
	c.mu.Unlock()
	c.awake()
}

// ReclaimableBytes returns the garbage in all logs, in bytes, as far as it is known. It reads the
// results of estimates and passes only.
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

// underPressure returns the garbage in bytes because of which a log needs a pass under storage
// pressure; 0: it needs none. If the garbage is unknown, half of the dirty section is assumed.
//
// Garbage of a log without dirty records was left by the last pass, such as segments for which the
// disk had no space. It is tried again after a minute.
func (in triggerInputs) underPressure(s logstore.Sections, now time.Time) int64 {
	all, garbage := s.CleanBytes+s.DirtyBytes, s.DirtyBytes/2
	if e := in.estimate; e.Known && e.Sections.Truncations == s.Truncations {
		garbage = e.Bytes
	}
	switch {
	case !in.pressure, all == 0, s.DirtyBytes == 0 && now.Before(in.garbageAfter):
		return 0
	case garbage < pressureBytesMin && garbage*pressureShareMin < all:
		return 0
	}
	return garbage
}

// rollUnderPressure rolls the active segments of compacted logs while the volume is short of space.
// It is called before the logs are viewed for the queue. A log that was rolled becomes cleanable
// with the next flush, within a second.
func (c *Cleaner) rollUnderPressure(views []logView, now time.Time) {
	for _, log := range c.rollsDue(views, now) {
		if _, err := log.Roll(); err != nil {
			c.options().Logger.Debug("failed to roll a log under storage pressure",
				"partition", log.ID(), "error", err)
		}
	}
}

// rollsDue returns the logs to roll, and records that they are rolled now. Logs are rolled without
// Cleaner.mu.
func (c *Cleaner) rollsDue(views []logView, now time.Time) (due []*logstore.Compaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.pressure || c.mu.opts.Workers == 0 {
		return nil
	}
	for _, view := range views {
		if !view.compacted() || view.Blocked[logstore.BlockedActive] < pressureRollBytes {
			continue
		}
		state := c.stateLocked(view.log, now)
		if state == nil || now.Sub(state.rolled) < pressureRollInterval {
			continue
		}
		state.rolled = now
		due = append(due, view.log)
	}
	return due
}
