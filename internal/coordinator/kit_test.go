package coordinator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

const self = 1

// broker is a group coordinator over real replicas and logs.
type broker struct {
	*Groups
	t     testing.TB
	store *logstore.Store
	set   *replica.Set
	image atomic.Pointer[metadata.Image]
	topic metadata.Topic

	// Content of the metadata images that the method lead applies.
	topics  []*metadata.Topic
	cluster metadata.Groups
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBroker(t testing.TB, disk vfs.FS, id metadata.ID) *broker {
	t.Helper()
	return newBrokerAt(t, disk, "/data", id)
}

// newBrokerAt returns a broker with its logs in a directory. The test stops it.
func newBrokerAt(t testing.TB, disk vfs.FS, dir string, id metadata.ID) *broker {
	t.Helper()
	b := &broker{t: t}
	must(t, disk.MkdirAll(dir))
	store, err := logstore.Open(logstore.Options{FS: disk, Dir: dir})
	must(t, err)
	b.store = store
	b.set = replica.NewSet(replica.Options{
		NodeID: self, Store: store,
		ChangeISR: metadata.ChangeISREach(1, func(context.Context, metadata.ISRChange) error {
			return errors.New("no ISR changes in this test")
		}),
	})
	b.Groups = NewGroups(Options{NodeID: self, Replicas: b.set, Image: b.image.Load,
		Await: b.await, Admin: b, Config: group.Config{Retention: time.Hour}})
	settings := topicconfig.Default()
	settings.Compact, settings.Delete = true, false
	b.topic = metadata.Topic{Name: OffsetsTopic, ID: id, Settings: settings, Internal: true,
		RetainData: true}
	return b
}

// lead applies an image in which the first replica leads the only partition of the offsets topic.
func (b *broker) lead(epoch int32, replicas ...int32) {
	b.t.Helper()
	topic := b.topic
	topic.Partitions = []*metadata.Partition{{Replicas: replicas, Leader: replicas[0],
		LeaderEpoch: epoch, ISR: replicas}}
	brokers := []metadata.Broker{{ID: self, Endpoints: "kafka://one:1", Epoch: 1},
		{ID: 2, Endpoints: "kafka://two:2", Epoch: 1}}
	img := metadata.NewImage("cluster", metadata.CleanerBudget{}, brokers,
		append([]*metadata.Topic{&topic}, b.topics...))
	img.Groups = b.cluster
	_, err := b.set.Apply(img)
	must(b.t, err)
	b.Apply(img)
	b.image.Store(img)
}

func (b *broker) stop() {
	b.Close()
	b.set.Close()
	must(b.t, b.store.Close())
}

func (b *broker) await(context.Context, func(*metadata.Image) bool) {}

// CreateTopic implements metadata.Admin: the topic exists.
func (b *broker) CreateTopic(context.Context, metadata.NewTopic) (*metadata.Topic, error) {
	return nil, metadata.ErrTopicExists
}

func (b *broker) DeleteTopic(context.Context, string) error { return metadata.ErrTopicNotFound }

// awaitLoaded waits until the shard is loaded and its state is below the high watermark.
func (b *broker) awaitLoaded() {
	b.t.Helper()
	b.poll(func() bool {
		_, err := b.List(b.t.Context())
		return err == nil
	})
}

// awaitLoadedUnstored waits until the shard is loaded, for partitions whose high watermark does not
// advance.
func (b *broker) awaitLoadedUnstored() {
	b.t.Helper()
	b.poll(func() bool {
		err := b.Heartbeat(b.t.Context(), "g", "unknown", "", 0)
		return errors.Is(err, group.ErrUnknownMember)
	})
}

func (b *broker) poll(loaded func() bool) {
	b.t.Helper()
	for range 100 {
		synctest.Wait()
		if loaded() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatal("the shard was not loaded within 10 s")
}

func (b *broker) commit(offset int64, member string, generation int32) error {
	return b.commitFor(metadata.ID{}, offset, member, generation)
}

// commitFor commits an offset of a topic with the given id.
func (b *broker) commitFor(topic metadata.ID, offset int64, member string, generation int32) error {
	errs, err := b.Commit(b.t.Context(), group.Commit{
		Group: "g", Member: member, Generation: generation,
		Offsets: []group.CommitOffset{{Topic: "t",
			Offset: group.Offset{Offset: offset, LeaderEpoch: -1, ExpireMs: -1, TopicID: topic}}},
	})
	if err == nil {
		err = errs[0]
	}
	return err
}

func (b *broker) committed() (int64, error) {
	found, err := b.Committed(b.t.Context(), "g", []group.TopicPartition{{Topic: "t"}})
	if err != nil {
		return 0, err
	}
	return found[0].Offset.Offset, nil
}

// join makes m the only member of the group, with an assignment.
func (b *broker) join() group.Joined {
	b.t.Helper()
	joined, err := b.Join(b.t.Context(), group.Join{
		Group: "g", NewMember: "m", Session: 10 * time.Second, Rebalance: 30 * time.Second,
		ProtocolType: "consumer",
		Protocols:    []group.Protocol{{Name: "range", Metadata: []byte("subscription")}},
	})
	must(b.t, err)
	synced, err := b.Sync(b.t.Context(), group.Sync{
		Group: "g", Member: "m", Generation: joined.Generation,
		Assignments: map[string][]byte{"m": []byte("all")},
	})
	must(b.t, err)
	if string(synced.Assignment) != "all" {
		b.t.Fatalf("assignment %q, want \"all\"", synced.Assignment)
	}
	return joined
}

func (b *broker) wantPhase(want string) {
	b.t.Helper()
	d, err := b.Describe(b.t.Context(), "g")
	must(b.t, err)
	if d.Phase != want {
		b.t.Errorf("the group is %s, want %s", d.Phase, want)
	}
}
