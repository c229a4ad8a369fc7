// Package internaltopic provides a broker for the tests of coordinators. It has real replicas and
// logs, and one internal topic with one partition.
package internaltopic

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// Self is the broker's id. Metadata images also list broker 2, which does not run.
const Self = 1

// Coordinator is the coordinator under test.
type Coordinator interface {
	Apply(*metadata.Image)
	Close()
}

// Broker is the broker of one coordinator, for which it implements metadata.Admin.
type Broker struct {
	Replicas    *replica.Set
	Coordinator Coordinator // set by the test before it calls Lead

	// The following fields are the content of the metadata images that Lead applies.
	Topic         metadata.Topic // the internal topic, without partitions
	OtherTopics   []*metadata.Topic
	GroupSettings metadata.Groups
	Overrides     map[string]metadata.GroupOverride // settings of individual groups

	t     testing.TB
	store *logstore.Store
	image atomic.Pointer[metadata.Image]
}

// New returns a broker whose logs are in a directory. New creates the directory if it is missing.
// Parameter id is the id of metadata.OffsetsTopic, the internal topic. The test must call Stop.
func New(t testing.TB, disk vfs.FS, dir string, id metadata.ID) *Broker {
	t.Helper()
	return NewVerifying(t, disk, dir, id, nil)
}

// NewVerifying is like New, with a Verifier of transactions. If it is nil, the broker accepts no
// transactional batches.
func NewVerifying(t testing.TB, disk vfs.FS, dir string, id metadata.ID,
	verifier replica.Verifier) *Broker {
	t.Helper()
	b := &Broker{t: t}
	b.must(disk.MkdirAll(dir))
	store, err := logstore.Open(logstore.Options{FS: disk, Dir: dir})
	b.must(err)
	b.store = store
	b.Replicas = replica.NewSet(replica.Options{
		NodeID: Self, Store: store, Verifier: verifier,
		ChangeISR: metadata.ChangeISREach(1, func(context.Context, metadata.ISRChange) (int64, error) {
			return 0, errors.New("the test kit rejects ISR changes")
		}),
	})
	settings := topicconfig.Default()
	settings.Compact, settings.Delete = true, false
	b.Topic = metadata.Topic{Name: metadata.OffsetsTopic, ID: id, Settings: settings,
		Internal: true, RetainData: true}
	return b
}

func (b *Broker) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// Lead applies an image in which the first of the given replicas leads the partition in the given
// leader epoch. All replicas are in the ISR.
func (b *Broker) Lead(epoch int32, replicas ...int32) {
	b.t.Helper()
	topic := b.Topic
	topic.Partitions = []*metadata.Partition{{Replicas: replicas, Leader: replicas[0],
		LeaderEpoch: epoch, ISR: replicas}}
	brokers := []metadata.Broker{{ID: Self, Endpoints: "kafka://one:1", Epoch: 1},
		{ID: 2, Endpoints: "kafka://two:2", Epoch: 1}}
	img := metadata.NewImage("cluster", metadata.CleanerBudget{}, brokers,
		append([]*metadata.Topic{&topic}, b.OtherTopics...))
	img.Groups, img.GroupOverrides = b.GroupSettings, b.Overrides
	_, err := b.Replicas.Apply(img)
	b.must(err)
	b.Coordinator.Apply(img)
	b.image.Store(img)
}

// Image returns the image of the last call of Lead, or nil before the first call.
func (b *Broker) Image() *metadata.Image { return b.image.Load() }

// AwaitLoaded calls loaded until loaded returns true. The test fails after 10 s. AwaitLoaded must
// be called in a synctest bubble.
func (b *Broker) AwaitLoaded(loaded func() bool) {
	b.t.Helper()
	for range 100 {
		synctest.Wait()
		if loaded() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatal("the coordinator shard was not loaded within 10 s")
}

// AwaitImage is a coordinator's option Await. It does not wait, because only the test applies
// images.
func (b *Broker) AwaitImage(context.Context, func(*metadata.Image) bool) {}

// CreateTopic implements metadata.Admin. The internal topic exists in every image.
func (b *Broker) CreateTopic(context.Context, metadata.NewTopic) (*metadata.Topic, error) {
	return nil, metadata.ErrTopicExists
}

// DeleteTopic implements metadata.Admin. It always fails, because coordinators delete no topics.
func (b *Broker) DeleteTopic(context.Context, string) error { return metadata.ErrTopicNotFound }

// Stop closes the coordinator, the replicas and the logs.
func (b *Broker) Stop() {
	b.t.Helper()
	b.Coordinator.Close()
	b.Replicas.Close()
	b.must(b.store.Close())
}
