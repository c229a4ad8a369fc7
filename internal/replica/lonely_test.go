package replica

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
)

// compactedNodes is a cluster whose topic is compacted, to the last record by a pass that was asked
// for and hardly by others.
func compactedNodes(t *testing.T, count int, replicas ...int32) *cleanedNodes {
	n := newNodesFlushing(t, count, time.Second, func(topic *metadata.Topic) {
		s := &topic.Settings
		s.Delete, s.Compact, s.TombstoneRetention, s.SegmentAge = false, true, 2*time.Minute,
			time.Minute
		s.MinDirtyPercent, s.MaxGarbagePercent = 0, 99
		topic.Partitions[0].Replicas, topic.Partitions[0].ISR = replicas, slices.Clone(replicas)
	})
	c := &cleanedNodes{nodes: n, cleaners: map[int32]*cleaner.Cleaner{}}
	t.Cleanup(func() {
		for _, cleaner := range c.cleaners {
			cleaner.Close()
		}
	})
	for _, id := range n.ids {
		c.startCleaner(id)
	}
	return c
}

// cleanedNodes is nodes with a cleaner each.
type cleanedNodes struct {
	*nodes
	cleaners map[int32]*cleaner.Cleaner
}

func (n *cleanedNodes) startCleaner(id int32) {
	n.cleaners[id] = cleaner.New(n.nodes.nodes[id].store,
		cleaner.Options{Logger: slog.New(slog.DiscardHandler)})
}

// stopNode ends a broker and its cleaner; startNode starts both again.
func (n *cleanedNodes) stopNode(id int32) {
	n.cleaners[id].Close()
	delete(n.cleaners, id)
	n.crash(id, false)
}

func (n *cleanedNodes) startNode(id int32) {
	n.start(id)
	n.startCleaner(id)
	n.apply()
}

// put produces a record with a key to a broker; no value: a tombstone.
func (n *cleanedNodes) put(to int32, key string, value []byte) {
	n.t.Helper()
	result := n.nodes.nodes[to].Append(AcksAll,
		[]ProducePartition{{ID: partitionA, Batch: keyed(n.t, key, value)}}).Wait(n.t.Context(),
		time.Minute)[0]
	if result.Err != nil {
		n.t.Fatalf("produce %s: %v", key, result.Err)
	}
}

// keyed is a batch of one record with a key.
func keyed(t *testing.T, key string, value []byte) []byte {
	t.Helper()
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(record.Identity{LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1,
		BaseSequence: -1})
	builder.Add(&record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(key), Value: value})
	bytes, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// clean has brokers clean their logs to the last superseded record, and waits for it.
func (n *cleanedNodes) clean(ids ...int32) {
	n.t.Helper()
	for _, id := range ids {
		ticket, err := n.cleaners[id].CleanNow(partitionA)
		if err != nil {
			n.t.Fatal(err)
		}
		for range 60 {
			if n.settle(time.Second); n.cleaners[id].Status(partitionA).CleanNowServed >= ticket {
				break
			}
		}
		if status := n.cleaners[id].Status(partitionA); status.CleanNowServed < ticket {
			n.t.Fatalf("broker %d: a minute after it was asked for a pass: %+v", id, status)
		}
	}
}

// has tells whether a broker's log has the key's value, and whether it has its tombstone.
func (n *cleanedNodes) has(id int32, key string) (value, tombstone bool) {
	n.t.Helper()
	for rest := n.content(id); len(rest) > 0; {
		batch, behind, err := record.Next(rest)
		if err != nil {
			n.t.Fatal(err)
		}
		err = batch.Records(1<<20, func(r *record.Record) error {
			if string(r.Key) == key {
				value, tombstone = value || r.Value != nil, tombstone || r.Value == nil
			}
			return nil
		})
		if err != nil {
			n.t.Fatal(err)
		}
		rest = behind
	}
	return value, tombstone
}

// want fails unless the broker's log has the key's value, and its tombstone, as said.
func (n *cleanedNodes) want(id int32, key string, value, tombstone bool) {
	n.t.Helper()
	if hasValue, hasTombstone := n.has(id, key); hasValue != value || hasTombstone != tombstone {
		n.t.Errorf("broker %d, %q: value %t, tombstone %t; want %t, %t", id, key, hasValue,
			hasTombstone, value, tombstone)
	}
}

