package record

import (
	"fmt"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// This file checks the rules for rebuilt batches (docs/internals/format/batch.md) for every codec,
// for both timestamp types, with and without transactions and delete horizons, and for every subset
// of four records.

// rewrite consists of a batch before cleaning and the rebuilt batch.
type rewrite struct {
	oldBatch, newBatch Batch
	oldRecords         []Record
	survivors          []Record
	newRecords         []Record
	horizon            int64 // delete horizon of the rebuilt batch; 0 if there is none
}

// rebuildRules contains the rules for a batch that keeps at least one record. Each function reports
// whether the rewrite obeys its rule.
var rebuildRules = map[string]func(r rewrite) bool{
	"same baseOffset":             func(r rewrite) bool { return r.newBatch.BaseOffset() == r.oldBatch.BaseOffset() },
	"same lastOffsetDelta":        func(r rewrite) bool { return r.newBatch.LastOffsetDelta() == r.oldBatch.LastOffsetDelta() },
	"same pid/epoch/baseSequence": func(r rewrite) bool { return producerOf(r.newBatch) == producerOf(r.oldBatch) },
	"same txn/control bits": func(r rewrite) bool {
		return r.newBatch.Transactional() == r.oldBatch.Transactional() &&
			r.newBatch.Control() == r.oldBatch.Control()
	},
	"same leader epoch":       func(r rewrite) bool { return r.newBatch.LeaderEpoch() == r.oldBatch.LeaderEpoch() },
	"same timestamp type":     func(r rewrite) bool { return r.newBatch.TimestampType() == r.oldBatch.TimestampType() },
	"valid checksum":          func(r rewrite) bool { return r.newBatch.CheckCRC() == nil },
	"recordCount = survivors": func(r rewrite) bool { return int(r.newBatch.Count()) == len(r.survivors) },
	"each survivor keeps offsetDelta": func(r rewrite) bool {
		return slices.Equal(offsets(r.newRecords),
			offsets(r.survivors))
	},
	"each survivor keeps absolute timestamp, key, value, headers (order and duplicates)": func(r rewrite) bool {
		return slices.Equal(texts(r.newRecords), texts(r.survivors))
	},
	"CreateTime: maxTimestamp = max of survivors": func(r rewrite) bool {
		return r.newBatch.TimestampType() != CreateTime ||
			r.newBatch.MaxTimestamp() == slices.Max(timestamps(r.survivors))
	},
	"CreateTime: baseTimestamp = first survivor's ts": func(r rewrite) bool {
		return r.newBatch.TimestampType() != CreateTime || r.horizon != 0 ||
			r.newBatch.BaseTimestamp() == r.survivors[0].Timestamp
	},
	"LogAppendTime: maxTimestamp preserved": func(r rewrite) bool {
		return r.newBatch.TimestampType() != LogAppendTime ||
			r.newBatch.MaxTimestamp() == r.oldBatch.MaxTimestamp()
	},
	"codec = the batch's": func(r rewrite) bool { return r.newBatch.Codec() == r.oldBatch.Codec() },
	"horizon: bit 6 and baseTimestamp": func(r rewrite) bool {
		ms, ok := r.newBatch.DeleteHorizon()
		return ok == (r.horizon != 0) && ms == r.horizon &&
			(!ok || r.newBatch.BaseTimestamp() == r.horizon)
	},
}

// emptyRules contains the rules for a batch that keeps no record.
var emptyRules = map[string]func(r rewrite) bool{
	"61 bytes": func(r rewrite) bool { return len(r.newBatch) == 61 },
	"count 0": func(r rewrite) bool {
		return r.newBatch.Count() == 0 && len(r.newRecords) == 0
	},
	"codec none":           func(r rewrite) bool { return r.newBatch.Codec() == compress.None },
	"baseTimestamp -1":     func(r rewrite) bool { return r.newBatch.BaseTimestamp() == -1 },
	"maxTimestamp kept":    func(r rewrite) bool { return r.newBatch.MaxTimestamp() == r.oldBatch.MaxTimestamp() },
	"lastOffsetDelta kept": func(r rewrite) bool { return r.newBatch.LastOffsetDelta() == r.oldBatch.LastOffsetDelta() },
	"bit 6 cleared": func(r rewrite) bool {
		_, ok := r.newBatch.DeleteHorizon()
		return !ok
	},
	"valid checksum": func(r rewrite) bool { return r.newBatch.CheckCRC() == nil },
	"other identity fields and txn/control bits kept": func(r rewrite) bool {
		want, got := IdentityOf(r.oldBatch), IdentityOf(r.newBatch)
		want.DeleteHorizonMs, got.DeleteHorizonMs = 0, 0
		return want == got
	},
}

func producerOf(b Batch) string {
	return fmt.Sprint(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence())
}

func offsets(records []Record) (all []int64) {
	for _, r := range records {
		all = append(all, r.Offset)
	}
	return all
}

func timestamps(records []Record) (all []int64) {
	for _, r := range records {
		all = append(all, r.Timestamp)
	}
	return all
}

func TestRebuiltBatchesFollowTheFormatRules(t *testing.T) {
	duplicateHeaders := []Header{{Key: []byte("h"), Value: []byte("1")}, {Key: []byte("a")},
		{Key: []byte("h"), Value: []byte{}}}
	checked := 0
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		for shape := range 8 {
			id := Identity{
				BaseOffset: 1 << 33, LastOffsetDelta: 3, LeaderEpoch: 9,
				TimestampType: TimestampType(shape & 1), MaxTimestamp: 90_000,
				Transactional: shape&2 != 0, ProducerID: 77, ProducerEpoch: 3,
				BaseSequence: sequenceNumberMax - 1,
			}
			if shape&4 != 0 {
				id.DeleteHorizonMs = 40_000 // as set by an earlier pass
			}
			oldBatch := buildBatch(t, codec, id, keyed("a", "1", 50_000),
				Record{Key: []byte("b"), Timestamp: 30_000, Headers: duplicateHeaders},
				Record{Value: []byte("v"), Timestamp: -1}, keyed("", "", 60_000))
			for keep := range 1 << 4 {
				for _, horizon := range []int64{0, 100_000} {
					checkRewrite(t, oldBatch, keep, horizon)
					checked++
				}
			}
		}
	}
	if checked != 5*8*16*2 {
		t.Errorf("checked %d rewrites", checked)
	}
}

// checkRewrite rebuilds a batch with the records whose bits are set in keep. It sets the delete
// horizon unless horizon is 0.
func checkRewrite(t *testing.T, oldBatch Batch, keep int, horizon int64) {
	t.Helper()
	r := rewrite{oldBatch: oldBatch, oldRecords: collect(t, oldBatch), horizon: horizon}
	id := IdentityOf(oldBatch)
	if horizon == 0 {
		r.horizon = id.DeleteHorizonMs // an existing horizon is kept
	}
	id.DeleteHorizonMs = r.horizon
	builder := NewBuilder(oldBatch.Codec(), compress.LevelDefault)
	builder.Reset(id)
	for i := range r.oldRecords {
		if keep&(1<<i) != 0 {
			builder.Add(&r.oldRecords[i])
			r.survivors = append(r.survivors, r.oldRecords[i])
		}
	}
	built, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.newBatch = built
	r.newRecords = collect(t, r.newBatch)
	rules := rebuildRules
	if keep == 0 {
		rules = emptyRules
	}
	for rule, holds := range rules {
		if !holds(r) {
			t.Errorf("%s, type %d, kept %04b, horizon %d: rule %q is violated", oldBatch.Codec(),
				oldBatch.TimestampType(), keep, horizon, rule)
		}
	}
}
