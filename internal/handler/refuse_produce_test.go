package handler

import (
	"fmt"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/pressure"
	"heartwood.dev/heartwood/internal/record"
)

// TestProduceIsRefusedOnAFullVolume checks that the response contains NOT_ENOUGH_REPLICAS (19) in
// every version, and that nothing is appended. Errors that are not retriable take precedence.
func TestProduceIsRefusedOnAFullVolume(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	b.mustProduce("tickets", "before")
	refusal := fmt.Errorf("%w: 95%% of the volume is used", pressure.ErrRejected)
	b.store.SetRefusal(refusal)
	for version := int16(3); version <= 13; version++ {
		answer := b.produce(version, "tickets", batch(t, compress.None, "refused"))
		if answer.ErrorCode != 19 || answer.BaseOffset != -1 ||
			version >= 8 && (answer.ErrorMessage == nil || *answer.ErrorMessage != refusal.Error()) {
			t.Errorf("version %d: %+v, want NOT_ENOUGH_REPLICAS", version, answer)
		}
	}
	if answer := b.produce(9, "unknown", batch(t, compress.None, "v")); answer.ErrorCode != 3 {
		t.Errorf("unknown topic: error %d, want UNKNOWN_TOPIC_OR_PARTITION", answer.ErrorCode)
	}
	b.topic("elsewhere", elsewhere)
	if answer := b.produce(9, "elsewhere", batch(t, compress.None, "v")); answer.ErrorCode != 6 {
		t.Errorf("other leader: error %d, want NOT_LEADER_OR_FOLLOWER", answer.ErrorCode)
	}
	zstd := batch(t, compress.Zstd, "v")
	if answer := b.produce(6, "tickets", zstd); answer.ErrorCode != 76 {
		t.Errorf("zstd in version 6: error %d, want 76", answer.ErrorCode)
	}
	if got := values(t, b.fetch(11, "tickets", 0).RecordBatches); len(got) != 1 {
		t.Errorf("records %v, want only the one from before", got)
	}
	b.store.SetRefusal(nil)
	b.mustProduce("tickets", "after")
}

// TestRefusalHidesNoDuplicate checks that a retry of an appended batch is acknowledged with its
// offset, and that all new batches of a producer get the same error. Some clients fail permanently
// if they get an error about a sequence number instead.
func TestRefusalHidesNoDuplicate(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	sequenced := func(sequence int32) []byte {
		return batchOf(t, compress.None,
			record.Identity{ProducerID: 7, BaseSequence: sequence}, "value")
	}
	for sequence := range int32(2) {
		if answer := b.produce(9, "tickets", sequenced(sequence)); answer.ErrorCode != 0 {
			t.Fatalf("batch %d: error %d", sequence, answer.ErrorCode)
		}
	}
	b.store.SetRefusal(pressure.ErrRejected)
	for _, test := range []struct {
		sequence int32
		code     int16
		offset   int64
	}{{0, 0, 0}, {1, 0, 1}, {2, 19, -1}, {3, 19, -1}} {
		answer := b.produce(9, "tickets", sequenced(test.sequence))
		if answer.ErrorCode != test.code || answer.BaseOffset != test.offset {
			t.Errorf("sequence %d: error %d, offset %d, want %d and %d", test.sequence,
				answer.ErrorCode, answer.BaseOffset, test.code, test.offset)
		}
	}
	b.store.SetRefusal(nil)
	if answer := b.produce(9, "tickets", sequenced(2)); answer.BaseOffset != 2 {
		t.Errorf("after the refusal: %+v", answer)
	}
}
