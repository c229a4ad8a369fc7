package handler

import (
	"fmt"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/pressure"
)

// TestProduceIsRefusedOnAFullVolume: every version answers with NOT_ENOUGH_REPLICAS (19), and
// nothing is appended. Errors that no retry can mend have precedence.
func TestProduceIsRefusedOnAFullVolume(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	var refusal error
	b.opts.RefuseProduce = func() error { return refusal }
	b.mustProduce("tickets", "before")
	refusal = fmt.Errorf("%w: 95%% of the volume is used", pressure.ErrRejected)
	for version := int16(3); version <= 13; version++ {
		answer := b.produce(version, "tickets", batch(t, compress.None, "refused"))
		if answer.ErrorCode != 19 || answer.BaseOffset != -1 ||
			version >= 8 && (answer.ErrorMessage == nil || *answer.ErrorMessage != refusal.Error()) {
			t.Errorf("version %d: %+v, want NOT_ENOUGH_REPLICAS", version, answer)
		}
	}
	if answer := b.produce(9, "unknown", batch(t, compress.None, "v")); answer.ErrorCode != 19 {
		t.Errorf("unknown topic: error %d", answer.ErrorCode)
	}
	zstd := batch(t, compress.Zstd, "v")
	if answer := b.produce(6, "tickets", zstd); answer.ErrorCode != 76 {
		t.Errorf("zstd in version 6: error %d, want 76", answer.ErrorCode)
	}
	if got := values(t, b.fetch(11, "tickets", 0).RecordBatches); len(got) != 1 {
		t.Errorf("records %v, want only the one from before", got)
	}
	refusal = nil
	b.mustProduce("tickets", "after")
}
