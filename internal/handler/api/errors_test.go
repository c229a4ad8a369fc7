package api

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestErrorTableMatchesKafka checks that each row in kafkaErrors has a code and a name that
// franz-go's list of Kafka errors contains. It also checks that a wrapped error matches the same
// row.
func TestErrorTableMatchesKafka(t *testing.T) {
	h := &Access{Logger: slog.New(slog.DiscardHandler)}
	for _, row := range kafkaErrors {
		wrapped := fmt.Errorf("partition 3: %w", row.err)
		got := h.kafkaError(wrapped)
		if got != row.kafkaError {
			t.Errorf("%v: %+v, want %+v: an earlier row matches", row.err, got, row.kafkaError)
		}
		var known *kerr.Error
		renamed := row.Code == 6 // franz-go uses the older name, from before KIP-392
		if err := kerr.ErrorForCode(row.Code); !errors.As(err, &known) ||
			(known.Message != row.name && !renamed) {
			t.Errorf("%v: %d %s, franz-go has %v", row.err, row.Code, row.name, err)
		}
	}
	if h.kafkaError(nil) != noError {
		t.Error("nil has an error code")
	}
}
