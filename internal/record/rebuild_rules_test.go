package record

import (
	"fmt"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// The rules of reference 1.2 about batches that cleaning makes anew, each by its words, for every
// codec, both timestamp types, with and without transactions and horizons, and every way to lose
// records of four.

// rewrite is a batch before and after.
type rewrite struct {
	was, is Batch
	before  []Record
	kept    []Record
	after   []Record
	horizon int64 // what it is rebuilt with, 0: none
}

// rebuildRules are the rules for a batch that keeps a record, and how one is broken: "" if it is
// not.
var rebuildRules = map[string]func(r rewrite) bool{
	"same baseOffset":             func(r rewrite) bool { return r.is.BaseOffset() == r.was.BaseOffset() },
	"same lastOffsetDelta":        func(r rewrite) bool { return r.is.LastOffsetDelta() == r.was.LastOffsetDelta() },
	"same pid/epoch/baseSequence": func(r rewrite) bool { return producerOf(r.is) == producerOf(r.was) },
	"same txn/control bits": func(r rewrite) bool {
		return r.is.Transactional() == r.was.Transactional() && r.is.Control() == r.was.Control()
	},
	"same leader epoch":       func(r rewrite) bool { return r.is.LeaderEpoch() == r.was.LeaderEpoch() },
	"same timestamp type":     func(r rewrite) bool { return r.is.TimestampType() == r.was.TimestampType() },
	"a good checksum":         func(r rewrite) bool { return r.is.CheckCRC() == nil },
	"recordCount = survivors": func(r rewrite) bool { return int(r.is.Count()) == len(r.kept) },
	"each survivor keeps offsetDelta": func(r rewrite) bool {
		return slices.Equal(offsets(r.after),
			offsets(r.kept))
	},
	"each survivor keeps absolute timestamp, key, value, headers (order and duplicates)": func(r rewrite) bool {
		return slices.Equal(texts(r.after), texts(r.kept))
	},
	"CreateTime: maxTimestamp = max of survivors": func(r rewrite) bool {
		return r.is.TimestampType() != CreateTime ||
			r.is.MaxTimestamp() == slices.Max(timestamps(r.kept))
	},
	"CreateTime: baseTimestamp = first survivor's ts": func(r rewrite) bool {
		return r.is.TimestampType() != CreateTime || r.horizon != 0 ||
			r.is.BaseTimestamp() == r.kept[0].Timestamp
	},
	"LogAppendTime: maxTimestamp preserved": func(r rewrite) bool {
		return r.is.TimestampType() != LogAppendTime || r.is.MaxTimestamp() == r.was.MaxTimestamp()
	},
	"codec = the batch's": func(r rewrite) bool { return r.is.Codec() == r.was.Codec() },
	"horizon: bit 6 and baseTimestamp": func(r rewrite) bool {
		ms, ok := r.is.DeleteHorizon()
		return ok == (r.horizon != 0) && ms == r.horizon &&
			(!ok || r.is.BaseTimestamp() == r.horizon)
	},
}

// emptyRules are those for a batch that keeps none.
var emptyRules = map[string]func(r rewrite) bool{
	"61 bytes":             func(r rewrite) bool { return len(r.is) == 61 },
	"count 0":              func(r rewrite) bool { return r.is.Count() == 0 && len(r.after) == 0 },
	"codec none":           func(r rewrite) bool { return r.is.Codec() == compress.None },
	"baseTimestamp -1":     func(r rewrite) bool { return r.is.BaseTimestamp() == -1 },
	"maxTimestamp kept":    func(r rewrite) bool { return r.is.MaxTimestamp() == r.was.MaxTimestamp() },
	"lastOffsetDelta kept": func(r rewrite) bool { return r.is.LastOffsetDelta() == r.was.LastOffsetDelta() },
	"bit 6 cleared":        func(r rewrite) bool { _, ok := r.is.DeleteHorizon(); return !ok },
	"a good checksum":      func(r rewrite) bool { return r.is.CheckCRC() == nil },
	"other identity fields and txn/control bits kept": func(r rewrite) bool {
		was, is := IdentityOf(r.was), IdentityOf(r.is)
		was.DeleteHorizonMs, is.DeleteHorizonMs = 0, 0
		return was == is
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

func TestRules12OfRebuiltBatches(t *testing.T) {
	twice := []Header{{Key: []byte("h"), Value: []byte("1")}, {Key: []byte("a")},
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
				id.DeleteHorizonMs = 40_000 // stamped by a pass before
			}
			was := buildBatch(t, codec, id, keyed("a", "1", 50_000),
				Record{Key: []byte("b"), Timestamp: 30_000, Headers: twice},
				Record{Value: []byte("v"), Timestamp: -1}, keyed("", "", 60_000))
			for keep := range 1 << 4 {
				for _, horizon := range []int64{0, 100_000} {
					checkRewrite(t, was, keep, horizon)
					checked++
				}
			}
		}
	}
	if checked != 5*8*16*2 {
		t.Errorf("%d rewrites", checked)
	}
}

// checkRewrite keeps the records whose bit is set in keep, and stamps a horizon unless it is 0.
func checkRewrite(t *testing.T, was Batch, keep int, horizon int64) {
	t.Helper()
	r := rewrite{was: was, before: collect(t, was), horizon: horizon}
	id := IdentityOf(was)
	if horizon == 0 {
		r.horizon = id.DeleteHorizonMs // a stamp that is there stays
	}
	id.DeleteHorizonMs = r.horizon
	builder := NewBuilder(was.Codec(), compress.LevelDefault)
	builder.Reset(id)
	for i := range r.before {
		if keep&(1<<i) != 0 {
			builder.Add(&r.before[i])
			r.kept = append(r.kept, r.before[i])
		}
	}
	built, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.is = built
	r.after = collect(t, r.is)
	rules := rebuildRules
	if keep == 0 {
		rules = emptyRules
	}
	for rule, holds := range rules {
		if !holds(r) {
			t.Errorf("%s, type %d, kept %04b, horizon %d: %s: broken", was.Codec(),
				was.TimestampType(), keep, horizon, rule)
		}
	}
}
