package replica

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// broker consists of a Set with a real store on a disk in memory, and of the metadata that it
// applies.
type broker struct {
	*Set
	t      *testing.T
	disk   vfs.FS
	store  *logstore.Store
	topics map[string]*metadata.Topic

	cluster string // cluster id in the images
}

const self = 1

func newBroker(t *testing.T) *broker { return newBrokerOn(t, vfs.NewMem()) }

func newBrokerOn(t *testing.T, disk vfs.FS) *broker {
	b := &broker{t: t, disk: disk, topics: map[string]*metadata.Topic{}, cluster: "ours"}
	if err := b.disk.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start() {
	b.t.Helper()
	store, err := logstore.Open(logstore.Options{FS: b.disk, Dir: "/data",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	b.store = store
	b.Set = NewSet(Options{NodeID: self, Store: store, Cluster: "ours"})
}

func (b *broker) stop() {
	b.t.Helper()
	b.Close()
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
}

// topic adds a topic that this broker leads, or changes that topic.
func (b *broker) topic(name string, partitions int, change func(*metadata.Topic)) *metadata.Topic {
	t := &metadata.Topic{Name: name, ID: metadata.NewID(), Settings: topicconfig.Default()}
	if old := b.topics[name]; old != nil {
		t.ID, t.RetainData = old.ID, old.RetainData
	}
	for i := range partitions {
		t.Partitions = append(t.Partitions, &metadata.Partition{
			Index: int32(i), Replicas: []int32{self}, Leader: self, LeaderEpoch: 1,
			ISR: []int32{self},
		})
	}
	if change != nil {
		change(t)
	}
	b.topics[name] = t
	return t
}

func (b *broker) tryApply() ([]metadata.Served, error) {
	var topics []*metadata.Topic
	for _, topic := range b.topics {
		topics = append(topics, copyOf(topic))
	}
	return b.Apply(metadata.NewImage(b.cluster, metadata.CleanerBudget{}, nil, topics))
}

// copyOf returns a copy of a topic for an image. Images are immutable, but tests modify their
// topics.
func copyOf(topic *metadata.Topic) *metadata.Topic {
	copied := *topic
	copied.Partitions = nil
	for _, p := range topic.Partitions {
		one := *p
		copied.Partitions = append(copied.Partitions, &one)
	}
	return &copied
}

func (b *broker) apply() []metadata.Served {
	b.t.Helper()
	served, err := b.tryApply()
	if err != nil {
		b.t.Fatal(err)
	}
	return served
}

func id(topic string, index int32) PartitionID { return PartitionID{Topic: topic, Index: index} }

// batch returns a batch of records without keys, as a producer sends it.
func batch(t *testing.T, values ...string) []byte {
	t.Helper()
	return batchOf(t, record.Identity{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1},
		values...)
}

// batchOf returns a batch of the producer with the given identity.
func batchOf(t *testing.T, id record.Identity, values ...string) []byte {
	t.Helper()
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	id.LastOffsetDelta, id.LeaderEpoch = int32(len(values)-1), -1
	builder.Reset(id)
	for i, value := range values {
		builder.Add(&record.Record{Offset: int64(i), Timestamp: time.Now().UnixMilli(),
			Value: []byte(value)})
	}
	bytes, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// Produce appends batches and waits for them.
func (b *broker) Produce(ctx context.Context, acks int16, timeout time.Duration,
	batches []ProducePartition) []ProduceResult {
	return b.Append(acks, batches).Wait(ctx, timeout)
}

// produce produces one batch with acks=all, and returns the result.
func (b *broker) produce(to PartitionID, values ...string) ProduceResult {
	b.t.Helper()
	return b.Produce(b.t.Context(), AcksAll, time.Minute,
		[]ProducePartition{{ID: to, Batch: batch(b.t, values...)}})[0]
}

func (b *broker) mustProduce(to PartitionID, values ...string) logstore.Appended {
	b.t.Helper()
	result := b.produce(to, values...)
	if result.Err != nil {
		b.t.Fatal(result.Err)
	}
	return result.Appended
}

// fetch returns a request for all records at or above the offset from. The fetch waits for at least
// one byte.
func fetch(wait time.Duration, from int64, partitionIDs ...PartitionID) FetchRequest {
	req := FetchRequest{BytesMin: 1, BytesMax: 1 << 20, Wait: wait}
	for _, id := range partitionIDs {
		req.Partitions = append(req.Partitions,
			FetchPartition{ID: id, Offset: from, BytesMax: 1 << 20, LeaderEpoch: -1, LastEpoch: -1})
	}
	return req
}

// values returns the values of the records in a result, and releases the result.
func values(t *testing.T, result FetchResult) []string {
	t.Helper()
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	defer result.Data.Release()
	if result.Data.Length == 0 {
		return nil
	}
	buf := make([]byte, result.Data.Length)
	if _, err := result.Data.File.ReadAt(buf, result.Data.Position); err != nil {
		t.Fatal(err)
	}
	var all []string
	for len(buf) > 0 {
		first, rest, err := record.Next(buf)
		if err != nil {
			t.Fatal(err)
		}
		err = first.Records(1<<20, func(r *record.Record) error {
			all = append(all, string(r.Value))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		buf = rest
	}
	return all
}

// lastOffset returns the last offset of the given whole batches.
func lastOffset(t *testing.T, batches []byte) int64 {
	t.Helper()
	last := int64(-1)
	for len(batches) > 0 {
		first, rest, err := record.Next(batches)
		if err != nil {
			t.Fatal(err)
		}
		last, batches = first.LastOffset(), rest
	}
	return last
}
