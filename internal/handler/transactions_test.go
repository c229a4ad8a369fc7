package handler

import (
	"bytes"
	"context"
	"encoding/hex"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// TestTransactionalIDIsRefusedAsFatal: the bytes of the request by which librdkafka 2.16 begins a
// transactional producer, and the error of the response. librdkafka retries after any error that it
// does not know as fatal.
func TestTransactionalIDIsRefusedAsFatal(t *testing.T) {
	b := newBroker(t)
	var log bytes.Buffer
	b.logger = slog.New(slog.NewTextHandler(&log, nil))
	body, err := hex.DecodeString("0005" + hex.EncodeToString([]byte("txn-1")) + "01")
	must(t, err)
	answer, err := b.Handle(context.Background(), &wire.Request{
		Key: keyFindCoordinator, Version: 2, Body: body, ClientID: "rdkafka",
		Listener: metadata.DefaultListener, Principal: wire.Anonymous,
	})
	must(t, err)
	text := "transactions are not supported yet"
	want := "00000000" + "0035" + "0022" + hex.EncodeToString([]byte(text)) + "ffffffff" + "0000" +
		"ffffffff"
	if got := hex.EncodeToString(replyBytes(t, answer)); got != want {
		t.Errorf("response:\ngot  %s\nwant %s", got, want)
	}
	if answer.Error != txnDenied {
		t.Errorf("error in metrics %q, want %q", answer.Error, txnDenied)
	}
	for _, part := range []string{text, "api=FindCoordinator", "transactionalID=txn-1",
		"clientID=rdkafka"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("log %q does not contain %q", log.String(), part)
		}
	}
}

func TestRefusalsOfOneTransactionalIDAreLoggedOncePerMinute(t *testing.T) {
	begin := time.Now()
	var l refusalLog
	for _, step := range []struct {
		id    string
		after time.Duration
		want  bool
	}{
		{"a", 0, true}, {"a", 59 * time.Second, false}, {"b", 59 * time.Second, true},
		{"b", time.Minute, false}, {"a", time.Minute, true}, {"a", 2 * time.Minute, true},
	} {
		if got := l.due(step.id, begin.Add(step.after)); got != step.want {
			t.Errorf("%s after %v: due %v, want %v", step.id, step.after, got, step.want)
		}
	}
}

// Requests alternate between more than refusedIDsMax transactional ids. Each id is logged at most
// once in a minute, and refusedIDsMax ids at most.
func TestLogOfRefusedTransactionalIDsIsBounded(t *testing.T) {
	var l refusalLog
	begin := time.Now()
	logged := 0
	for i := range 10 * refusedIDsMax {
		for range 2 {
			if l.due(strconv.Itoa(i%(2*refusedIDsMax)), begin) {
				logged++
			}
		}
	}
	if logged != refusedIDsMax || len(l.loggedAt) != refusedIDsMax {
		t.Errorf("got %d messages and %d ids, want %d", logged, len(l.loggedAt), refusedIDsMax)
	}
	if !l.due("late", begin.Add(refusalInterval)) || len(l.loggedAt) != 1 {
		t.Errorf("after a minute: got %d ids, want the new one only", len(l.loggedAt))
	}
}
