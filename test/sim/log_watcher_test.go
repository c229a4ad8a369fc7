package sim

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"heartwood.dev/heartwood/internal/replica"
)

// logWatcher evaluates a broker's log messages. They report events that cannot be observed
// otherwise: a replica discarded its log, or truncated its log below the high watermark.
type logWatcher struct {
	slog.Handler
	b  *broker
	mu *sync.Mutex
	// discarded contains the topics whose log was discarded since the last call of takeReset.
	discarded map[string]bool
}

func newLogWatcher(b *broker, to slog.Handler) *logWatcher {
	return &logWatcher{Handler: to, b: b, mu: &sync.Mutex{}, discarded: map[string]bool{}}
}

// Enabled implements slog.Handler. The watcher processes every level.
func (t *logWatcher) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (t *logWatcher) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *t
	with.Handler = t.Handler.WithAttrs(attrs)
	return &with
}

// Handle implements slog.Handler.
func (t *logWatcher) Handle(ctx context.Context, record slog.Record) error {
	topic := ""
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "partition" {
			topic, _, _ = strings.Cut(attr.Value.String(), "-")
		}
		return true
	})
	switch message := record.Message; message {
	case replica.MessageDiscardDiverged, replica.MessageDiscardCopy,
		replica.MessageDiscardIncarnation, replica.MessageDiscardLost, replica.MessageRestartAtLogStart:
		t.mu.Lock()
		t.discarded[topic] = true
		t.mu.Unlock()
		if l := t.b.live.Load(); l != nil && l.watcher.mu == t.mu &&
			inSync(t.b.w.meta.recorded(topic), l) {
			t.b.w.fail("%s: broker %d is in the recorded ISR and discards its log: %s", topic, l.id,
				message)
		}
	case replica.MessageTruncateBelowHW:
		if !t.b.w.oracle.lostRecords(topic) {
			t.b.w.fail("%s: %s", topic, message)
		}
	}
	if !t.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return t.Handler.Handle(ctx, record)
}

// hasReset reports whether the next call of takeReset will return true.
func (t *logWatcher) hasReset(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.discarded[topic]
}

// takeReset reports whether a topic's log was discarded since the last call.
func (t *logWatcher) takeReset(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	reset := t.discarded[topic]
	delete(t.discarded, topic)
	return reset
}
