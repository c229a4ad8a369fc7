package record

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// vectors returns the batches in testdata/java by name. Vectors.java in that directory wrote them
// with Kafka's Java code.
func vectors(t testing.TB) map[string]Batch {
	t.Helper()
	names, err := filepath.Glob("testdata/java/*.bin")
	if err != nil || len(names) < 30 {
		t.Fatalf("%d vectors, %v", len(names), err)
	}
	all := map[string]Batch{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, rest, err := Next(raw)
		if err != nil || len(rest) > 0 || b.CheckCRC() != nil {
			t.Fatalf("%s: %v, %d bytes left, %v", name, err, len(rest), b.CheckCRC())
		}
		all[strings.TrimSuffix(filepath.Base(name), ".bin")] = b
	}
	return all
}

// javaText formats a batch as testdata/java/Vectors.java does.
func javaText(t testing.TB, b Batch) string {
	t.Helper()
	horizon := int64(-1)
	if ms, ok := b.DeleteHorizon(); ok {
		horizon = ms
	}
	kind := map[TimestampType]string{CreateTime: "CreateTime",
		LogAppendTime: "LogAppendTime"}[b.TimestampType()]
	out := fmt.Sprintf(
		"batch %d..%d epoch %d %s %s max %d producer %d/%d seq %d..%d txn %v control %v horizon %d count %d\n",
		b.BaseOffset(),
		b.LastOffset(),
		b.LeaderEpoch(),
		b.Codec(),
		kind,
		b.MaxTimestamp(),
		b.ProducerID(),
		b.ProducerEpoch(),
		b.BaseSequence(),
		b.LastSequence(),
		b.Transactional(),
		b.Control(),
		horizon,
		b.Count(),
	)
	for _, r := range collect(t, b) {
		out += fmt.Sprintf("%d %d %s %s", r.Offset, r.Timestamp, javaHex(r.Key), javaHex(r.Value))
		for _, h := range r.Headers {
			out += fmt.Sprintf(" %s:%s", javaHex(h.Key), javaHex(h.Value))
		}
		out += "\n"
	}
	return out
}

func javaHex(value []byte) string {
	switch {
	case value == nil:
		return "-"
	case len(value) > 100:
		return fmt.Sprintf("%dx%x", len(value), value[:1])
	}
	return "'" + hex.EncodeToString(value)
}

func TestRecordsReadsKafkasBatches(t *testing.T) {
	for name, b := range vectors(t) {
		want, err := os.ReadFile(filepath.Join("testdata", "java", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if got := javaText(t, b); got != string(want) {
			t.Errorf("%s:\ngot   %s\nKafka %s", name, got, want)
		}
	}
}

// rebuilt returns a batch that is built from b's identity and records.
func rebuilt(t *testing.T, b Batch, codec compress.Codec) Batch {
	t.Helper()
	builder := NewBuilder(codec, compress.LevelDefault)
	builder.Reset(IdentityOf(b))
	for _, r := range collect(t, b) {
		builder.Add(&r)
	}
	built, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Batch(built)
}

// TestBuilderProducesKafkasBatchesByteForByte rebuilds Kafka's uncompressed batches, which include
// nulls, headers, delete horizons, markers and cleaned batches. An uncompressed batch has only one
// encoding, so the bytes must be equal. The test excludes batches with log append time, because
// Kafka's header keeps the base timestamp that the client sent.
func TestBuilderProducesKafkasBatchesByteForByte(t *testing.T) {
	compared := 0
	for name, b := range vectors(t) {
		if b.Codec() != compress.None || b.TimestampType() == LogAppendTime {
			continue
		}
		compared++
		if again := rebuilt(t, b, compress.None); !bytes.Equal(again, b) {
			t.Errorf("%s:\ngot   %x\nKafka %x", name, again, []byte(b))
		}
	}
	if compared < 10 {
		t.Errorf("compared only %d batches", compared)
	}
}

func TestKafkasBatchesRoundTripThroughOurCodecs(t *testing.T) {
	for name, b := range vectors(t) {
		if b.Control() || b.Count() == 0 { // such batches are never compressed
			continue
		}
		want := javaText(t, b)
		for codec := compress.None; codec <= compress.Zstd; codec++ {
			got := javaText(t, rebuilt(t, b, codec))
			if got != strings.Replace(want, " "+b.Codec().String()+" ", " "+codec.String()+" ", 1) {
				t.Errorf("%s in %s:\ngot  %s\nwant %s", name, codec, got, want)
			}
		}
	}
}

func TestKafkasProducersBatchesAreValid(t *testing.T) {
	accepted := 0
	for name, b := range vectors(t) {
		fromClient := b.BaseOffset() == 0 && b.TimestampType() == CreateTime
		want := string(b)
		valid, err := Validate(bytes.Clone(b), Rules{KeepCodec: true}, now)
		if fromClient != (err == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if fromClient {
			accepted++
			if string(valid.Batch) != want {
				t.Errorf("%s is not stored as sent", name)
			}
		}
	}
	if accepted < 20 {
		t.Errorf("accepted only %d batches", accepted)
	}
}

func TestParseControlReadsKafkasMarkers(t *testing.T) {
	all := vectors(t)
	for name, want := range map[string]Control{
		"control-abort": {ControlAbort, 8}, "control-commit": {ControlCommit, 9},
	} {
		records := collect(t, all[name])
		if len(records) != 1 || !all[name].Control() {
			t.Fatalf("%s holds %d records", name, len(records))
		}
		got, err := ParseControl(&records[0])
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		key, value := got.Bytes()
		if !bytes.Equal(key, records[0].Key) || !bytes.Equal(value, records[0].Value) {
			t.Errorf("%s: got %x = %x, Kafka writes %x = %x", name, key, value, records[0].Key,
				records[0].Value)
		}
	}
}
