package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
)

const (
	// commentInterval is the time without events after which a comment is sent. Comments keep proxies
	// from closing the connection.
	commentInterval = 15 * time.Second
	// writeTimeout is how long a client may take to receive data.
	writeTimeout = 10 * time.Second
	// streamTimeMax is the maximum duration of a stream. After that the client must reconnect, which
	// requires a token that is still valid.
	streamTimeMax = 5 * time.Minute
)

// stream is one connected client.
type stream struct {
	hub      *Hub
	topics   []string // empty: passes and steps of all topics, and no segments
	next     int64    // number of the last event that was sent or skipped
	resumed  bool
	snapshot []report.SegmentsEvent
}

// open adds a stream. Parameter lastID is the request's Last-Event-ID header. The stream is counted
// before it waits for a poll, so streamsMax also limits waiting requests.
func (h *Hub) open(ctx context.Context, topics []string, lastID string) (*stream, error) {
	if err := h.enter(topics); err != nil {
		return nil, err
	}
	s := &stream{hub: h, topics: topics}
	select {
	case h.polling <- struct{}{}:
		defer func() { <-h.polling }()
	case <-ctx.Done():
		s.close()
		return nil, fmt.Errorf("wait for a poll: %w", ctx.Err())
	}
	s.resumed = h.resumes(s, lastID)
	for _, name := range topics {
		h.mu.Lock()
		topic := h.mu.topics[name]
		h.mu.Unlock()
		if topic.rows == nil {
			topic.rows = byReplica(h.source.Segments(name))
		}
		if s.resumed {
			continue
		}
		for _, key := range sortedKeys(topic.rows) {
			rows := topic.rows[key]
			for i, part := range parts(rows.Segments) {
				s.snapshot = append(s.snapshot, report.SegmentsEvent{SegmentsOf: rows.SegmentsOf,
					Whole: i == 0, Segments: part, Removed: []int64{}})
			}
		}
	}
	return s, nil
}

// enter counts a stream for the given topics, and starts to watch them.
func (h *Hub) enter(topics []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh := 0
	for _, name := range topics {
		if h.mu.topics[name] == nil {
			fresh++
		}
	}
	switch {
	case h.mu.streams >= streamsMax:
		return ErrTooManyStreams
	case len(h.mu.topics)+fresh > topicsMax:
		return ErrTooManyTopics
	}
	h.mu.streams++
	h.active.Store(true)
	for _, name := range topics {
		if h.mu.topics[name] == nil {
			h.mu.topics[name] = &watched{since: h.mu.ring.last}
		}
		h.mu.topics[name].streams++
	}
	return nil
}

// resumes sets the position where the stream starts, and reports whether the stream resumes. It
// resumes after the event lastID if the hub still has all events since then. Otherwise it starts
// with new events.
func (h *Hub) resumes(s *stream, lastID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.next = h.mu.ring.last
	epoch, text, _ := strings.Cut(lastID, "-")
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || epoch != h.epoch {
		return false
	}
	if _, ok := h.mu.ring.after(number); !ok {
		return false
	}
	for _, name := range s.topics {
		if h.mu.topics[name].since > number {
			return false
		}
	}
	s.next = number
	return true
}

// close ends a stream.
func (s *stream) close() {
	h, now := s.hub, time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.streams--; h.mu.streams == 0 {
		h.mu.idle = now
	}
	for _, name := range s.topics {
		if topic := h.mu.topics[name]; topic != nil {
			topic.streams--
			topic.idle = now
		}
	}
}

// pending returns the events that were not sent yet, and a channel that is closed when more are
// added. Result ok is false if the stream has fallen behind the ring.
func (s *stream) pending() (events []event, added <-chan struct{}, ok bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	events, ok = s.hub.mu.ring.after(s.next)
	if n := len(events); n > 0 {
		s.next = events[n-1].number
	}
	return events, s.hub.mu.added, ok
}

func (s *stream) selects(e *event) bool {
	return len(s.topics) == 0 && e.name != report.EventSegments || slices.Contains(s.topics, e.topic)
}

// Serve responds with the events for the topics until the client disconnects or is too slow. If
// there are too many streams, it returns an error and sends no response.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, topics []string) error {
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	s, err := h.open(r.Context(), topics, r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	defer s.close()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	out := &writer{w: w, control: http.NewResponseController(w), epoch: h.epoch}
	ctx, cancel := context.WithTimeout(r.Context(), streamTimeMax)
	defer cancel()
	s.begin(out)
	s.run(ctx, out)
	return nil
}

// begin sends the stream's snapshot.
func (s *stream) begin(out *writer) {
	for i := range s.snapshot {
		out.json(report.EventSegments, &s.snapshot[i])
	}
	s.snapshot = nil
	if !s.resumed {
		// A pass that begins now can also be in an event, and so can its steps.
		for _, pass := range s.hub.source.Running(s.topics) {
			out.json(report.EventPass, &pass)
		}
	}
	data, _ := json.Marshal(report.ReadyEvent{Resumed: s.resumed})
	out.event(report.EventReady, data, s.next)
	out.flush()
}

// run sends events until ctx ends, a write fails, or the stream falls behind.
func (s *stream) run(ctx context.Context, out *writer) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	sent := time.Now()
	for out.err == nil {
		events, added, ok := s.pending()
		if !ok {
			return // the client reconnects, and starts with a snapshot
		}
		for i := range events {
			if s.selects(&events[i]) {
				out.event(events[i].name, events[i].data, events[i].number)
				sent = time.Now()
			}
		}
		if time.Since(sent) >= commentInterval {
			out.text(": still here\n\n")
			sent = time.Now()
		}
		out.flush()
		select {
		case <-ctx.Done():
			return
		case <-added:
		case now := <-ticker.C:
			s.hub.poll(now)
		}
	}
}

// writer writes events to a response. After an error it ignores all writes.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	epoch   string
	written bool // true if something was written since the last flush
	err     error
}

// text writes a text within writeTimeout.
func (o *writer) text(text string) {
	if o.err != nil {
		return
	}
	// SetWriteDeadline fails only if w is not a connection, as in tests.
	_ = o.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, o.err = o.w.Write([]byte(text))
	o.written = true
}

// event writes an event with an id.
func (o *writer) event(name string, data []byte, number int64) {
	o.text(fmt.Sprintf("id: %s-%d\nevent: %s\ndata: %s\n\n", o.epoch, number, name, data))
}

// json writes an event of the snapshot. The event has no id, because a client that loses the
// connection during the snapshot must start again.
func (o *writer) json(name string, value any) {
	data, err := json.Marshal(value)
	if err == nil {
		o.text(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data))
	}
}

func (o *writer) flush() {
	if o.err == nil && o.written {
		o.err, o.written = o.control.Flush(), false
	}
}
