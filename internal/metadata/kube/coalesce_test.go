package kube

import (
	"testing"
	"time"
)

// TestChangesAreCoalescedFromTheFirstOne checks that the first change starts the delay, and that
// later changes do not restart it. So a continuous stream of changes does not postpone the image.
func TestChangesAreCoalescedFromTheFirstOne(t *testing.T) {
	var c coalescer
	if delay, first := c.change(); !first || delay != minCoalesceDelay {
		t.Fatalf("first change: got delay %s, first %t", delay, first)
	}
	for range 1000 {
		if _, first := c.change(); first {
			t.Fatal("a later change started another delay")
		}
	}
	c.built(50 * time.Millisecond)
	if delay, first := c.change(); !first || delay != coalesceFactor*50*time.Millisecond {
		t.Errorf("after a build of 50 ms: got delay %s, first %t", delay, first)
	}
}
