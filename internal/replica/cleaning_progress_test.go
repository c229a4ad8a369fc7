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

// compactedNodes returns a cluster with a compacted topic. A pass that a test requests cleans the
// topic up to the last record. Scheduled passes remove almost nothing, because the topic permits 99
// % garbage.
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

// cleanedNodes is a cluster whose brokers run cleaners.
type cleanedNodes struct {
	*nodes
	cleaners map[int32]*cleaner.Cleaner
}

func (n *cleanedNodes) startCleaner(id int32) {
	n.cleaners[id] = cleaner.New(n.nodes.nodes[id].store,
		cleaner.Options{Logger: slog.New(slog.DiscardHandler)})
}

// stopNode stops a broker and its cleaner.
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

// put produces a record with a key to a broker. If the value is nil, the record is a tombstone.
func (n *cleanedNodes) put(to int32, key string, value []byte) {
	n.t.Helper()
	result := n.nodes.nodes[to].Append(AcksAll,
		[]ProducePartition{{ID: partitionA, Batch: keyed(n.t, key, value)}}).Wait(n.t.Context(),
		time.Minute)[0]
	if result.Err != nil {
		n.t.Fatalf("produce %s: %v", key, result.Err)
	}
}

// keyed returns a batch of one record with the given key.
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

// clean runs a full pass on brokers, and waits until the passes have ended.
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
			n.t.Fatalf("broker %d: no pass within a minute of the request: %+v", id, status)
		}
	}
}

// has reports whether a broker's log contains a value of the key, and whether it contains a
// tombstone of the key.
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

// want fails the test unless the presence of a value and of a tombstone of the key in the broker's
// log is as expected.
func (n *cleanedNodes) want(id int32, key string, value, tombstone bool) {
	n.t.Helper()
	if hasValue, hasTombstone := n.has(id, key); hasValue != value || hasTombstone != tombstone {
		n.t.Errorf("broker %d, %q: value %t, tombstone %t; want %t, %t", id, key, hasValue,
			hasTombstone, value, tombstone)
	}
}

// inCleanedCluster runs a test in a synctest bubble, with count brokers and one partition whose
// replicas are on the given brokers.
func inCleanedCluster(t *testing.T, count int, replicas []int32, test func(n *cleanedNodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(compactedNodes(t, count, replicas...)) })
}

// TestX1ReturningReplicaRestoresNoDeletedKey deletes a key while broker 3 is down for longer than
// the tombstone retention. The other brokers must keep the tombstone for broker 3, so the key does
// not return, even if broker 3 is elected. Once all brokers have cleaned, the tombstone must be
// removed everywhere.
func TestX1ReturningReplicaRestoresNoDeletedKey(t *testing.T) {
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
		n.want(3, "gone", true, true) // broker 3 has not cleaned yet
		n.elect(3, 1, 2, 3)
		n.settle(time.Second)
		n.put(3, "last", []byte("value")) // the cleaner does not remove a log's last record
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

// want3IsInSync waits until broker 3 is in the ISR.
func (n *cleanedNodes) want3IsInSync() {
	n.t.Helper()
	for range 30 {
		n.settle(time.Second)
		n.apply()
		if slices.Contains(n.isr(), 3) {
			return
		}
	}
	n.t.Fatalf("broker 3 is not in the ISR after half a minute: %v", n.isr())
}

func TestX1SingleReplicaRemovesTombstones(t *testing.T) {
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

// TestX1IdlePartitionRemovesTombstones checks that, without new records, followers still receive
// the replicated cleaning progress, and the log start offset that DeleteRecords has moved.
func TestX1IdlePartitionRemovesTombstones(t *testing.T) {
	inCleanedCluster(t, 3, []int32{1, 2, 3}, func(n *cleanedNodes) {
		for _, key := range []string{"old", "gone"} {
			n.put(1, key, []byte("value"))
		}
		n.put(1, "gone", nil)
		n.put(1, "stays", []byte("value"))
		n.settle(time.Second)
		n.clean(1, 2, 3)
		// Wait for longer than the tombstone retention. The cleaners' own timers start the passes.
		n.settle(6 * time.Minute)
		if err := n.log(1).DeleteBefore(1); err != nil {
			n.t.Fatal(err)
		}
		n.settle(time.Second)
		for _, id := range n.ids {
			n.want(id, "gone", false, false)
			n.want(id, "stays", true, false)
			progress, start := n.log(id).Compaction().Progress.ReplicasTombstoneClean(), n.log(id).LogStart()
			if progress != 4 || start != 1 {
				n.t.Errorf("broker %d: replicated cleaning progress %d, want 4; log start %d, want 1",
					id, progress, start)
			}
		}
	})
}

// TestX1NewReplicaCopiesASingleLog checks a new replica whose leader changes while it copies.
// Broker 1 has removed a key's value and its tombstone. Broker 2 still has both, as was possible
// before replicas reported their tombstone-clean offsets. Broker 3 begins to copy broker 2 and has
// received the value when broker 1 becomes the leader, which has no tombstone to send. Broker 3
// must discard its copy and copy broker 1's log.
func TestX1NewReplicaCopiesASingleLog(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			inCleanedCluster(t, 3, []int32{1, 2}, func(n *cleanedNodes) {
				n.makeLogsDiffer()
				n.startCopy(2)
				n.want(3, "gone", true, false) // the copy lacks the tombstone
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

				// Broker 3 is in the ISR now, so it must keep its log when broker 2 becomes the
				// leader.
				n.nodes.nodes[3].disconnected.Store(true)
				n.elect(2, 1, 2, 3)
				n.settle(time.Second)
				if source, err := n.log(3).Notes().CopySource(); err != nil || source >= 0 ||
					n.log(3).LogEnd() == n.log(3).LogStart() {
					n.t.Errorf("in the ISR: source %d (%v), log [%d, %d)", source, err,
						n.log(3).LogStart(), n.log(3).LogEnd())
				}
			})
		})
	}
}

