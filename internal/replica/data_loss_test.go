package replica

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestTruncationKeepsRecordsBelowHighWatermark checks how broker 2 follows broker 3, which has
// copied a cleaned log and is elected. Broker 3's log has no records at the boundary between two
// epochs, so broker 3 does not know where the second epoch started. Broker 2 returns with records
// at that boundary. They are below its high watermark and superseded, so broker 2 must keep them
// until it cleans them itself. But if acknowledged records may have been lost, broker 2 must copy
// broker 3's log instead.
func TestTruncationKeepsRecordsBelowHighWatermark(t *testing.T) {
	for name, unproven := range map[string]bool{"nothing was lost": false,
		"records may have been lost": true} {
		t.Run(name, func(t *testing.T) {
			inCleanedCluster(t, 3, []int32{1, 2}, func(n *cleanedNodes) {
				n.put(1, "stays", []byte("value"))
				n.put(1, "gone", []byte("value"))
				n.settle(time.Second)
				n.stopNode(2)
				n.elect(1, 1) // begins a new leader epoch
				n.put(1, "gone", nil)
				n.put(1, "last", []byte("value"))
				n.settle(3 * time.Minute)
				n.clean(1)
				n.want(1, "gone", false, true)
				n.change(func(p *metadata.Partition) { p.Replicas = []int32{1, 2, 3} })
				n.apply()
				n.want3IsInSync()
				if found, end := n.log(3).EndOffsetFor(1); found != 1 || end != 1 {
					n.t.Fatalf("got epoch %d with end %d, want epoch 1 with end 1: the copy contains no gap", found,
						end)
				}
				n.change(func(p *metadata.Partition) {
					if unproven {
						p.UnprovenEpoch = p.LeaderEpoch + 1
					}
				})
				n.elect(3, 3)
				n.stopNode(1)
				n.apply()
				n.startNode(2)
				for range 30 {
					n.settle(time.Second)
					if slices.Contains(n.isr(), 2) {
						break
					}
				}
				n.want(2, "stays", true, false)
				n.want(2, "gone", !unproven, true)
			})
		})
	}
}

// TestReplicaCleanedWithLostRecordsIsRecopied checks a replica that has cleaned by a record that is
// then lost. Broker 2 has removed a record of a key, because a later record superseded it. Broker 1
// loses the later record in a power cut and is elected. Broker 2 must copy the earlier record
// again.
func TestReplicaCleanedWithLostRecordsIsRecopied(t *testing.T) {
	inCleanedCluster(t, 2, []int32{1, 2}, func(n *cleanedNodes) {
		n.put(1, "stays", []byte("value"))
		n.put(1, "key", []byte("value"))
		n.settle(3 * time.Second)
		disk := n.nodes.nodes[1].disk.KillClone()
		n.put(1, "key", nil)
		n.put(1, "last", []byte("value"))
		n.settle(3 * time.Minute)
		n.clean(2)
		n.want(2, "key", false, true)

		n.stopNode(1)
		n.nodes.nodes[1].disk = disk // as after a power cut that lost the last records
		n.stopNode(2)
		n.change(func(p *metadata.Partition) { p.UnprovenEpoch = p.LeaderEpoch + 1 })
		n.elect(1, 1)
		n.startNode(1)
		n.put(1, "new", []byte("value"))
		n.startNode(2)
		for range 30 {
			n.settle(time.Second)
			n.apply()
		}
		if !slices.Contains(n.isr(), 2) {
			n.t.Fatalf("ISR: %v", n.isr())
		}
		n.equal(1, 2)
		n.want(2, "key", true, false)
		n.want(2, "last", false, false)
	})
}

// TestEpochWithoutRecordsIsForgotten makes broker 2 lead briefly without appending anything. Broker
// 1, the leader before and after that, never learns of this epoch and continues with records of a
// lower epoch. Broker 2 must still be able to follow.
func TestEpochWithoutRecordsIsForgotten(t *testing.T) {
	for name, compact := range map[string]bool{"compacted": true, "not compacted": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNodes(t, 2,
					func(topic *metadata.Topic) { topic.Settings.Compact = compact })
				n.nodes[1].Append(AcksAll,
					[]ProducePartition{{ID: partitionA, Batch: keyed(t, "key", []byte("x"))}})
				n.settle(time.Second)
				n.nodes[1].disconnected.Store(true)
				n.nodes[2].disconnected.Store(true)
				n.nodes[1].Append(1,
					[]ProducePartition{{ID: partitionA,
						Batch: keyed(t, "key", []byte("only on broker 1"))}})
				elect := func(leader int32, isr ...int32) {
					n.change(func(p *metadata.Partition) {
						p.Leader, p.LeaderEpoch, p.ISR = leader,
							p.LeaderEpoch+1, isr
					})
					n.apply(2)
				}
				elect(2, 1, 2)
				elect(1, 1)
				n.nodes[1].disconnected.Store(false)
				n.nodes[2].disconnected.Store(false)
				n.apply()
				for range 30 {
					n.settle(time.Second)
					n.apply()
				}
				n.wantISR(1, 2)
				n.equal(1, 2)
			})
		})
	}
}

