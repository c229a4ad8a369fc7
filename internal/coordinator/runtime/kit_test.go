package runtime

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/coordinator/state"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/internaltopic"
)

const (
	self      = internaltopic.Self
	topicName = metadata.OffsetsTopic
)

// register is a small state machine that stores one string per key.
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

// ApplyMetadata deletes the values whose keys are the names of deleted topics.
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

// Expire deletes one key that begins with "old". more is true if there are further such keys.
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

// broker runs a Runtime with real replicas, whose logs are on a disk in memory.
type broker struct {
	*Runtime[*register, string, string]
	*internaltopic.Broker
	t       testing.TB
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
	b := &broker{t: t, appends: prometheus.NewCounter(prometheus.CounterOpts{Name: "appends"}),
		Broker: internaltopic.New(t, disk, "/data", id)}
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
		Replicas:       b.Replicas, Image: b.Image, Await: b.AwaitImage, Admin: b,
		Appends:     b.appends,
		LoadSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "load"}),
	})
	b.Coordinator = b.Runtime
	return b
}

// shard waits until the shard is loaded and returns it.
func (b *broker) shard() (s *testShard) {
	b.t.Helper()
	b.AwaitLoaded(func() bool {
		var err error
		if s, err = b.Shard("key"); err != nil {
			return false
		}
		err = CallVolatile(b.t.Context(), s, func(time.Time, *register) error { return nil })
		return err == nil
	})
	return s
}

// detached returns a loaded shard without a running goroutine, so that the test can call the
// shard's methods itself.
func (b *broker) detached() *testShard {
	b.t.Helper()
	topic := b.Image().Topic(topicName)
	s := newShard(b.Runtime, topic, topic.Partitions[0], Delta{Image: b.Image()})
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

// await waits until a value is stored under the key, and returns the value.
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