// inCleanedCluster runs a test in a bubble, with so many brokers and one partition on some of them.
func inCleanedCluster(t *testing.T, count int, replicas []int32, test func(n *cleanedNodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(compactedNodes(t, count, replicas...)) })
}

// A replica is down while a key is deleted, for ever so much longer than tombstones are kept. The
// others keep the tombstone for it, so that the key does not come back, be the one that was away
// elected or not; and once all have cleaned, it goes everywhere.
func TestX1ReplicaThatWasAwayBringsNoDeletedKeyBack(t *testing.T) {
	inCleanedCluster(t, 3, []int32{1, 2, 3}, func(n *cleanedNodes) {
		n.put(1, "gone", []byte("value"))
		n.put(1, "stays", []byte("value"))
		n.settle(time.Second)
		n.stopNode(3)
		n.apply()
		n.put(1, "gone", nil)
		for range 4 {
			n.clean(1, 2)
			n.settle(3 * time.Minute)
			n.apply()
		}
		for _, id := range []int32{1, 2} {
			n.want(id, "gone", false, true)
			n.want(id, "stays", true, false)
		}
		n.startNode(3)
		n.want3IsInSync()
		n.want(3, "gone", true, true) // it has not cleaned yet
		n.elect(3, 1, 2, 3)
		n.settle(time.Second)
		n.clean(1, 2, 3)
		n.settle(3 * time.Minute)
		n.clean(1, 2, 3)
		for _, id := range n.ids {
			n.want(id, "gone", false, false)
			n.want(id, "stays", true, false)
		}
	})
}

// want3IsInSync waits until broker 3 is.
func (n *cleanedNodes) want3IsInSync() {
	n.t.Helper()
	for range 30 {
		n.settle(time.Second)
		n.apply()
		if slices.Contains(n.isr(), 3) {
			return
		}
	}
	n.t.Fatalf("broker 3 is not in sync after half a minute: %v", n.isr())
}

// With one replica there is nobody to wait for.
func TestX1OneReplicaWaitsForNobody(t *testing.T) {
	inCleanedCluster(t, 1, []int32{1}, func(n *cleanedNodes) {
		n.put(1, "gone", []byte("value"))
		n.put(1, "gone", nil)
		n.clean(1)
		n.want(1, "gone", false, true)
		n.settle(3 * time.Minute)
		n.put(1, "stays", []byte("value"))
		n.clean(1)
		n.want(1, "gone", false, false)
		n.want(1, "stays", true, false)
	})
}

// Nobody writes to the partition any more: followers hear all the same of how far all have cleaned,
// and of what DeleteRecords took.
func TestX1QuietPartitionGetsRidOfItsTombstones(t *testing.T) {
	inCleanedCluster(t, 3, []int32{1, 2, 3}, func(n *cleanedNodes) {
		for _, key := range []string{"old", "gone"} {
			n.put(1, key, []byte("value"))
		}
		n.put(1, "gone", nil)
		n.put(1, "stays", []byte("value"))
		n.settle(time.Second)
		n.clean(1, 2, 3)
		n.settle(6 * time.Minute) // behind the retention, by their own timers
		if err := n.log(1).DeleteBefore(1); err != nil {
			n.t.Fatal(err)
		}
		n.settle(time.Second)
		for _, id := range n.ids {
			n.want(id, "gone", false, false)
			n.want(id, "stays", true, false)
			if told, start := n.log(id).Compaction().ReplicasTombstoneClean(),
				n.log(id).LogStart(); told != 4 || start != 1 {
				n.t.Errorf(
					"broker %d was told that all tombstones are lonely below %d, want 4; its log starts at %d, want 1",
					id,
					told,
					start,
				)
			}
		}
	})
}

