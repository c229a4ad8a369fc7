package kube

import (
	"testing"
	"time"
)

// Changes that come without a pause do not put off the image that the first of them is owed.
func TestChangesAreGatheredFromTheFirstOneOn(t *testing.T) {
	var g gathering
	if wait, first := g.change(); !first || wait != settle {
		t.Fatalf("the first change waits %s, %v", wait, first)
	}
	for range 1000 {
		if _, first := g.change(); first {
			t.Fatal("a later change begins to wait anew")
		}
	}
	g.made(50 * time.Millisecond)
	if wait, first := g.change(); !first || wait != settleShare*50*time.Millisecond {
		t.Errorf("after an image that took 50 ms the next change waits %s, %v", wait, first)
	}
}
