package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/seed"
)

// client is a viewer. It decodes the events that a stream writes and applies them to its rows.
type client struct {
	t       *testing.T
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	release chan struct{} // blocked writes wait for it; nil: writes do not block

	mu     sync.Mutex
	text   bytes.Buffer
	header http.Header
	lastID string
	names  []string                            // names of the events, in order
	rows   map[string]map[int64]report.Segment // by replica
	seen   map[string]bool                     // replicas whose rows this stream has sent
	passes []report.PartitionPass
	steps  []report.StepEvent
	resume bool
}

func (c *client) Header() http.Header { return c.header }
func (c *client) WriteHeader(int)     {}
func (c *client) Flush()              {}

func (c *client) Write(p []byte) (int, error) {
	if c.release != nil {
		<-c.release
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(p)
	for {
		content := c.text.Bytes()
		end := bytes.Index(content, []byte("\n\n"))
		if end < 0 {
			return len(p), nil
		}
		c.apply(string(content[:end]))
		c.text.Next(end + 2)
	}
}

// received returns the names of the received events, and the steps.
func (c *client) received() (names []string, steps []report.StepEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.names), slices.Clone(c.steps)
}

func (c *client) apply(text string) {
	name, data := "comment", ""
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			c.lastID = value
		case "event":
			name = value
		case "data":
			data = value
		}
	}
	c.names = append(c.names, name)
	decode := func(into any) {
		if err := json.Unmarshal([]byte(data), into); err != nil {
			c.t.Errorf("event %s: %v in %s", name, err, data)
		}
	}
	switch name {
	case report.EventSegments:
		var e report.SegmentsEvent
		decode(&e)
		key := replicaName(&e.SegmentsOf)
		c.seen[key] = true
		if e.Whole {
			c.rows[key] = map[int64]report.Segment{}
		}
		if e.Gone {
			delete(c.rows, key)
			return
		}
		for _, base := range e.Removed {
			if _, known := c.rows[key][base]; !known {
				c.t.Errorf("segment %d of %s was removed, and was not known", base, key)
			}
			delete(c.rows[key], base)
		}
		for _, row := range e.Segments {
			c.rows[key][row.Base] = row
		}
	case report.EventPass:
		var p report.PartitionPass
		decode(&p)
		c.passes = append(c.passes, p)
	case report.EventStep:
		var s report.StepEvent
		decode(&s)
		c.steps = append(c.steps, s)
	case report.EventReady:
		var e report.ReadyEvent
		decode(&e)
		c.resume = e.Resumed
		if !e.Resumed {
			maps.DeleteFunc(c.rows,
				func(name string, _ map[int64]report.Segment) bool { return !c.seen[name] })
		}
	}
}

func replicaName(segmentsOf *report.SegmentsOf) string {
	return fmt.Sprint(segmentsOf.Topic, "-", segmentsOf.Partition, "@", segmentsOf.Broker)
}

// connect opens a stream, and waits until it is idle.
func connect(t *testing.T, h *Hub, before *client, topics ...string) *client {
	t.Helper()
	c := &client{t: t, done: make(chan struct{}), header: http.Header{},
		rows: map[string]map[int64]report.Segment{}, seen: map[string]bool{}}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", http.NoBody)
	if before != nil {
		r.Header.Set("Last-Event-ID", before.lastID)
		c.rows = before.rows
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	go func() {
		defer close(c.done)
		c.err = h.Serve(c, r.WithContext(ctx), topics)
	}()
	synctest.Wait()
	return c
}

// alive reconnects a client if its stream has reached streamTimeMax, as browsers do.
func alive(h *Hub, c *client, topics ...string) *client {
	select {
	case <-c.done:
		c = connect(c.t, h, c, topics...)
		time.Sleep(2 * pollInterval)
		synctest.Wait()
	default:
	}
	return c
}

func (c *client) disconnect() {
	c.cancel()
	<-c.done
}

// source is a Source whose rows the test changes.
type source struct {
	mu       sync.Mutex
	replicas map[string]report.Segments
	running  []report.PartitionPass
	calls    int
}

func (s *source) hub() *Hub {
	s.replicas = map[string]report.Segments{}
	return NewHub(Source{
		Segments: func(topic string) (all []report.Segments) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.calls++
			for _, name := range slices.Sorted(maps.Keys(s.replicas)) {
				if one := s.replicas[name]; one.Topic == topic {
					one.Segments = slices.Clone(one.Segments)
					all = append(all, one)
				}
			}
			return all
		},
		Running: func([]string) []report.PartitionPass {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.running
		},
	})
}

// polls returns the number of polls since the previous call.
func (s *source) polls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.calls = 0 }()
	return s.calls
}

