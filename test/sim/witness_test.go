package sim

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// witness reads the log of a broker's life along, for what cannot be seen from outside: that a
// replica has given up its records to begin anew, or has cut off some of those below its high
// watermark.
type witness struct {
	slog.Handler
	b  *broker
	mu *sync.Mutex
	// anew are the topics whose log has begun anew since they were looked at.
	anew map[string]bool
}

func newWitness(b *broker, to slog.Handler) *witness {
	return &witness{Handler: to, b: b, mu: &sync.Mutex{}, anew: map[string]bool{}}
}

// Enabled implements slog.Handler: the witness hears what nobody else is told.
func (t *witness) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (t *witness) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *t
	with.Handler = t.Handler.WithAttrs(attrs)
	return &with
}

// Handle implements slog.Handler.
func (t *witness) Handle(ctx context.Context, record slog.Record) error {
	topic := ""
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "partition" {
			topic, _, _ = strings.Cut(attr.Value.String(), "-")
		}
		return true
	})
	switch message := record.Message; {
	case strings.HasPrefix(message, "discarding diverged log"),
		strings.HasPrefix(message, "discarding incomplete copy"),
		strings.HasPrefix(message, "discarding log of another replica incarnation"),
		strings.HasPrefix(message, "restarting log at the leader's log start"):
		t.mu.Lock()
		t.anew[topic] = true
		t.mu.Unlock()
		if l := t.b.life.Load(); l != nil && l.witness.mu == t.mu &&
			inSync(t.b.w.meta.recorded(topic), l) {
			t.b.w.fail("%s: broker %d is in sync, and gives up what it has: %s", topic, l.id,
				message)
		}
	case strings.HasPrefix(message, "truncating below the high watermark") &&
		!t.b.w.oracle.tainted(topic):
		t.b.w.fail("%s: %s", topic, message)
	}
	if !t.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return t.Handler.Handle(ctx, record)
}

// begunAnew tells whether a topic's log has begun anew since the last time.
func (t *witness) begunAnew(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	begun := t.anew[topic]
	delete(t.anew, topic)
	return begun
}
