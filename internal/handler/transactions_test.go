package handler

import (
	"bytes"
	"context"
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"

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
		Listener: metadata.DefaultListener,
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
