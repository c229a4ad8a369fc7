package logstore

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

// TestFullDiskIsLoggedWhenItBeginsAndEnds checks that a full disk causes one log message per log
// when the failures begin, and one when they end, whatever the number and kind of failures.
func TestFullDiskIsLoggedWhenItBeginsAndEnds(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	var out strings.Builder
	store, err := Open(Options{FS: fault, Dir: dataDir,
		Logger: slog.New(slog.NewTextHandler(&out, nil)), FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	log := createLog(t, store, settings(nil))
	fill(t, log, 25) // leaves two unsealed segments
	for _, name := range []string{"*.log", "*.timeindex", "*" + vfs.TemporarySuffix} {
		fault.Inject(vfs.Rule{Op: vfs.OpWrite, Name: name, Err: syscall.ENOSPC})
	}
	for range 20 {
		if _, err := log.Append(keyed(t, "k"), epoch0); err == nil {
			t.Fatal("appended to a full disk")
		}
		log.AdvanceHighWatermark(1)
		store.tick(epoch0, true)
	}
	expect := func(when string, want map[string]int) {
		t.Helper()
		for line, n := range want {
			if got := strings.Count(out.String(), line); got != n {
				t.Errorf("%s: %q is logged %d times, want %d", when, line, got, n)
			}
		}
	}
	began := map[string]int{
		`level=WARN msg="failed to append"`:                      1,
		`level=WARN msg="failed to flush, roll or expire a log"`: 1,
		`level=WARN msg="failed to write checkpoints"`:           1,
	}
	expect("on a full disk", began)
	fault.Clear()
	fill(t, log, 30)
	store.tick(epoch0, true)
	store.tick(epoch0, true)
	began[`level=INFO msg="appends succeed again" partition=tickets-0 failedAttempts=20`] = 1
	began[`level=INFO msg="log flushed again after failures" partition=tickets-0 failedAttempts=20`] = 1
	began[`level=INFO msg="checkpoint writes succeed again" failedAttempts=20`] = 1
	expect("after space was freed", began)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "level=") != 6 {
		t.Errorf("logged:\n%s", out.String())
	}
}
