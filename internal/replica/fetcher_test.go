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

// A leader that is restarted in order is not warned of; one that stays away is, once, and so is its
// return.
func TestOnlyALeaderThatStaysAwayIsWarnedOf(t *testing.T) {
	var log bytes.Buffer
	f := &fetcher{set: &Set{logger: slog.New(slog.NewTextHandler(&log, nil))}}
	leader, refused, began := metadata.Broker{ID: 3}, errors.New("connection refused"),
		time.Unix(1000, 0)
	f.mu.leader = leader
	count := func(text string) int { return strings.Count(log.String(), text) }

	f.noteFailure(leader, refused, began)
	f.noteFailure(leader, refused, began.Add(warnAfter-time.Millisecond))
	f.noteAnswer()
	if log.Len() > 0 {
		t.Errorf("a short absence is told: %s", &log)
	}
	began = began.Add(warnAfter) // an absence of its own
	for after := time.Duration(0); after <= 3*warnAfter; after += time.Second {
		f.noteFailure(leader, refused, began.Add(after))
	}
	if count("level=WARN") != 1 || count("connection refused") != 1 {
		t.Errorf("a long absence is told as: %s", &log)
	}
	f.noteAnswer()
	f.noteAnswer()
	if count("level=INFO") != 1 {
		t.Errorf("the return is told as: %s", &log)
	}
}
