package record

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// kafkaLib returns the Java classpath of Kafka 4.4's jars, whose internal classes the tests use. It
// skips the test if the jars or Java are missing.
func kafkaLib(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KAFKA_LIB")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Skipf("skipped: KAFKA_LIB is not set: %v", err)
		}
		dir = filepath.Join(home, ".cache", "kafka-lab", "lib")
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "kafka-clients-4.4.*.jar")); len(found) == 0 {
		t.Skipf("skipped: no kafka-clients-4.4.*.jar in %s; set KAFKA_LIB to another directory", dir)
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	return filepath.Join(dir, "*")
}

// codecLevels lists the levels to test for each codec: the bounds, the default, and one level for
// each encoder.
var codecLevels = map[compress.Codec][]int{
	compress.None: {compress.LevelDefault}, compress.Snappy: {compress.LevelDefault},
	compress.Gzip: {compress.LevelDefault, 1, 5, 6, 9},
	compress.LZ4:  {compress.LevelDefault, 1, 2, 8, 9, 10, 12, 13, 17},
	compress.Zstd: {compress.LevelDefault, -131072, -1, 0, 2, 3, 5, 6, 9, 10, 22},
}

// ourBatches returns batches that this package builds, at every level of every codec. They include
// small batches, batches with several blocks and chunks, batches recompressed from another codec,
// and empty batches. Some contain nulls, headers, negative timestamp deltas, delete horizons,
// markers or log append time.
func ourBatches(t *testing.T) []Batch {
	t.Helper()
	large := make([]Record, 300)
	for i := range large {
		large[i] = keyed(fmt.Sprint("ticket-", i), strings.Repeat("x", 500+i), 1_000_000+int64(i))
	}
	odd := []Record{keyed("a", "1", 1_000_000), {Key: []byte("b"), Timestamp: 5},
		{Value: []byte{}, Timestamp: 7, Headers: []Header{
			{Key: []byte("h"), Value: []byte("1")}, {Key: []byte("h")},
			{Key: []byte{}, Value: []byte{}},
		}}, {Timestamp: 1_000_001}}
	ids := []Identity{
		{BaseOffset: 1 << 40, LeaderEpoch: 7, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1},
		{BaseOffset: 5, ProducerID: 4711, ProducerEpoch: 2, BaseSequence: sequenceNumberMax - 1,
			Transactional: true},
		{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, TimestampType: LogAppendTime,
			MaxTimestamp: 2_000_000},
		{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, DeleteHorizonMs: 3_000_000},
	}
	var all []Batch
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		for _, level := range codecLevels[codec] {
			for i, records := range [][]Record{odd, large, odd, odd, nil} {
				all = append(all, ourBatch(t, codec, level, ids[i%len(ids)], records))
			}
			valid, err := Validate(clientBatch(t, (codec+1)%5, large...),
				Rules{Codec: codec, CodecLevel: level}, now)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, valid.Parts().AppendTo(nil))
			valid.Release()
		}
	}
	for _, kind := range []ControlType{ControlAbort, ControlCommit} {
		marker, err := AppendMarker(nil, Identity{BaseOffset: 9, ProducerID: 1}, 1_000_000,
			Control{kind, 3})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, marker)
	}
	return all
}

func ourBatch(t *testing.T, codec compress.Codec, level int, id Identity, records []Record) Batch {
	t.Helper()
	// The batch covers one offset more than it has records, as if cleaning had removed its last
	// record.
	id.LastOffsetDelta = int32(max(4, len(records)))
	builder := NewBuilder(codec, level)
	builder.Reset(id)
	for i := range records {
		records[i].Offset = id.BaseOffset + int64(i)
		builder.Add(&records[i])
	}
	built, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// TestKafkaReadsOurBatches starts a JVM in which Kafka's own reader reads the batches that
// ourBatches returns. It must read the same records as this package.
func TestKafkaReadsOurBatches(t *testing.T) {
	lib := kafkaLib(t)
	if testing.Short() {
		t.Skip("skipped: starts a JVM")
	}
	var file bytes.Buffer
	var want strings.Builder
	batches := ourBatches(t)
	for _, b := range batches {
		file.Write(b)
		want.WriteString(javaText(t, b))
	}
	path := filepath.Join(t.TempDir(), "batches.log")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "java", "-Xmx256m", "-cp", lib,
		"testdata/java/Vectors.java", "read", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	theirs, ours := strings.Split(string(out), "\n"), strings.Split(want.String(), "\n")
	for i := range min(len(theirs), len(ours)) {
		if theirs[i] != ours[i] {
			t.Fatalf("line %d:\ngot   %s\nKafka %s", i+1, ours[i], theirs[i])
		}
	}
	if len(theirs) != len(ours) {
		t.Errorf("Kafka prints %d lines for %d batches, we print %d", len(theirs), len(batches),
			len(ours))
	}
}
