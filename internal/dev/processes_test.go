package dev

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
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
