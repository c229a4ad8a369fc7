package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPIDIsThatOfTheLastStart checks that pid returns the id of the process that a broker started
// last. If the broker has not started a process, pid must return an error, not the process id of
// another broker.
func TestPIDIsThatOfTheLastStart(t *testing.T) {
	b := bench{output: filepath.Join(t.TempDir(), "out")}
	if _, err := b.pid(0); err == nil {
		t.Error("pid without an output file returned no error")
	}
	content := "broker 0 started pid=10\nbroker 1 started pid=11\nready bootstrap=127.0.0.1:1\n" +
		"broker 0 exited: signal: killed\nbroker 0 started pid=12\n"
	if err := os.WriteFile(b.output, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for broker, want := range map[int32]int{0: 12, 1: 11} {
		if pid, err := b.pid(broker); err != nil || pid != want {
			t.Errorf("broker %d: got pid %d, %v; want %d", broker, pid, err, want)
		}
	}
	if pid, err := b.pid(2); err == nil {
		t.Errorf("broker 2, never started: got pid %d, want an error", pid)
	}
}

// TestCPUTimeIsUserAndSystem parses a line in which the process's name contains parentheses and
// spaces. The result must be the sum of user and system time.
func TestCPUTimeIsUserAndSystem(t *testing.T) {
	got, err := parseCPUTime("42 (a (b) 1 2) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0")
	if err != nil || got != 2*time.Second {
		t.Errorf("got %s, %v; want 2s", got, err)
	}
	for _, bad := range []string{"", "42 (a) S 1", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 50 0"} {
		if got, err := parseCPUTime(bad); err == nil {
			t.Errorf("parseCPUTime(%q) = %s, want an error", bad, got)
		}
	}
}

// TestWorstIgnoresGapsBeforeTheFault checks that worst ignores gaps that ended before the fault.
// For each of the two groups of partitions, it must return the longest of the other gaps.
func TestWorstIgnoresGapsBeforeTheFault(t *testing.T) {
	moment := time.Unix(100, 0)
	b := bench{gaps: []gap{
		{0, moment.Add(-time.Second), time.Hour}, {0, moment.Add(time.Second), 3 * time.Second},
		{0, moment.Add(2 * time.Second), time.Second},
		{1, moment.Add(time.Second), 2 * time.Second},
	}}
	touched, untouched := b.worst(map[int32]bool{0: true}, moment)
	if touched != 3*time.Second || untouched != 2*time.Second {
		t.Errorf("got worst gaps %s and %s, want 3s and 2s", touched, untouched)
	}
	if b.resetGaps(); len(b.gaps) != 0 {
		t.Error("resetGaps left gaps")
	}
}
