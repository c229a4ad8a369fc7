package broker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/scrub"
	"heartwood.dev/heartwood/test/kit/await"
)

var damagedPartition = logstore.PartitionID{Topic: "rep", Index: 0}

// flipRecord flips a bit in the first batch of partition 0 on a broker's disk. The batch's segment
// is at rest. flipRecord returns the file name.
func (c *trio) flipRecord(id int) string {
	c.t.Helper()
	log := c.brokers[id].store.Log(damagedPartition)
	await.Until(c.t, "a segment at rest", func() bool { return len(log.AtRest()) > 0 })
	return c.flipOnDisk(id)
}

// flipOnDisk is like flipRecord, but does not check the broker, so the broker may be stopped.
func (c *trio) flipOnDisk(id int) string {
	c.t.Helper()
	dir := "/data/rep-0"
	entries, err := c.disks[id].ReadDir(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".log" {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		file, err := c.disks[id].OpenReadWrite(name)
		if err != nil {
			c.t.Fatal(err)
		}
		b := make([]byte, 1)
		_, err = file.ReadAt(b, 66)
		if err == nil {
			b[0] ^= 4
			_, err = file.WriteAt(b, 66)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			c.t.Fatal(err)
		}
		return name
	}
	c.t.Fatal("no data file")
	return ""
}

// scrubAll requests a scrub of topic rep on a broker, and returns the scrub's state.
func (c *trio) scrubAll(id int) func() scrub.State {
	c.t.Helper()
	if _, err := c.brokers[id].scrub.Request("rep"); err != nil {
		c.t.Fatal(err)
	}
	return c.brokers[id].scrub.State
}

func repairedIn(state scrub.State, name string) bool {
	return slices.ContainsFunc(state.Repaired, func(d scrub.Damaged) bool {
		return slices.ContainsFunc(damagedFilesOf(d), func(file string) bool { return file == name })
	})
}

func damagedFilesOf(d scrub.Damaged) (files []string) {
	for _, place := range d.Places {
		files = append(files, place.File)
	}
	return files
}

// TestDamagedRecordsAreReplacedByAnotherReplica flips a bit on the leader, and then on a follower.
// The scrub must replace the damaged batch with the batch of another replica. Neither the leader
// nor the ISR may change, and consumers must be able to read all records.
func TestDamagedRecordsAreReplacedByAnotherReplica(t *testing.T) {
	c := newTrio(t, func(topic *v1alpha1.Topic) {
		topic.Spec.Segment = &v1alpha1.Segment{Size: resource.NewQuantity(1024, resource.BinarySI)}
	})
	producing, stop := context.WithCancel(t.Context())
	acknowledged := c.produce(producing)
	c.more(200)
	stop()
	n := acknowledged()
	c.await("all replicas in sync", c.inSync(3))
	before := *c.metadata.Image().Topic("rep").Partitions[0]
	for _, id := range []int32{before.Leader, (before.Leader + 1) % 3} {
		name := c.flipRecord(int(id))
		state := c.scrubAll(int(id))
		await.Until(t, "a repair", func() bool { return repairedIn(state(), name) })
		if damaged := state().Damaged; len(damaged) > 0 {
			t.Errorf("broker %d: damage after the repair: %v", id, damaged)
		}
	}
	after := *c.metadata.Image().Topic("rep").Partitions[0]
	if after.Leader != before.Leader || after.LeaderEpoch != before.LeaderEpoch ||
		len(after.ISR) != 3 {
		t.Errorf("leader %d in epoch %d, in sync %v; want leader %d in epoch %d", after.Leader,
			after.LeaderEpoch, after.ISR, before.Leader, before.LeaderEpoch)
	}
	c.consume(n)
	for id := range c.stops {
		c.stop(id)
	}
	c.equal()
}

// TestDamagedBatchIsNotServed damages a batch on the only replica, so the scrub cannot replace it.
// A consumer must receive an error instead of the batch, and must receive the batches after it.
func TestDamagedBatchIsNotServed(t *testing.T) {
	c := newTrio(t, func(topic *v1alpha1.Topic) {
		topic.Spec.Replicas, topic.Spec.MinInSyncReplicas = new(int32(1)), new(int32(1))
		topic.Spec.Segment = &v1alpha1.Segment{Size: resource.NewQuantity(1024, resource.BinarySI)}
	})
	producing, stop := context.WithCancel(t.Context())
	acknowledged := c.produce(producing)
	c.more(100)
	stop()
	acknowledged()
	leader := int(c.metadata.Image().Topic("rep").Partitions[0].Leader)
	c.flipRecord(leader)
	state := c.scrubAll(leader)
	log := c.brokers[leader].store.Log(damagedPartition)
	await.Until(t, "damage", func() bool { return len(state().Damaged) > 0 })
	await.Until(t, "an error of the damaged batch", func() bool {
		slice, err := log.Read(0, log.HighWatermark(), 1<<20, true)
		if err == nil {
			slice.Release()
		}
		return errors.Is(err, logstore.ErrStorage)
	})
	slice, err := log.Read(1, log.HighWatermark(), 1<<20, true)
	if err != nil || slice.Length == 0 {
		t.Fatalf("read behind the damaged batch: %v", err)
	}
	slice.Release()
	if fault := log.Fault(); fault != nil {
		t.Errorf("the log stopped: %v", fault)
	}
}

// TestLogWithUnknownContentIsCopiedAgain damages a cleaned segment that has no key sidecar, because
// its records are too small. The replica must leave the ISR, and the log must be copied again.
func TestLogWithUnknownContentIsCopiedAgain(t *testing.T) {
	c := newTrio(t, func(topic *v1alpha1.Topic) {
		topic.Spec.CleanupPolicy = v1alpha1.CleanupCompact
		topic.Spec.Segment = &v1alpha1.Segment{Size: resource.NewQuantity(1024, resource.BinarySI)}
	})
	client, err := kgo.NewClient(c.seeds(), kgo.DefaultProduceTopic("rep"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(700))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	batch := func(round int) (records []*kgo.Record) {
		for i := range 400 {
			records = append(records, &kgo.Record{Key: fmt.Appendf(nil, "%d", (i*7+round)%90),
				Value: []byte(strings.Repeat("v", 3))})
		}
		return records
	}
	for round := range 5 {
		if err := client.ProduceSync(t.Context(), batch(round)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.await("all replicas in sync", c.inSync(3))
	before := *c.metadata.Image().Topic("rep").Partitions[0]
	id := int((before.Leader + 1) % 3)
	log := c.brokers[id].store.Log(damagedPartition)
	await.Until(t, "a pass", func() bool {
		_, _ = c.brokers[id].cleaner.CleanNow(damagedPartition)
		resting := log.AtRest()
		return len(resting) > 0 &&
			log.Compaction().Progress.FirstDirtyIn(log.LogStart(), log.LogEnd()) > resting[0].Base
	})
	c.flipRecord(id)
	c.scrubAll(id)
	c.await("another replica incarnation", func() bool {
		after := c.metadata.Image().Topic("rep").Partitions[0]
		return !slices.Equal(after.ReplicaIncarnations, before.ReplicaIncarnations)
	})
	c.await("all replicas in sync", c.inSync(3))
	await.Until(t, "a log without a loss", func() bool { return log.Notes().Loss() == "" })
}