// set sets a replica's rows.
func (s *source) set(topic string, broker int32, rows ...report.Segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := report.Segments{SegmentsOf: report.SegmentsOf{Topic: topic, Broker: broker,
		Total: len(rows)}, Segments: rows}
	s.replicas[replicaName(&one.SegmentsOf)] = one
}

// change changes the rows of some replicas at random.
func (s *source) change(random *rand.Rand) {
	for _, topic := range []string{"a", "b"} {
		for broker := range int32(2) {
			var rows []report.Segment
			for base := range int64(1 + random.IntN(4)*400) {
				if random.IntN(3) > 0 {
					rows = append(rows, report.Segment{Base: base, Bytes: int64(random.IntN(3)),
						GarbageBytes: new(int64(random.IntN(2)))})
				}
			}
			if random.IntN(3) == 0 {
				s.set(topic, broker, rows...)
			}
			if random.IntN(10) == 0 {
				s.mu.Lock()
				delete(s.replicas, fmt.Sprint(topic, "-0@", broker))
				s.mu.Unlock()
			}
		}
	}
}

// check compares a client's rows with the source's rows.
func (s *source) check(t *testing.T, c *client, topics ...string) {
	t.Helper()
	want := map[string]map[int64]report.Segment{}
	for name, one := range s.replicas {
		if !slices.Contains(topics, one.Topic) {
			continue
		}
		want[name] = map[int64]report.Segment{}
		for _, row := range one.Segments {
			want[name][row.Base] = row
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !reflect.DeepEqual(c.rows, want) {
		t.Fatalf("the client has %d replicas, which differ from the %d replicas of the source",
			len(c.rows), len(want))
	}
}

// TestClientsSeeEveryChange checks that three clients have the source's rows after each poll. One
// of them repeatedly loses its connection and resumes.
func TestClientsSeeEveryChange(t *testing.T) {
	for number := range seed.Sequence(t, 5) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(number, 0))
			s := &source{}
			h := s.hub()
			s.change(random)
			one, both := connect(t, h, nil, "a"), connect(t, h, nil, "b", "a", "a")
			flaky, resumed := connect(t, h, nil, "b"), 0
			for range 60 {
				s.change(random)
				time.Sleep(2 * pollInterval)
				synctest.Wait()
				one, both, flaky = alive(h, one, "a"), alive(h, both, "a", "b"),
					alive(h, flaky, "b")
				s.check(t, one, "a")
				s.check(t, both, "a", "b")
				s.check(t, flaky, "b")
				if random.IntN(4) == 0 {
					flaky.disconnect()
					if random.IntN(3) == 0 {
						time.Sleep(time.Duration(random.IntN(60)) * time.Second)
					}
					flaky = connect(t, h, flaky, "b")
					if flaky.resume {
						resumed++
					}
					time.Sleep(2 * pollInterval)
					synctest.Wait()
					s.check(t, flaky, "b")
				}
			}
			for _, c := range []*client{one, both, flaky} {
				c.disconnect()
			}
			if resumed == 0 {
				t.Error("no client has resumed")
			}
		})
	}
}

// TestStreamsOfOneTopicPollOnce checks that there are ten polls in ten seconds, although there are
// several clients.
func TestStreamsOfOneTopicPollOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		h := s.hub()
		var clients []*client
		for range streamsMax {
			clients = append(clients, connect(t, h, nil, "a"))
		}
		refused := connect(t, h, nil, "a")
		<-refused.done
		if refused.err != ErrTooManyStreams { //nolint:errorlint // not wrapped
			t.Errorf("one client too many: error %v", refused.err)
		}
		s.polls()
		time.Sleep(10*pollInterval + pollInterval/2)
		synctest.Wait()
		if n := s.polls(); n < 9 || n > 11 {
			t.Errorf("%d polls in ten seconds", n)
		}
		for _, c := range clients {
			c.disconnect()
		}
		s.polls()
		time.Sleep(time.Minute)
		h.Pass(report.PartitionPass{Topic: "a"})
		if n := s.polls(); n != 0 || h.active.Load() || len(h.mu.ring.events) != 0 {
			t.Errorf("without a client: %d polls, active %t, %d events", n, h.active.Load(),
				len(h.mu.ring.events))
		}
	})
}

