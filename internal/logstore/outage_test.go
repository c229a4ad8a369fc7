package logstore

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
)

func TestAnOutageIsToldOnceAMinuteAtMost(t *testing.T) {
	var o outage
	for _, step := range []struct {
		after  time.Duration
		fails  bool
		tells  bool
		failed int // when its end is told
	}{
		{0, false, false, 0},
		{0, true, true, 0},
		{time.Second, true, false, 0},
		{2 * time.Minute, true, false, 0}, // one outage, however long
		{3 * time.Minute, false, true, 3},
		{3 * time.Minute, false, false, 0},
		{3*time.Minute + time.Second, true, true, 0}, // a minute after the last beginning
		{3*time.Minute + 2*time.Second, false, true, 1},
		{3*time.Minute + 3*time.Second, true, false, 0}, // it flickers
		{3*time.Minute + 4*time.Second, false, false, 0},
		{4*time.Minute + time.Second, true, true, 0},
		{4*time.Minute + 2*time.Second, false, true, 1},
	} {
		var failed int
		var tells bool
		if step.fails {
			tells = o.fail(epoch0.Add(step.after))
		} else {
			failed, tells = o.succeed()
		}
		if tells != step.tells || failed != step.failed {
			t.Errorf("after %v, fails %t: tells %t of %d failures, want %t of %d", step.after, step.fails, tells, failed, step.tells, step.failed)
		}
	}
}

// A full disk is told once for each log when it begins and once when it ends, whatever fails meanwhile and however often.
func TestAFullDiskIsToldWhenItBeginsAndWhenItEnds(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	var out strings.Builder
	store, err := Open(Options{FS: fault, Dir: dataDir, Logger: slog.New(slog.NewTextHandler(&out, nil)), FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	log := createLog(t, store, settings(nil))
	fill(t, log, 25) // two segments wait for being sealed
	for _, name := range []string{"*.log", "*.timeindex", "*" + vfs.TemporarySuffix} {
		fault.Inject(vfs.Rule{Op: vfs.OpWrite, Name: name, Err: syscall.ENOSPC})
	}
	for range 20 {
		if _, err := log.Append(keyed(t, "k"), epoch0); err == nil {
			t.Fatal("appended to a full disk")
		}
		log.AdvanceHighWatermark(1) // nothing to do with it
		store.tick(epoch0, true)
	}
	expect := func(when string, want map[string]int) {
		t.Helper()
		for line, n := range want {
			if got := strings.Count(out.String(), line); got != n {
				t.Errorf("%s: %q is told %d times, want %d", when, line, got, n)
			}
		}
	}
	began := map[string]int{
		`level=WARN msg="appends fail"`: 1, `level=WARN msg="background work on a log fails"`: 1,
		`level=WARN msg="checkpoints cannot be written"`: 1,
	}
	expect("while it is full", began)
	fault.Clear()
	fill(t, log, 30)
	store.tick(epoch0, true)
	store.tick(epoch0, true)
	began[`level=INFO msg="appends succeed again" partition=tickets-0 failed=20`] = 1
	began[`level=INFO msg="background work on a log succeeds again" partition=tickets-0 failed=20`] = 1
	began[`level=INFO msg="checkpoints are written again" failed=20`] = 1
	expect("with space again", began)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "level=") != 6 {
		t.Errorf("told:\n%s", out.String())
	}
}
