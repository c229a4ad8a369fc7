package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTheProcessOfABrokerIsTheLastThatStarted, and without one there is an error, never a pid that
// is somebody else's.
func TestTheProcessOfABrokerIsTheLastThatStarted(t *testing.T) {
	b := bench{output: filepath.Join(t.TempDir(), "out")}
	if _, err := b.pid(0); err == nil {
		t.Error("a file that is not there has a process")
	}
	content := "broker 0 started pid=10\nbroker 1 started pid=11\nready bootstrap=127.0.0.1:1\nbroker 0 ended: signal: killed\nbroker 0 started pid=12\n"
	if err := os.WriteFile(b.output, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for broker, want := range map[int32]int{0: 12, 1: 11} {
		if pid, err := b.pid(broker); err != nil || pid != want {
			t.Errorf("broker %d: pid %d, %v; want %d", broker, pid, err, want)
		}
	}
	if pid, err := b.pid(2); err == nil {
		t.Errorf("broker 2 never started, and has pid %d", pid)
	}
}

// TestProcessorTimeIsUserAndSystem, whatever the process is called.
func TestProcessorTimeIsUserAndSystem(t *testing.T) {
	got, err := parseProcessorTime("42 (a (b) 1 2) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0")
	if err != nil || got != 2*time.Second {
		t.Errorf("%s, %v; want 2s", got, err)
	}
	for _, bad := range []string{"", "42 (a) S 1", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 50 0"} {
		if got, err := parseProcessorTime(bad); err == nil {
			t.Errorf("%q is %s", bad, got)
		}
	}
}

// TestGapsCountFromTheFaultOn, and each on its side.
func TestGapsCountFromTheFaultOn(t *testing.T) {
	at := time.Unix(100, 0)
	b := bench{gaps: []gap{
		{0, at.Add(-time.Second), time.Hour}, {0, at.Add(time.Second), 3 * time.Second},
		{0, at.Add(2 * time.Second), time.Second},
		{1, at.Add(time.Second), 2 * time.Second},
	}}
	touched, untouched := b.worst(map[int32]bool{0: true}, at)
	if touched != 3*time.Second || untouched != 2*time.Second {
		t.Errorf("worst gaps %s and %s", touched, untouched)
	}
	if b.forget(); len(b.gaps) != 0 {
		t.Error("gaps are left")
	}
}