// Broker 1 has removed a key and its tombstone; broker 2 still has both, as before replicas told
// how far their tombstones are lonely. A new replica copies the value from 2, and goes on at 1,
// which has no tombstone to send.
func TestX1NewReplicaDoesNotPutTwoLogsTogether(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "behind a restart": true} {
		t.Run(name, func(t *testing.T) {
			inCleanedCluster(t, 3, []int32{1, 2}, func(n *cleanedNodes) {
				n.differ()
				n.copyBegins(2)
				n.want(3, "gone", true, false) // it is on its way
				if restart {
					n.stopNode(3)
				}
				n.elect(1, 1, 2)
				if restart {
					n.startNode(3)
				}
				close(*n.nodes.nodes[3].slow.Load())
				n.want3IsInSync()
				n.equal(1, 3)
				n.want(3, "gone", false, false)

				n.nodes.nodes[3].cut.Store(true) // whoever is in sync keeps what it has
				n.elect(2, 1, 2, 3)
				n.settle(time.Second)
				if source, err := n.log(3).CopySource(); err != nil || source >= 0 ||
					n.log(3).LogEnd() == n.log(3).LogStart() {
					n.t.Errorf("in sync, a copy of %d (%v), log [%d, %d)", source, err,
						n.log(3).LogStart(), n.log(3).LogEnd())
				}
			})
		})
	}
}

// deleted writes a key, and its tombstone a few megabytes behind, into logs that roll then.
func (n *cleanedNodes) deleted() {
	n.t.Helper()
	n.put(1, "gone", []byte("value"))
	for _, key := range []string{"a", "b", "c", "d"} {
		n.put(1, key, make([]byte, 600<<10))
	}
	n.put(1, "gone", nil)
	n.put(1, "last", []byte("value"))
	n.settle(70 * time.Second)
}

// differ makes logs of which that of broker 1 has neither value nor tombstone of a key, and that of
// 2 both. Broker 1 does not wait for 2 while that is no replica; and 2 keeps its log, as the
// assignment has no name.
func (n *cleanedNodes) differ() {
	n.t.Helper()
	n.deleted()
	n.stopNode(2)
	n.change(func(p *metadata.Partition) { p.Replicas = []int32{1} })
	n.elect(1, 1)
	n.clean(1)
	defer func() {
		n.change(func(p *metadata.Partition) { p.Replicas = []int32{1, 2} })
		n.startNode(2)
		n.settle(time.Second)
		n.want(1, "gone", false, false)
		n.want(2, "gone", true, true)
	}()
	for range 60 {
		n.settle(10 * time.Second)
		if _, tombstone := n.has(1, "gone"); !tombstone {
			break
		}
	}
}

// Broker 1 has removed the value of a deleted key; broker 2 has cleaned as far, and left the value
// for the sake of I/O. A consumer that has read it there may go on at 1 (KIP-392, or as 2 dies): it
// finds the tombstone, from when the value was last to be read anywhere for as long as tombstones
// are kept. In the end 2 is made to remove it, and then both tombstones go.
func TestX1TombstoneStaysWhileAnyReplicaHasWhatItDeletes(t *testing.T) {
	inCleanedCluster(t, 2, []int32{1, 2}, func(n *cleanedNodes) {
		n.deleted()
		n.clean(1)
		n.want(1, "gone", false, true)
		const retention, step = 2 * time.Minute, 5 * time.Second
		var lastRead time.Time
		for began := time.Now(); ; n.settle(step) {
			if value, _ := n.has(2, "gone"); value {
				lastRead = time.Now()
			}
			_, here := n.has(1, "gone")
			_, there := n.has(2, "gone")
			switch kept := time.Since(lastRead); {
			case !here && !there && kept >= retention:
				if kept > 2*retention {
					n.t.Errorf("the tombstones went %v after the value", kept)
				}
				return
			case (!here || !there) && kept < retention:
				n.t.Fatalf(
					"%v after the value could be read on broker 2, the tombstone is on broker 1: %t, on 2: %t",
					kept,
					here,
					there,
				)
			case time.Since(began) > 10*retention:
				n.t.Fatalf("tombstones are there for ever; the value could be read %v ago", kept)
			}
		}
	})
}

// copyBegins makes broker 3 a replica that begins to copy from another, and stops after one fetch.
func (n *cleanedNodes) copyBegins(leader int32) {
	n.t.Helper()
	tokens := make(chan struct{}, 1)
	n.nodes.nodes[3].slow.Store(&tokens)
	n.change(func(p *metadata.Partition) { p.Replicas = []int32{1, 2, 3} })
	n.elect(leader, 1, 2)
	tokens <- struct{}{}
	n.settle(time.Second)
}
