package logstore

import (
	"context"

	"heartwood.dev/heartwood/internal/logstore/clean"
)

// compact runs one pass over a log.
func compact(ctx context.Context, log *Log) (clean.Stats, error) {
	c := log.Compaction()
	return c.Pass(ctx, PassOptions{Settings: c.Settings(), MemoryBytes: 1 << 20})
}