// putDeleted writes a value of a key and, a few megabytes later, the key's tombstone. Then it waits
// until the logs have rolled.
func (n *cleanedNodes) putDeleted() {
	n.t.Helper()
	n.put(1, "gone", []byte("value"))
	for _, key := range []string{"a", "b", "c", "d"} {
		n.put(1, key, make([]byte, 600<<10))
	}
	n.put(1, "gone", nil)
	n.put(1, "last", []byte("value"))
	n.settle(70 * time.Second)
}

// makeLogsDiffer makes broker 1 remove a key's value and tombstone, while broker 2 keeps both.
// Broker 2 is down and is not a replica at that time, so broker 1 does not wait for it. When broker
// 2 is a replica again, it keeps its log, because the log has no replica incarnation id.
func (n *cleanedNodes) makeLogsDiffer() {
	n.t.Helper()
	n.putDeleted()
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

// TestX1TombstoneOutlivesTheValueOnEveryReplica checks a tombstone that only one broker still
// needs. Broker 1 has removed a deleted key's value. Broker 2 has cleaned up to the same offset but
// kept the value to save I/O. A consumer that has read the value on broker 2 may continue at broker
// 1 (KIP-392, or after a failure of broker 2). The consumer must find the tombstone there until the
// tombstone retention has passed since the value was last readable on any broker. Finally broker 2
// must remove the value, and then both brokers remove the tombstone.
func TestX1TombstoneOutlivesTheValueOnEveryReplica(t *testing.T) {
	inCleanedCluster(t, 2, []int32{1, 2}, func(n *cleanedNodes) {
		n.putDeleted()
		n.clean(1)
		n.want(1, "gone", false, true)
		const retention, step = 2 * time.Minute, 5 * time.Second
		var lastRead time.Time
		for begin := time.Now(); ; n.settle(step) {
			if value, _ := n.has(2, "gone"); value {
				lastRead = time.Now()
			}
			_, on1 := n.has(1, "gone")
			_, on2 := n.has(2, "gone")
			switch kept := time.Since(lastRead); {
			case !on1 && !on2 && kept >= retention:
				if kept > 2*retention {
					n.t.Errorf("the tombstones were removed %v after the value", kept)
				}
				return
			case (!on1 || !on2) && kept < retention:
				n.t.Fatalf("%v after the value was last readable on broker 2: tombstone on broker 1 %t, "+
					"on broker 2 %t", kept, on1, on2)
			case time.Since(begin) > 10*retention:
				n.t.Fatalf("the tombstones remain; the value was last readable %v ago", kept)
			}
		}
	})
}

// startCopy makes broker 3 a replica, lets it copy from the leader with one fetch, and blocks its
// later fetches.
func (n *cleanedNodes) startCopy(leader int32) {
	n.t.Helper()
	tokens := make(chan struct{}, 1)
	n.nodes.nodes[3].slow.Store(&tokens)
	n.change(func(p *metadata.Partition) { p.Replicas = []int32{1, 2, 3} })
	n.elect(leader, 1, 2)
	tokens <- struct{}{}
	n.settle(time.Second)
}
