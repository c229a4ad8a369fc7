package logstore

import (
	"context"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
)

// compact runs one pass over a log.
func compact(ctx context.Context, log *Log) (clean.Stats, error) {
	c := log.Compaction()
	return c.Pass(ctx, compaction.PassOptions{Settings: c.Settings(), MemoryBytes: 1 << 20})
}