// TestWaitingStreamsAreCounted checks that streams that wait for a poll count towards the limit,
// and end when their clients disconnect.
func TestWaitingStreamsAreCounted(t *testing.T) {
	h := (&source{}).hub()
	h.polling <- struct{}{} // simulates a poll that does not end
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, streamsMax)
	for range streamsMax {
		go func() {
			_, err := h.open(ctx, []string{"a"}, "")
			ended <- err
		}()
	}
	streams := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.mu.streams
	}
	await.Until(t, "all streams are counted", func() bool { return streams() == streamsMax })
	if _, err := h.open(ctx, []string{"a"}, ""); !errors.Is(err, ErrTooManyStreams) {
		t.Errorf("one stream too many: error %v", err)
	}
	cancel()
	for range streamsMax {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: error %v", err)
		}
	}
	if n := streams(); n != 0 {
		t.Errorf("%d streams remain", n)
	}
}

// TestPassesAndSteps checks that steps are sent immediately, but at most twenty steps of kind read
// per second. The snapshot contains running passes. A client without topics receives the events of
// all topics.
func TestPassesAndSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{running: []report.PartitionPass{{ID: 7, Topic: "a", Steps: []report.Step{
			{Kind: report.StepAnnounce}}}}}
		h := s.hub()
		h.Step(report.StepEvent{Topic: "a", Step: report.Step{Kind: report.StepGroup}})
		all, other := connect(t, h, nil), connect(t, h, nil, "b")
		names, _ := all.received()
		if want := []string{"pass", "ready"}; !slices.Equal(names, want) ||
			len(all.passes[0].Steps) != 1 || all.header.Get("X-Accel-Buffering") != "no" ||
			all.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("snapshot: got %v, %+v, header %v", names, all.passes, all.header)
		}
		step := func(kind string, after float64) {
			h.Step(report.StepEvent{Topic: "a", Pass: 7, Step: report.Step{Kind: kind, After: after}})
		}
		step(report.StepGroup, 0)
		for i := range 1000 {
			step(report.StepRead, float64(i)/1000)
		}
		step(report.StepReplace, 1)
		h.Pass(report.PartitionPass{ID: 7, Topic: "a", Pass: report.Pass{Ended: new(1.0)}})
		synctest.Wait()
		names, steps := all.received()
		if n := len(steps); n < 20 || n > 24 || steps[n-1].Kind != report.StepReplace ||
			names[len(names)-1] != "pass" {
			t.Errorf("got %d steps, events %v", n, names)
		}
		if _, steps := other.received(); len(steps) != 0 {
			t.Errorf("a client of another topic got %d steps", len(steps))
		}
		time.Sleep(commentInterval + 2*pollInterval)
		synctest.Wait()
		if names, _ := all.received(); names[len(names)-1] != "comment" {
			t.Errorf("without events: got %v", names)
		}
		time.Sleep(streamTimeMax)
		<-all.done
		<-other.done
	})
}

// TestSlowReaderIsCutOff checks that the stream of a client that does not read is closed, and that
// other clients do not wait for it.
func TestSlowReaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&source{}).hub()
		fast, slow := connect(t, h, nil), connect(t, h, nil)
		slow.release = make(chan struct{})
		for i := range 3 * ringEventsMax {
			h.Step(report.StepEvent{Pass: int64(i), Step: report.Step{Kind: report.StepGroup}})
			synctest.Wait()
		}
		if _, steps := fast.received(); len(steps) != 3*ringEventsMax {
			t.Errorf("the other client got %d steps", len(steps))
		}
		close(slow.release)
		<-slow.done
		if n := len(slow.steps); n > 2 {
			t.Errorf("the slow client got %d steps", n)
		}
		fast.disconnect()
	})
}

// TestRingEqualsList compares a ring with a list of all events.
func TestRingEqualsList(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	var r ring
	var sizes []int
	for range 5000 {
		size := random.IntN(20)
		if random.IntN(50) == 0 {
			size = random.IntN(ringBytesMax + 10)
		}
		sizes = append(sizes, size)
		r.add("name", "topic", make([]byte, size))
		kept, bytes := 1, size
		for kept < len(sizes) && kept < ringEventsMax &&
			bytes+sizes[len(sizes)-1-kept] <= ringBytesMax {
			bytes += sizes[len(sizes)-1-kept]
			kept++
		}
		back := random.IntN(2000)
		number := int64(len(sizes) - back)
		events, ok := r.after(number)
		if number >= 0 && ok != (back <= kept) || ok && len(events) != back {
			t.Fatalf("%d of %d events, %d kept: got %d, %t", back, len(sizes), kept, len(events), ok)
		}
		for i, e := range events {
			if e.number != number+int64(i)+1 || len(e.data) != sizes[e.number-1] {
				t.Fatalf("event %d has number %d, %d bytes", i, e.number, len(e.data))
			}
		}
	}
	if _, ok := r.after(r.last + 1); ok {
		t.Error("the ring has events of the future")
	}
}
