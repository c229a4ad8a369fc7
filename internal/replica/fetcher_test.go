package replica

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestUnreachableLeaderIsLoggedOnce checks that a short restart of a leader is not logged, and that
// the beginning and the end of a longer outage are each logged once.
func TestUnreachableLeaderIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	f := &fetcher{set: &Set{logger: slog.New(slog.NewTextHandler(&log, nil))}}
	leader, refused, begin := metadata.Broker{ID: 3}, errors.New("connection refused"),
		time.Unix(1000, 0)
	f.mu.leader = leader
	count := func(text string) int { return strings.Count(log.String(), text) }

	f.noteFailure(leader, refused, begin)
	f.noteFailure(leader, refused, begin.Add(warnAfter-time.Millisecond))
	f.noteAnswer()
	if log.Len() > 0 {
		t.Errorf("a short outage is logged: %s", &log)
	}
	begin = begin.Add(warnAfter) // begins a second outage
	for after := time.Duration(0); after <= 3*warnAfter; after += time.Second {
		f.noteFailure(leader, refused, begin.Add(after))
	}
	if count("level=WARN") != 1 || count("connection refused") != 1 {
		t.Errorf("a long outage is logged as: %s", &log)
	}
	f.noteAnswer()
	f.noteAnswer()
	if count("level=INFO") != 1 {
		t.Errorf("the end of the outage is logged as: %s", &log)
	}
}
