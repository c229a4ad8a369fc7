package replica

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// reportStopped reports a broker's stopped logs, as ReportServing does. left is true if the broker
// has left the ISR.
func (n *nodes) reportStopped(id int32) (left bool) {
	n.t.Helper()
	served, err := n.nodes[id].Apply(n.meta.image())
	if err != nil && !errors.Is(err, logstore.ErrStorage) {
		n.t.Error(err)
	}
	if len(served) != 1 || !served[0].Stopped {
		return false
	}
	n.change(func(p *metadata.Partition) {
		if len(p.ISR) > 1 {
			p.ISR = slices.DeleteFunc(slices.Clone(p.ISR),
				func(member int32) bool { return member == id })
			p.PartitionEpoch++
			left = true
		}
	})
	return left
}

// updatesSent returns the number of leaders' ISR updates that have succeeded.
func (n *nodes) updatesSent() int {
	n.meta.mu.Lock()
	defer n.meta.mu.Unlock()
	return len(n.meta.updates)
}

// TestStoppedFollowerLeavesWithoutWrites checks that a follower whose log stops in a partition
// without writes leaves the ISR and is not added again, so that the next write does not wait for
// it. After a restart its log works, and the follower must join the ISR.
func TestStoppedFollowerLeavesWithoutWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 3, nil)
		n.mustProduce(1, "a", "b", "c")
		n.settle(time.Hour)
		n.log(3).Fail(errDisk)
		if !n.reportStopped(3) {
			t.Fatal("broker 3 has not left the ISR")
		}
		before := n.updatesSent()
		n.apply(1, 2)
		n.settle(time.Hour)
		n.wantISR(1, 2)
		if n.reportStopped(3) || n.updatesSent() != before {
			t.Error("broker 3 was added to the ISR again")
		}
		begin := time.Now()
		n.mustProduce(1, "d")
		if took := time.Since(begin); took > time.Second {
			t.Errorf("a write has waited %v for a follower that is not in sync", took)
		}
		n.crash(3, false)
		n.start(3)
		n.apply()
		n.settle(time.Minute)
		n.wantISR(1, 2, 3)
		n.equal(1, 3)
	})
}

// TestStoppedFollowerIsRemovedDuringWrites checks that the leader accepts the removal of a follower
// whose log stops while a producer writes. The next write must not wait for the lag time.
func TestStoppedFollowerIsRemovedDuringWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 3, nil)
		n.mustProduce(1, "a")
		n.log(3).Fail(errDisk)
		waiting := n.nodes[1].Append(AcksAll, []ProducePartition{{ID: partitionA,
			Batch: batch(t, "b")}})
		if !n.reportStopped(3) {
			t.Fatal("broker 3 has not left the ISR")
		}
		begin := time.Now()
		n.apply(1, 2)
		if r := waiting.Wait(t.Context(), time.Minute)[0]; r.Err != nil {
			t.Error(r.Err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the write was acknowledged %v after the removal", took)
		}
		n.settle(time.Minute)
		n.wantISR(1, 2)
	})
}

// TestStoppedFollowerDoesNotReturnWithOtherPartitions checks that a follower whose log has stopped
// is not added to the ISR because of its fetches of another partition in the same session, whenever
// the leader evaluates the ISR.
func TestStoppedFollowerDoesNotReturnWithOtherPartitions(t *testing.T) {
	for i := range 10 {
		synctest.Test(t, func(t *testing.T) {
			n := newNodes(t, 2, manyPartitions(2))
			produce := func() {
				n.settle(10 * time.Millisecond)
				batches := []ProducePartition{{ID: id("a", 1), Batch: batch(t, "x")}}
				if r := n.nodes[1].Append(AcksAll, batches).Wait(t.Context(),
					time.Minute)[0]; r.Err != nil {
					t.Error(r.Err)
				}
			}
			for range 100 + 10*i {
				produce()
			}
			n.log(2).Fail(errDisk)
			synctest.Wait()
			if !n.reportStopped(2) {
				t.Fatal("broker 2 has not left the ISR")
			}
			before := n.updatesSent()
			n.apply(1)
			for range 200 {
				produce()
			}
			n.wantISR(1)
			if n.updatesSent() != before {
				t.Error("broker 2 was added to the ISR again")
			}
		})
	}
}

// TestStoppedLogDoesNotLead checks that a broker reports its stopped log if it leads, if it is
// elected before its report is recorded, and if it is the last ISR member.
func TestStoppedLogDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2, nil)
		n.mustProduce(1, "a")
		n.settle(time.Second)
		n.log(1).Fail(errDisk)
		served, err := n.nodes[1].Apply(n.meta.image())
		if err != nil || len(served) != 1 || !served[0].Stopped {
			t.Errorf("the leader reported %+v, %v", served, err)
		}
		n.log(2).Fail(errDisk)
		n.change(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = 2, p.LeaderEpoch+1 })
		if !n.reportStopped(2) {
			t.Error("the elected broker has not left the ISR")
		}
		if r := n.produce(2, "b"); !errors.Is(r.Err, logstore.ErrStorage) {
			t.Errorf("produce: %v", r.Err)
		}
		n.change(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = 1, p.LeaderEpoch+1 })
		if n.reportStopped(1) {
			t.Error("the last member has left")
		}
		n.wantISR(1)
	})
}

// TestLogThatCannotBeOpenedIsReported checks that a broker reports an in-sync replica whose log
// cannot be opened after a restart. After another restart the log can be opened, and the broker
// must join the ISR again.
func TestLogThatCannotBeOpenedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2, nil)
		n.mustProduce(1, "a")
		n.settle(time.Second)
		n.crash(2, false)
		disk := vfs.NewFault(n.nodes[2].disk)
		disk.Inject(vfs.Rule{Op: vfs.OpReadDir, Name: "a-0"})
		n.nodes[2].through = disk
		n.start(2)
		if !n.reportStopped(2) {
			t.Fatal("broker 2 has not left the ISR")
		}
		n.apply(1)
		n.settle(time.Hour)
		n.wantISR(1)
		n.crash(2, false)
		disk.Clear()
		n.start(2)
		n.apply()
		n.settle(time.Minute)
		n.wantISR(1, 2)
	})
}
