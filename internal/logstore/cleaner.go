package logstore

import (
	"log/slog"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// CleanerOptions of a Cleaner.
type CleanerOptions struct {
	Workers     int           // default 1; 0 from the user means none: pass -1
	MemoryBytes int64         // for all workers together; default 128 MiB
	IOBytesRate int64         // reads plus writes a second; 0: no limit
	Interval    time.Duration // how often logs are looked at; default 1 s
	Logger      *slog.Logger
}

// Cleaner cleans the logs of a store in the background: it picks the dirtiest, one worker a log, and quarantines what fails.
type Cleaner struct{}

// NewCleaner starts a cleaner on a store; Close stops it, within a second, and joins its goroutines.
func NewCleaner(store *Store, opts CleanerOptions) *Cleaner { panic("unwritten") }

// Configure puts a new budget into effect for the next pass.
func (c *Cleaner) Configure(opts CleanerOptions) { panic("unwritten") }

// Status returns what the cleaner knows of a log; nil if the log is not compacted.
func (c *Cleaner) Status(id PartitionID) *report.Compaction { panic("unwritten") }

// Close stops the cleaner.
func (c *Cleaner) Close() { panic("unwritten") }
