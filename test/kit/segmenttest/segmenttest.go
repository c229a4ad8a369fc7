// Package segmenttest creates the segments of a log without a log, for the tests of packages that
// work on segments.
package segmenttest

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// Path is the log's directory.
const Path = "/data/tickets-0"

// Dir creates the directory durably.
func Dir(t testing.TB, fsys vfs.FS) swap.Dir {
	t.Helper()
	if err := errors.Join(fsys.MkdirAll(Path), fsys.SyncDir("/"),
		fsys.SyncDir(filepath.Dir(Path))); err != nil {
		t.Fatal(err)
	}
	return swap.Dir{FS: fsys, Path: Path, Logger: slog.New(slog.DiscardHandler),
		Config: segment.Config{Handles: vfs.NewHandles(fsys, 100)}}
}

// Segments creates a segment for each list of batches, one after the other from offset 0, and syncs
// them. The last segment is active, the others are sealed. A nil batch stands for one record with
// the key "k<offset>".
func Segments(t testing.TB, dir swap.Dir, segments ...[][]byte) (all []*segmentlist.Handle) {
	t.Helper()
	end := int64(0)
	for i, batches := range segments {
		h, err := dir.Create(end, dir.Config)
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range batches {
			if content == nil {
				content = storetest.Keyed(t, fmt.Sprintf("k%d", end))
			}
			batch := record.Batch(content)
			batch.SetBaseOffset(end)
			batch.SetLeaderEpoch(0)
			if err := h.Append(batch); err != nil {
				t.Fatal(err)
			}
			end = batch.NextOffset()
		}
		err = h.Sync()
		if i+1 < len(segments) {
			err = errors.Join(err, h.Seal())
		}
		if err = errors.Join(err, dir.Sync()); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}
