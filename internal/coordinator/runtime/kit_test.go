package runtime

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

const (
	self      = 1
	topicName = metadata.OffsetsTopic
)

// register is a small state machine: string values by key.
type register struct {
	timers   state.Timers[string]
	values   map[string]string
	awaiting map[string]state.Token // requests that wait for a value, by key
	deltas   []Delta
	samples  int
	closed   bool
}

type (
	answer    = state.Answer[string]
	output    = state.Output[string]
	testShard = Shard[*register, string, string]
)

func put(key, value string) output {
	return output{Records: []state.Record{{Key: []byte(key), Value: []byte(value)}}}
}

func (m *register) Replay(_ time.Time, key, value []byte) ([]answer, error) {
	if string(key) == "corrupt" {
		return nil, errors.New("corrupt record")
	}
	if value == nil {
		delete(m.values, string(key))
		return nil, nil
	}
	m.values[string(key)] = string(value)
	if to := m.awaiting[string(key)]; to != 0 {
		delete(m.awaiting, string(key))
		return []answer{{To: to, Result: string(value)}}, nil
	}
	return nil, nil
}

func (m *register) Loaded(now time.Time, d Delta) output { return m.ApplyMetadata(now, d) }

// ApplyMetadata deletes the values of topics that were deleted.
func (m *register) ApplyMetadata(_ time.Time, d Delta) (out output) {
	m.deltas = append(m.deltas, d)
	for topic := range d.Deleted {
		out.Records = append(out.Records, state.Record{Key: []byte(topic)})
	}
	return out
}

func (m *register) Fire(_ time.Time, key string) output {
	return output{Records: []state.Record{{Key: []byte(key)}}}
}

// Expire deletes one key that begins with "old" per call.
func (m *register) Expire(time.Time, int) (out output, more bool) {
	for key := range m.values {
		if !strings.HasPrefix(key, "old") {
			continue
		}
		if out.Records != nil {
			return out, true
		}
		out.Records = []state.Record{{Key: []byte(key)}}
	}
	return out, false
}

func (m *register) Measure(sample bool) {
	if sample {
		m.samples++
	}
}
func (m *register) Close()               { m.closed = true }
func (m *register) LogValue() slog.Value { return slog.IntValue(len(m.values)) }

// broker is a Runtime over real replicas, with their logs on an in-memory disk.
type broker struct {
	*Runtime[*register, string, string]
	t       testing.TB
	store   *logstore.Store
	set     *replica.Set
	image   atomic.Pointer[metadata.Image]
	topic   metadata.Topic
	others  []*metadata.Topic
	groups  metadata.Groups
	appends prometheus.Counter
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBroker(t testing.TB, disk vfs.FS, id metadata.ID) *broker {
	t.Helper()
	b := &broker{t: t, appends: prometheus.NewCounter(prometheus.CounterOpts{Name: "appends"})}
	must(t, disk.MkdirAll("/data"))
	store, err := logstore.Open(logstore.Options{FS: disk, Dir: "/data"})
	must(t, err)
	b.store = store
	b.set = replica.NewSet(replica.Options{
		NodeID: self, Store: store,
		ChangeISR: metadata.ChangeISREach(1, func(context.Context, metadata.ISRChange) error {
			return errors.New("no ISR changes in this test")
		}),
	})
	b.Runtime = New(Options[*register, string, string]{
		NodeID: self, Topic: metadata.NewTopic{Name: topicName},
		NewMachine: func(timers state.Timers[string]) *register {
			return &register{timers: timers, values: map[string]string{},
				awaiting: map[string]state.Token{}}
		},
		ConfigChanged: func(before, now *metadata.Image) bool {
			return before.Groups != now.Groups
		},
		ExpireInterval: func(*metadata.Image) time.Duration { return time.Hour },
		Replicas:       b.set, Image: b.image.Load,
		Await: func(context.Context, func(*metadata.Image) bool) {}, Admin: b,
		Appends:     b.appends,
		LoadSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "load"}),
	})
	settings := topicconfig.Default()
	settings.Compact, settings.Delete = true, false
	b.topic = metadata.Topic{Name: topicName, ID: id, Settings: settings, Internal: true}
	return b
}

// lead applies an image in which the first replica leads the only partition of the topic.
func (b *broker) lead(epoch int32, replicas ...int32) {
	b.t.Helper()
	topic := b.topic
	topic.Partitions = []*metadata.Partition{{Replicas: replicas, Leader: replicas[0],
		LeaderEpoch: epoch, ISR: replicas}}
	brokers := []metadata.Broker{{ID: self, Endpoints: "kafka://one:1", Epoch: 1},
		{ID: 2, Endpoints: "kafka://two:2", Epoch: 1}}
	img := metadata.NewImage("cluster", metadata.CleanerBudget{}, brokers,
		append([]*metadata.Topic{&topic}, b.others...))
	img.Groups = b.groups
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

// CreateTopic implements metadata.Admin: the topic exists.
func (b *broker) CreateTopic(context.Context, metadata.NewTopic) (*metadata.Topic, error) {
	return nil, metadata.ErrTopicExists
}

func (b *broker) DeleteTopic(context.Context, string) error { return metadata.ErrTopicNotFound }

// shard waits until the shard is loaded and returns it.
func (b *broker) shard() *testShard {
	b.t.Helper()
	for range 100 {
		synctest.Wait()
		s, err := b.Shard("key")
		if err == nil {
			err = CallVolatile(b.t.Context(), s, func(time.Time, *register) error { return nil })
		}
		if err == nil {
			return s
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatal("the shard was not loaded within 10 s")
	return nil
}

// detached returns a loaded shard whose goroutine does not run.
func (b *broker) detached() *testShard {
	b.t.Helper()
	topic := b.image.Load().Topic(topicName)
	s := newShard(b.Runtime, topic, topic.Partitions[0], Delta{Image: b.image.Load()})
	must(b.t, s.load())
	return s
}

func (b *broker) put(key, value string) error {
	s, err := b.Shard(key)
	if err != nil {
		return err
	}
	_, err = Store(b.t.Context(), s, func(time.Time, *register) (struct{}, output, error) {
		return struct{}{}, put(key, value), nil
	})
	return err
}

func (b *broker) get(key string) (string, error) {
	s, err := b.Shard(key)
	if err != nil {
		return "", err
	}
	return Call(b.t.Context(), s, func(_ time.Time, m *register) (string, output, error) {
		return m.values[key], output{}, nil
	})
}

// await waits until key has a value, and returns it.
func (b *broker) await(key string) (string, error) {
	s, err := b.Shard(key)
	if err != nil {
		return "", err
	}
	a, err := Wait(context.Background(), s,
		func(_ time.Time, m *register, to state.Token) output {
			m.awaiting[key] = to
			return output{}
		})
	return a.Result, err
}

func (b *broker) wantValue(key, want string) {
	b.t.Helper()
	if got, err := b.get(key); got != want || err != nil {
		b.t.Errorf("%s = %q, %v; want %q", key, got, err, want)
	}
}

func (b *broker) appended() float64 { return testutil.ToFloat64(b.appends) }
