package logstore

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
)

// keys runs one of two operations on the log's key sidecars: it either builds and deletes sidecars
// as the cleaner does in the background, or opens or builds the sidecars of some segments as a pass
// does.
func (w *workload) keys(_ *partitionModel, log *Log) {
	w.freeSpace() // on a full disk a pass cannot build sidecars, and fails
	if w.random.IntN(2) == 0 {
		for log.compaction.Sidecars.BuildNext(context.Background(), time.Now(),
			sidecars.Options{Background: true}) {
		}
		w.checkKeys(log)
		return
	}
	list := log.list.Acquire()
	defer list.Release()
	for _, h := range list.Handles[:len(list.Handles)-1] {
		if !log.Settings().Compact || w.random.IntN(3) == 0 {
			continue
		}
		reader, err := log.compaction.Sidecars.OpenOrBuild(context.Background(), h.Segment,
			sidecars.Options{Background: true})
		w.must(err, "open keys")
		w.must(errors.Join(compareKeys(log, h, reader), reader.Close()), "compare keys")
	}
	log.compaction.Sidecars.Trim()
}

// checkKeys compares every key sidecar that can be opened with its segment. The sidecar must match
// the segment even after a crash.
func (w *workload) checkKeys(log *Log) {
	if !log.Settings().Compact {
		return
	}
	list := log.list.Acquire()
	defer list.Release()
	for _, h := range list.Handles[:len(list.Handles)-1] {
		reader, err := log.compaction.Sidecars.Open(h, true)
		if keys.Unusable(err) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		w.must(err, "open a sidecar")
		w.must(errors.Join(compareKeys(log, h, reader), reader.Close()),
			"compare a sidecar with its segment")
	}
}
