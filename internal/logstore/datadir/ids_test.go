package datadir

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
)

func TestIDsAreLoggedAsText(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "partition",
		checkpoint.PartitionID{Topic: "orders", Index: 3},
		"topic", TopicID{1, 2, 3})
	if line := out.String(); !strings.Contains(line, `"partition":"orders-3"`) ||
		!strings.Contains(line, `"topic":"AQIDAAAAAAAAAAAAAAAAAA"`) {
		t.Error(line)
	}
}
