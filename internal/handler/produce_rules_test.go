package handler

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Offsets of the fields of a batch (docs/internals/format/batch.md).
const (
	batchBaseOffset = 0
	batchMagic      = 16
	batchAttributes = 22 // low byte of the attributes
	batchLastDelta  = 23
	batchProducerID = 43
	batchCount      = 57
	batchRecords    = 61
)

// sealed returns a changed copy of a batch, with a correct checksum.
func sealed(b []byte, change func([]byte)) []byte {
	b = slices.Clone(b)
	change(b)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func put32(position int, value uint32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[position:], value) }
}

// stamped returns a batch with one record for each timestamp. The timestamps are offsets from the
// current time. Each byte of keys is the key of a record; '-' is a null key.
func stamped(t *testing.T, codec compress.Codec, keys string, offsets ...time.Duration) []byte {
	t.Helper()
	builder := record.NewBuilder(codec, compress.LevelDefault)
	builder.Reset(record.Identity{LastOffsetDelta: int32(len(offsets) - 1), LeaderEpoch: -1,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
	for i, offset := range offsets {
		r := record.Record{Offset: int64(i), Timestamp: time.Now().Add(offset).UnixMilli(),
			Value: []byte("value")}
		if keys[i] != '-' {
			r.Key = []byte{keys[i]}
		}
		builder.Add(&r)
	}
	built, err := builder.Build(nil)
	must(t, err)
	return built
}

// rules returns a broker with the topics for TestProduceRules, which have different settings.
func rules(t *testing.T) *broker {
	b := newBroker(t)
	set := func(name string, change func(*topicconfig.Settings)) {
		b.topic(name, func(t *metadata.Topic) { change(&t.Settings) })
	}
	set("plain", func(s *topicconfig.Settings) { s.MessageBytesMax = 200 })
	set("compacted", func(s *topicconfig.Settings) { s.Delete, s.Compact = false, true })
	set("uncompressed", func(s *topicconfig.Settings) {
		s.KeepCodec, s.MessageBytesMax = false,
			2000
	})
	set("small segments", func(s *topicconfig.Settings) { s.SegmentBytes = 300 })
	set("both", func(s *topicconfig.Settings) { s.SegmentBytes, s.MessageBytesMax = 100, 150 })
	return b
}

// ruleCase is a batch that violates one rule or only just satisfies it.
type ruleCase struct {
	rule    string // name of the rule, and of the case
	topic   string
	version int16
	records []byte
	code    int16
	text    string // part of the error message
}

// TestProduceRules checks every rule for produced batches, both with batches that violate the rule
// and with batches that just satisfy it.
func TestProduceRules(t *testing.T) {
	good := batch(t, compress.None, "a", "b")
	zstd := batch(t, compress.Zstd, "a")
	// The length fields of the record and of its value are each one byte longer than with an empty
	// value.
	exact := batch(t, compress.None, strings.Repeat("x", 200-len(batch(t, compress.None, ""))-2))
	packed := batch(t, compress.Zstd, strings.Repeat("x", 5000))
	cases := []ruleCase{
		{"exactly one batch: none", "plain", 9, nil, 87, "incomplete record batch"},
		{"exactly one batch: a part of one", "plain", 9, good[:len(good)-1], 87,
			"incomplete record batch"},
		{"exactly one batch: two", "plain", 9, slices.Concat(good, good), 87, "exactly one"},
		{"magic 2: 0", "plain", 9, sealed(good, func(b []byte) { b[batchMagic] = 0 }), 87,
			"magic 0"},
		{"magic 2: 1", "plain", 9, sealed(good, func(b []byte) { b[batchMagic] = 1 }), 87,
			"magic 1"},
		{"zstd below v7", "plain", 6, zstd, 76, "zstd needs produce version 7"},
		{"zstd from v7 on", "plain", 7, zstd, 0, ""},
		{"client batch baseOffset == 0", "plain", 9,
			sealed(good, func(b []byte) { b[batchBaseOffset+7] = 1 }), 87, "base offset 1"},
		{"12+batchLength <= max.message.bytes: just", "plain", 9, exact, 0, ""},
		{"12+batchLength <= max.message.bytes: one more", "plain", 9,
			batch(t, compress.None, strings.Repeat("x", 1+200-len(batch(t, compress.None, ""))-2)),
			10, "batch of 201 bytes, at most 200"},
		{"the compressed size", "plain", 9, packed, 0, ""},
		{"size >= 61", "plain", 9, sealed(good, put32(8, 48)), 2, "batch length 48"},
		{"size is not negative", "plain", 9, sealed(good, put32(8, 1<<31)), 2,
			"batch length -2147483648"},
		{"size beyond what came", "plain", 9, sealed(good, put32(8, 1<<31-1)), 87,
			"incomplete record batch"},
		{"CRC matches", "plain", 9, append(slices.Clone(good[:len(good)-1]), 0x55), 2, "checksum"},
		{"count > 0", "plain", 9, sealed(good, put32(batchCount, 0)), 87, "0 records"},
		{"count > 0: negative", "plain", 9,
			sealed(sealed(good, put32(batchCount, 1<<32-1)), put32(batchLastDelta, 1<<32-2)), 87,
			"-1 records"},
		{"count == lastOffsetDelta+1", "plain", 9, sealed(good, put32(batchLastDelta, 2)), 87,
			"2 records and last offset delta 2"},
		{"no control bit", "plain", 9, sealed(good, func(b []byte) { b[batchAttributes] |= 0x20 }),
			87, "control"},
		{"pid >= 0 implies baseSequence >= 0", "plain", 9,
			sealed(good, func(b []byte) { clear(b[batchProducerID:][:8]) }), 87,
			"producer id 0 with base sequence -1"},
		{"records parse", "plain", 9, sealed(good, func(b []byte) { b[batchRecords] = 0xff }), 87,
			"record 0"},
		{"records parse: in their codec", "plain", 9,
			sealed(good, func(b []byte) { b[batchAttributes] |= 1 }), 87, "decompress"},
		{"count matches: fewer records", "plain", 9,
			sealed(sealed(good, put32(batchCount, 3)), put32(batchLastDelta, 2)), 87, "record 2"},
		{"count matches: more records", "plain", 9,
			sealed(sealed(good, put32(batchCount, 1)), put32(batchLastDelta, 0)), 87,
			"bytes after 1 records"},
		{"compact topic: no null key", "compacted", 9, stamped(t, compress.LZ4, "a-b-", 0, 0, 0, 0),
			87, "2 records rejected, the first is record 1"},
		{"compact topic: keys", "compacted", 9, stamped(t, compress.LZ4, "ab", 0, 0), 0, ""},
		{"CreateTime outside now+after.max", "plain", 9,
			stamped(t, compress.None, "ab", 0, 61*time.Minute), 32,
			"the first is record 1: timestamp"},
		{"CreateTime within now+after.max", "plain", 9,
			stamped(t, compress.None, "ab", 0, 59*time.Minute), 0, ""},
		{"CreateTime before.max is unlimited", "plain", 9,
			stamped(t, compress.None, "ab", 0, -50*365*24*time.Hour), 0, ""},
		{"ts -1 exempt", "plain", 9, stamped(t, compress.None, "a", time.Until(time.UnixMilli(-1))),
			0, ""},
		{"producer set LogAppendTime", "plain", 9,
			sealed(good, func(b []byte) { b[batchAttributes] |= 8 }), 32, "log append time"},
		{"after recompression, size again", "uncompressed", 9, packed, 10, "at most 2000"},
		{"batch > segment.bytes", "small segments", 9,
			batch(t, compress.None, strings.Repeat("x", 300)), 18, "segments have 300"},
		{"transactional without verified or ongoing txn", "plain", 9,
			batchOf(t, compress.None, record.Identity{Transactional: true, ProducerID: 1}, "a"), 53,
			"no transactional id"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) { c.check(t, rules(t)) })
	}
}

// TestProduceRulesInTheirOrder checks the order of the rules: if a batch violates several rules,
// the response contains the error of the first one. An invalid timestamp is an exception: it takes
// precedence over the errors of other records.
func TestProduceRulesInTheirOrder(t *testing.T) {
	good := batch(t, compress.None, "a", "b")
	large := batch(t, compress.None, strings.Repeat("x", 500))
	zstd := batch(t, compress.Zstd, "a")
	offset := func(b []byte) { b[batchBaseOffset+7] = 1 }
	control := func(b []byte) { b[batchAttributes] |= 0x20 }
	unsealed := func(b []byte) []byte { b = slices.Clone(b); b[17]++; return b }
	for _, c := range []ruleCase{
		{"magic before zstd's version", "plain", 3,
			sealed(zstd, func(b []byte) { b[batchMagic] = 1 }), 87, "magic 1"},
		{"a whole batch before zstd's version", "plain", 3, zstd[:len(zstd)-1], 87, "incomplete record"},
		{"zstd's version before the second batch", "plain", 3, slices.Concat(zstd, zstd), 76,
			"zstd"},
		{"zstd's version before the base offset", "plain", 3, sealed(zstd, offset), 76, "zstd"},
		{"base offset before the size", "plain", 9, sealed(large, offset), 87, "base offset"},
		{"size before the checksum", "plain", 9, unsealed(large), 10, "at most 200"},
		{"checksum before the header", "plain", 9, unsealed(sealed(good, control)), 2, "checksum"},
		{"header before the records", "plain", 9,
			sealed(good, func(b []byte) { control(b); b[batchRecords] = 0xff }), 87, "control"},
		{"records that do not parse before their rules", "compacted", 9,
			sealed(good, func(b []byte) { b[len(b)-1] = 0x7f }), 87, "headers"},
		{"timestamps win over keys", "compacted", 9,
			stamped(t, compress.None, "-ab", 0, 0, 2*time.Hour), 32,
			"2 records rejected, the first is record 0"},
		{"records before the size after recompression", "uncompressed", 9,
			stamped(t, compress.Zstd, strings.Repeat("a", 500),
				slices.Repeat([]time.Duration{2 * time.Hour}, 500)...), 32, "500 records"},
		{"max.message.bytes before segment.bytes", "both", 9,
			batch(t, compress.None, strings.Repeat("x", 100)), 10, "at most 150"},
		{"segment.bytes before the sequence", "both", 9,
			batchOf(t, compress.None, record.Identity{ProducerID: 1, BaseSequence: 7},
				strings.Repeat("x", 50)), 18, "segments"},
	} {
		t.Run(c.rule, func(t *testing.T) { c.check(t, rules(t)) })
	}
}

// check produces the batch and checks the whole response. Each case uses a new broker, so the
// offset of a valid batch must be 0.
func (c ruleCase) check(t *testing.T, b *broker) {
	t.Helper()
	b.t = t
	answer := b.produce(c.version, c.topic, slices.Clone(c.records))
	if answer.ErrorCode != c.code {
		t.Fatalf("error %d, want %d: %s", answer.ErrorCode, c.code, textOf(answer.ErrorMessage))
	}
	if c.code == 0 {
		if answer.BaseOffset != 0 || answer.ErrorMessage != nil || len(answer.ErrorRecords) > 0 {
			t.Errorf("answer %+v", answer)
		}
		return
	}
	if answer.BaseOffset != -1 || answer.LogAppendTime != -1 || c.version >= 5 &&
		answer.LogStartOffset != -1 {
		t.Errorf("an error with offsets: %+v", answer)
	}
	if c.version >= 8 && !strings.Contains(textOf(answer.ErrorMessage), c.text) {
		t.Errorf("error message: got %q, want it to contain %q", textOf(answer.ErrorMessage), c.text)
	}
	if got := b.fetch(12, c.topic, 0); got.HighWatermark != 0 || len(got.RecordBatches) > 0 {
		t.Errorf("high watermark after a rejected batch: got %d, want 0", got.HighWatermark)
	}
}

func textOf(message *string) string {
	if message == nil {
		return "no message"
	}
	return *message
}

// TestProduceNamesEachInvalidRecord checks that a response with INVALID_RECORD or INVALID_TIMESTAMP
// lists each invalid record once, by its index in the batch (KIP-467).
func TestProduceNamesEachInvalidRecord(t *testing.T) {
	b := rules(t)
	for name, c := range map[string]struct {
		topic   string
		records []byte
		want    []int32
	}{
		"keys": {"compacted", stamped(t, compress.Gzip, "a-b-", 0, 0, 0, 0), []int32{1, 3}},
		"timestamps": {"plain", stamped(t, compress.Snappy, "abc", 2*time.Hour, 0, 3*time.Hour),
			[]int32{0, 2}},
		"none": {"plain",
			sealed(batch(t, compress.None, "a"), func(b []byte) { b[batchRecords] = 0xff }), nil},
	} {
		answer := b.produce(8, c.topic, c.records)
		var got []int32
		for _, r := range answer.ErrorRecords {
			got = append(got, r.RelativeOffset)
			if textOf(r.ErrorMessage) == "" {
				t.Errorf("%s: record %d has no message", name, r.RelativeOffset)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: records %v, want %v", name, got, c.want)
		}
	}
}

// TestProduceRulesOfProducers checks the rules for producer epochs and sequence numbers with a
// series of batches on the same broker.
func TestProduceRulesOfProducers(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	for _, c := range []struct {
		rule     string
		id       int64
		epoch    int16
		sequence int32
		code     int16
		offset   int64
	}{
		{"no state for pid: any sequence accepted", 7, 1, 40, 0, 0},
		{"the next sequence", 7, 1, 42, 0, 2},
		{"same (first,last) sequence: the old offset", 7, 1, 40, 0, 0},
		{"sequence gap", 7, 1, 45, 45, -1},
		{"a sequence between two batches", 7, 1, 41, 45, -1},
		{"epoch < current", 7, 0, 44, 47, -1},
		{"new epoch not starting at 0", 7, 2, 44, 45, -1},
		{"new epoch starting at 0", 7, 2, 0, 0, 4},
		{"the old epoch's batch again", 7, 1, 42, 47, -1},
		{"1", 7, 2, 2, 0, 6}, {"2", 7, 2, 4, 0, 8}, {"3", 7, 2, 6, 0, 10}, {"4", 7, 2, 8, 0, 12},
		{"5", 7, 2, 10, 0, 14},
		{"one of the last 5 batches", 7, 2, 2, 0, 6},
		{"the sixth to last", 7, 2, 0, 45, -1},
		{"another producer has its own sequence", 8, 0, 0, 0, 16},
	} {
		id := record.Identity{ProducerID: c.id, ProducerEpoch: c.epoch, BaseSequence: c.sequence}
		answer := b.produce(9, "tickets", batchOf(t, compress.None, id, "a", "b"))
		if answer.ErrorCode != c.code || answer.BaseOffset != c.offset {
			t.Errorf("%s: error %d, offset %d, want %d and %d", c.rule, answer.ErrorCode,
				answer.BaseOffset, c.code, c.offset)
		}
	}
}
