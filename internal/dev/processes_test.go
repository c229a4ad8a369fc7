package dev

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A process that ends by the signal that asks it to stop has not begun yet, and that is no failure; by another signal it was killed.
func TestAProcessMayEndBeforeItListensForSignals(t *testing.T) {
	for name, c := range map[string]struct {
		signal  syscall.Signal // that somebody else sends; 0: none, and the process is asked to stop
		orderly bool
	}{
		"asked to stop": {0, true}, "killed": {syscall.SIGKILL, false}, "terminated by somebody else": {syscall.SIGTERM, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			command := exec.Command("sleep", "600") // listens for nothing
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			if c.signal == 0 {
				cancel()
			} else if err := command.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if err := wait(ctx, command, nil); (err == nil) != c.orderly {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestAProcessThatEndsAtOnceIsNotStartedAtOnce: one whose directory is broken would be started a hundred times a second.
func TestAProcessThatEndsAtOnceIsNotStartedAtOnce(t *testing.T) {
	for lived, want := range map[time.Duration]time.Duration{0: restartDelay, restartDelay - 1: restartDelay, restartDelay: 0, time.Hour: 0} {
		if got := pauseAfter(lived); got != want {
			t.Errorf("after %s it stays down for %s, want %s", lived, got, want)
		}
	}
}
