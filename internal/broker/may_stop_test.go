package broker

import (
	"errors"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// TestMayStop checks which of three brokers may stop with min.insync.replicas 2. While all replicas
// are in sync, each broker may stop. After one broker has stopped, only that broker may.
func TestMayStop(t *testing.T) {
	c := newTrio(t)
	all := Brokers(c.brokers[:])
	mayStop := func(id int32) bool {
		answer, err := all.ports().MayStop(id)
		if errors.Is(err, ErrStarting) {
			return false
		} else if err != nil {
			t.Fatal(err)
		}
		if answer.MayStop != (len(answer.Blocking) == 0) {
			t.Fatalf("broker %d: got %+v, want blocking partitions exactly if it may not stop", id,
				answer)
		}
		return answer.MayStop
	}
	c.await("all replicas to be in sync", func() bool {
		placed := all.ports().Placement([]string{"rep"}).Partitions
		return len(placed) == 2 && !slices.ContainsFunc(placed, func(p report.PlacedPartition) bool {
			return p.Lag == nil || len(p.InSyncReplicas) != 3
		})
	})
	if !mayStop(0) || !mayStop(1) || !mayStop(2) {
		t.Error("all replicas are in sync, but a broker may not stop")
	}
	if !mayStop(7) {
		t.Error("broker 7, which has no replicas, may not stop")
	}
	c.stop(2)
	all = all[:2]
	c.await("no other broker to be allowed to stop",
		func() bool { return !mayStop(0) && !mayStop(1) })
}
