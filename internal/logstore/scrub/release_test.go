package scrub

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/repair"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// hangingSource is a replica that does not answer. Its reads end with the repair.
type hangingSource struct {
	reading  chan struct{}
	returned atomic.Bool
}

func (s *hangingSource) Read(ctx context.Context, _ int64) ([]byte, error) {
	close(s.reading)
	<-ctx.Done()
	s.returned.Store(true)
	return nil, fmt.Errorf("%w: %w", repair.ErrSource, ctx.Err())
}

// TestReleaseEndsARepair checks that a release or the end of the broker cancels a repair that
// waits for another replica, and that the repair has removed its files before the log has closed.
func TestReleaseEndsARepair(t *testing.T) {
	for name, end := range map[string]func(*logstore.Store) error{
		"delete": func(s *logstore.Store) error { return s.Release(tickets, false) },
		"retain": func(s *logstore.Store) error { return s.Release(tickets, true) },
		"close":  (*logstore.Store).Close,
	} {
		t.Run(name, func(t *testing.T) {
			r, sealed := filled(t)
			source := &hangingSource{reading: make(chan struct{})}
			result := make(chan error, 1)
			go func() { result <- sealed.ReplaceRecords(t.Context(), source, nil) }()
			<-source.reading
			if err := end(r.stores[0]); err != nil {
				t.Error(err)
			}
			if !source.returned.Load() {
				t.Fatal("the log was closed while a repair was running")
			}
			wantNoCleaned(t, r)
			if err := <-result; !errors.Is(err, segmentlist.ErrChanged) ||
				errors.Is(err, repair.ErrSource) {
				t.Errorf("repair of the released log: %v", err)
			}
			if err := sealed.ReplaceRecords(t.Context(), source, nil); !errors.Is(err,
				segmentlist.ErrClosed) {
				t.Errorf("repair after the release: %v", err)
			}
		})
	}
}

// wantNoCleaned fails the test if a partition's directory contains a file of a repair.
func wantNoCleaned(t *testing.T, r *replicas) {
	t.Helper()
	dirs, err := r.disks[0].ReadDir(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		// This fails for a file, and for a directory that is being deleted.
		files, _ := r.disks[0].ReadDir(filepath.Join(dataDir, dir.Name()))
		for _, file := range files {
			if strings.Contains(file.Name(), ".cleaned") {
				t.Errorf("the repair has left %s/%s", dir.Name(), file.Name())
			}
		}
	}
}
