package replica

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// The leader's log is a copy of a cleaned one: it has nothing between two epochs, and does not know
// where the second began. A follower that comes back has records there, all below its high
// watermark: they were superseded, and stay until it cleans them itself.
func TestWhatIsBelowTheHighWatermarkIsNotCutOff(t *testing.T) {
	for name, unproven := range map[string]bool{"nothing was lost": false,
		"records may have been lost": true} {
		t.Run(name, func(t *testing.T) {
			inCleanedCluster(t, 3, []int32{1, 2}, func(n *cleanedNodes) {
				n.put(1, "stays", []byte("value"))
				n.put(1, "gone", []byte("value"))
				n.settle(time.Second)
				n.stopNode(2)
				n.elect(1, 1) // another epoch
				n.put(1, "gone", nil)
				n.put(1, "last", []byte("value"))
				n.settle(3 * time.Minute)
				n.clean(1)
				n.want(1, "gone", false, true)
				n.change(func(p *metadata.Partition) { p.Replicas = []int32{1, 2, 3} })
				n.apply()
				n.want3IsInSync()
				if found, end := n.log(3).EndOffsetFor(1); found != 1 || end != 1 {
					n.t.Fatalf("the copy's epoch %d ends at %d, want 1: then it has no gap", found,
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

// A follower has cleaned a record away for the sake of a later one, which the leader has lost: it
// has to have the earlier one again.
func TestAReplicaThatWasCleanedWithWhatWasLostBeginsAnew(t *testing.T) {
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
		n.nodes.nodes[1].disk = disk // the power went, and this is what had been synced
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
			n.t.Fatalf("in sync are %v", n.isr())
		}
		n.equal(1, 2)
		n.want(2, "key", true, false)
		n.want(2, "last", false, false)
	})
}

// A broker leads for a moment, in which nothing is appended, and the leader of before and after
// does not hear of it: it goes on with records of an epoch below that one. Who led meanwhile
// follows.
func TestAnEpochWithoutRecordsKeepsNobodyFromFollowing(t *testing.T) {
	for name, compact := range map[string]bool{"compacted": true, "not compacted": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNodes(t, 2,
					func(topic *metadata.Topic) { topic.Settings.Compact = compact })
				n.nodes[1].Append(AcksAll,
					[]ProducePartition{{ID: partitionA, Batch: keyed(t, "of", []byte("all"))}})
				n.settle(time.Second)
				n.nodes[1].cut.Store(true)
				n.nodes[2].cut.Store(true)
				n.nodes[1].Append(1,
					[]ProducePartition{{ID: partitionA, Batch: keyed(t, "of", []byte("1 alone"))}})
				lead := func(leader int32, isr ...int32) {
					n.change(func(p *metadata.Partition) {
						p.Leader, p.LeaderEpoch, p.ISR = leader,
							p.LeaderEpoch+1, isr
					})
					n.apply(2)
				}
				lead(2, 1, 2)
				lead(1, 1)
				n.nodes[1].cut.Store(false)
				n.nodes[2].cut.Store(false)
				n.apply()
				for range 30 {
					n.settle(time.Second)
					n.apply()
				}
				if isr := n.isr(); !slices.Equal(isr, []int32{1, 2}) {
					t.Errorf("in sync are %v, want all", isr)
				}
				n.equal(1, 2)
			})
		})
	}
}

// A follower is behind, and is sent something behind a gap: what stood there was superseded by a
// record that is still to come. All are killed, and who is elected has lost that record, and has
// what stood there. The follower's log parts nowhere from the leader's, and lacks it.
func TestAReplicaThatWasSentAGapBeforeALossBeginsAnew(t *testing.T) {
	for name, end := range map[string]func(n *cleanedNodes){
		"it lives": func(*cleanedNodes) {},
		"killed":   func(n *cleanedNodes) { n.stopNode(2) },
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
				if at := n.log(2).LogEnd(); at <= 2 || at >= 5 {
					n.t.Fatalf(
						"the follower has got as far as %d, and should be behind the gap at 1 and below what superseded it, at 5",
						at,
					)
				}
				if epoch, err := n.log(2).CopyGap(); epoch != 2 || err != nil {
					n.t.Errorf("sent a gap in epoch %d, it says, %v", epoch, err)
				}

				end(n)
				n.stopNode(1)
				n.stopNode(3)
				n.nodes.nodes[3].disk = synced // the power went, and this is what had been synced
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
				if epoch, err := n.log(2).CopyGap(); epoch != -1 || err != nil {
					n.t.Errorf("in sync, and sent a gap in epoch %d, it says, %v", epoch, err)
				}
			})
		})
	}
}

// An image of before shows the replica in sync, and its leader has dropped it since, and cleaned:
// the gap is noted, and stays so until an image of after shows it in sync again.
func TestAGapIsNotForgottenForAnOldImage(t *testing.T) {
	inCleanedCluster(t, 2, []int32{1, 2}, func(n *cleanedNodes) {
		p := n.nodes.nodes[2].view.Load().partitions[partitionA]
		inSync, out := &role{inSync: true, member: true, leader: 1, epoch: 1,
			refusal: ErrNotLeader}, &role{leader: 1, epoch: 1, refusal: ErrNotLeader}
		n.nodes.nodes[2].Close()
		p.changing.Lock()
		defer p.changing.Unlock()
		step := func(do func() error, want int32) {
			n.t.Helper()
			if err := do(); err != nil {
				n.t.Fatal(err)
			}
			if epoch, err := p.log.CopyGap(); epoch != want || err != nil || p.gapEpoch != want {
				n.t.Errorf("sent a gap in epoch %d, on disk %d (%v), want %d", p.gapEpoch, epoch,
					err, want)
			}
		}
		step(func() error { return p.noteGap(inSync) }, 1)
		step(func() error { return p.oneSource(inSync) }, 1)
		step(func() error { return p.oneSource(out) }, 1)
		step(func() error { return p.oneSource(inSync) }, -1)
	})
}
