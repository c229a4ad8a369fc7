package fault

import (
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// TestFirstFailureStopsTheLog checks that a log that fails several times stops once and reports
// this once, with the first cause.
func TestFirstFailureStopsTheLog(t *testing.T) {
	var mu sync.Mutex
	var reported []error
	f := State{Logger: slog.New(slog.DiscardHandler), Mu: &mu,
		Failed: func(_ checkpoint.PartitionID, err error) { reported = append(reported, err) }}
	if f.Err() != nil || f.StoppedLocked() != nil {
		t.Fatalf("a new log: %v, %v", f.Err(), f.StoppedLocked())
	}
	f.Fail(syscall.EIO)
	f.Fail(syscall.EROFS)
	mu.Lock() // neither method waits for the log's lock
	defer mu.Unlock()
	for name, err := range map[string]error{"fault": f.Err(), "stopped": f.StoppedLocked()} {
		if !errors.Is(err, segmentlist.ErrStorage) || !errors.Is(err, syscall.EIO) ||
			errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(reported) != 1 || !errors.Is(reported[0], syscall.EIO) {
		t.Errorf("reported %v", reported)
	}
}

// TestClosedLogHasNoFault checks that closing a log is not a fault, and a failure after the close
// is not reported.
func TestClosedLogHasNoFault(t *testing.T) {
	var mu sync.Mutex
	f := State{Logger: slog.New(slog.DiscardHandler), Mu: &mu,
		Failed: func(_ checkpoint.PartitionID, err error) { t.Errorf("reported %v", err) }}
	f.CloseLocked()
	f.Fail(syscall.EIO)
	if f.Err() != nil || !errors.Is(f.StoppedLocked(), segmentlist.ErrClosed) {
		t.Errorf("fault %v, stopped %v", f.Err(), f.StoppedLocked())
	}
}