// TestReplicaWithGapIsRecopiedAfterLoss checks a replica with an offset gap. Broker 2 is behind and
// receives records that follow the gap. The record in the gap was superseded by a record that
// broker 2 has not received yet. Then all brokers are killed. Broker 3 is elected; it has lost the
// superseding record, but still has the record in the gap. Broker 2's log lacks that record without
// diverging from the leader's log, so broker 2 must copy the log again.
func TestReplicaWithGapIsRecopiedAfterLoss(t *testing.T) {
	for name, end := range map[string]func(n *cleanedNodes){
		"running": func(*cleanedNodes) {},
		"killed":  func(n *cleanedNodes) { n.stopNode(2) },
		"power cut": func(n *cleanedNodes) {
			n.cleaners[2].Close()
			delete(n.cleaners,
				2)
			n.crash(2, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCleanedCluster(t, 3, []int32{1, 2, 3}, func(n *cleanedNodes) {
				n.put(1, "stays", []byte("value"))
				n.settle(3 * time.Second)
				n.stopNode(2)
				n.elect(1, 1, 3)
				n.put(1, "key", []byte("value"))
				for _, key := range []string{"a", "b", "c"} {
					n.put(1, key, make([]byte, 600<<10))
				}
				n.settle(3 * time.Second)
				synced := n.nodes.nodes[3].disk.KillClone()
				n.put(1, "key", nil)
				n.put(1, "last", []byte("value"))
				n.settle(70 * time.Second)
				n.clean(1)
				n.want(1, "key", false, true)

				tokens := make(chan struct{}, 1)
				n.nodes.nodes[2].slow.Store(&tokens)
				n.startNode(2)
				for range 5 {
					tokens <- struct{}{}
					if n.settle(100 * time.Millisecond); n.log(2).LogEnd() > 2 {
						break
					}
				}
				n.want(2, "stays", true, false)
				n.want(2, "key", false, false)
				if offset := n.log(2).LogEnd(); offset <= 2 || offset >= 5 {
					n.t.Fatalf("follower's log end %d, want it behind the gap at 1 and below the "+
						"superseding record at 5", offset)
				}
				if epoch, err := n.log(2).Notes().CopyGap(); epoch != 2 || err != nil {
					n.t.Errorf("gap stored in epoch %d (%v), want 2", epoch, err)
				}

				end(n)
				n.stopNode(1)
				n.stopNode(3)
				n.nodes.nodes[3].disk = synced // as after a power cut that lost the last records
				n.change(func(p *metadata.Partition) { p.UnprovenEpoch = p.LeaderEpoch + 1 })
				n.elect(3, 3)
				n.startNode(3)
				if n.nodes.nodes[2].down {
					n.startNode(2)
				}
				close(tokens)
				for range 30 {
					if n.settle(time.Second); slices.Contains(n.isr(), 2) {
						break
					}
				}
				n.want(3, "key", true, false)
				n.want(2, "key", true, false)
				n.equal(2, 3)
				n.apply()
				if epoch, err := n.log(2).Notes().CopyGap(); epoch != -1 || err != nil {
					n.t.Errorf("in the ISR: gap stored in epoch %d (%v), want none", epoch, err)
				}
			})
		})
	}
}

// TestStaleImageDoesNotClearGap applies a stale image that shows a replica in sync, although the
// leader has since removed the replica from the ISR and cleaned. The stored gap must remain until
// an image has shown the replica out of sync, and a later image shows it in sync again.
func TestStaleImageDoesNotClearGap(t *testing.T) {
	inCleanedCluster(t, 2, []int32{1, 2}, func(n *cleanedNodes) {
		p := n.nodes.nodes[2].view.Load().partitions[partitionA]
		inSync, out := &role{inSync: true, inISR: true, leader: 1, epoch: 1,
			refusal: ErrNotLeader}, &role{leader: 1, epoch: 1, refusal: ErrNotLeader}
		n.nodes.nodes[2].Close()
		p.changing.Lock()
		defer p.changing.Unlock()
		step := func(do func() error, want int32) {
			n.t.Helper()
			if err := do(); err != nil {
				n.t.Fatal(err)
			}
			if epoch, err := p.log.Notes().CopyGap(); epoch != want || err != nil || p.gapEpoch != want {
				n.t.Errorf("gap in epoch %d, on disk %d (%v), want %d", p.gapEpoch, epoch,
					err, want)
			}
		}
		step(func() error { return p.storeGap(inSync) }, 1)
		step(func() error { return p.requireSingleSource(inSync) }, 1)
		step(func() error { return p.requireSingleSource(out) }, 1)
		step(func() error { return p.requireSingleSource(inSync) }, -1)
	})
}
