//go:build compat

package compat

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const mirrorChecks = "records of three partitions with keys, headers and timestamps, and offsets of " +
	"a group; stop, more records, start again: each record once, in order"

func TestMirrorMaker(t *testing.T) {
	proof := newRow(t, "MirrorMaker 2", "between two clusters: "+mirrorChecks)
	testMirror(t, proof, startBroker)
}

func TestMirrorMakerFromKafka(t *testing.T) {
	proof := newRow(t, "MirrorMaker 2", "from Apache Kafka: "+mirrorChecks)
	testMirror(t, proof, func(t *testing.T) string { return startKafka(t) })
}

// mirrored is the number of partitions of the mirrored topic.
const mirrored = 3

// testMirror runs MirrorMaker 2 in dedicated mode. MirrorMaker copies the topic orders from a
// source cluster to the topic a.orders of another cluster. It also copies the offsets of the group
// readers.
func testMirror(t *testing.T, proof *row, startSource func(*testing.T) string) {
	t.Helper()
	java, classes, version := ecosystem(t)
	proof.version = version
	t.Parallel()
	from, to := startSource(t), startBroker(t)
	config := writeProperties(t, t.TempDir(), "mirror", "clusters=a,b", "a.bootstrap.servers="+from,
		"b.bootstrap.servers="+to, "a->b.enabled=true", "b->a.enabled=false", "a->b.topics=orders",
		"a->b.groups=readers", "replication.factor=1", "checkpoints.topic.replication.factor=1",
		"heartbeats.topic.replication.factor=1", "offset-syncs.topic.replication.factor=1",
		"offset.storage.replication.factor=1", "status.storage.replication.factor=1",
		"config.storage.replication.factor=1", "refresh.topics.interval.seconds=2",
		"refresh.groups.interval.seconds=2", "emit.checkpoints.interval.seconds=1",
		"sync.group.offsets.enabled=true", "sync.group.offsets.interval.seconds=1",
		"offset.lag.max=0", "offset.flush.interval.ms=500")
	createTopic(t, from, "orders", mirrored)
	for _, round := range []int{100, 50} {
		sendOrders(t, from, round)
		sent := readAll(t, from, "orders")
		commitEnds(t, from, sent)
		mirror := startService(t, append(javaTool(java, classes,
			"org.apache.kafka.connect.mirror.MirrorMaker"), config)...)
		mirror.await(func() string { return checkMirrored(sent, readAll(t, to, "a.orders")) })
		mirror.await(func() string { return checkGroup(t, to, sent) })
		mirror.stop()
		if missing := checkMirrored(sent, readAll(t, to, "a.orders")); missing != "" {
			t.Errorf("after the program was stopped: %s", missing)
		}
	}
}

// sendOrders sends records to each partition.
func sendOrders(t *testing.T, bootstrap string, each int) {
	t.Helper()
	client := newClient(t, bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for i := range each * mirrored {
		records = append(records, &kgo.Record{Topic: "orders", Partition: int32(i % mirrored),
			Key: []byte("key" + strconv.Itoa(i%17)), Value: []byte("order " + strconv.Itoa(i)),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(strconv.Itoa(i))}}})
	}
	records[0].Value = nil
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// commitEnds commits the end offsets of all partitions for the group readers.
func commitEnds(t *testing.T, bootstrap string, sent map[int32][]*kgo.Record) {
	t.Helper()
	offsets := kadm.Offsets{}
	for partition, records := range sent {
		offsets.AddOffset("orders", partition, int64(len(records)), -1)
	}
	if err := newAdmin(t, bootstrap).CommitAllOffsets(t.Context(), "readers",
		offsets); err != nil {
		t.Fatal(err)
	}
}

// checkMirrored returns "" if both topics contain the same records.
func checkMirrored(sent, got map[int32][]*kgo.Record) string {
	for partition := range int32(mirrored) {
		want, have := sent[partition], got[partition]
		if len(want) != len(have) {
			return fmt.Sprintf("partition %d: %d records, want %d", partition, len(have), len(want))
		}
		for i, r := range want {
			o := have[i]
			if o.Offset != r.Offset || !o.Timestamp.Equal(r.Timestamp) {
				return fmt.Sprintf("partition %d: got offset or time of %+v, want %+v",
					partition, o, r)
			}
			if !bytes.Equal(o.Key, r.Key) {
				return fmt.Sprintf("partition %d: got key %q, want %q", partition, o.Key, r.Key)
			}
			if !bytes.Equal(o.Value, r.Value) || (o.Value == nil) != (r.Value == nil) {
				return fmt.Sprintf("partition %d: got value %q, want %q", partition, o.Value,
					r.Value)
			}
			if len(o.Headers) != 1 || !bytes.Equal(o.Headers[0].Value, r.Headers[0].Value) {
				return fmt.Sprintf("partition %d: got headers %q, want %q", partition, o.Headers,
					r.Headers)
			}
		}
	}
	return ""
}

// checkGroup returns "" if the translated offsets of the group readers are the topic's end offsets.
func checkGroup(t *testing.T, bootstrap string, sent map[int32][]*kgo.Record) string {
	t.Helper()
	offsets, err := newAdmin(t, bootstrap).FetchOffsets(t.Context(), "readers")
	if err != nil {
		return err.Error()
	}
	for partition, records := range sent {
		if offset := offsets["a.orders"][partition].At; offset != int64(len(records)) {
			return fmt.Sprintf("offset of the group in partition %d is %d, want %d", partition, offset,
				len(records))
		}
	}
	return ""
}
