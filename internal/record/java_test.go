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

// kafkaLib is the folder of Kafka's jars. The test is skipped where there is none, or no Java.
func kafkaLib(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("KAFKA_LIB")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Skipf("skipped: KAFKA_LIB is not set: %v", err)
		}
		folder = filepath.Join(home, ".cache", "kafka-lab", "lib")
	}
	if found, _ := filepath.Glob(filepath.Join(folder, "kafka-clients-*.jar")); len(found) == 0 {
		t.Skipf("skipped: no kafka-clients-*.jar in %s; KAFKA_LIB names another folder", folder)
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	return filepath.Join(folder, "*")
}

// everySetting is each codec with each of its encoders: the ends of the range, the default, and a
// level of every effect we have.
var everySetting = map[compress.Codec][]int{
	compress.None: {compress.LevelDefault}, compress.Snappy: {compress.LevelDefault},
	compress.Gzip: {compress.LevelDefault, 1, 5, 6, 9},
	compress.LZ4:  {compress.LevelDefault, 1, 2, 8, 9, 10, 12, 13, 17},
	compress.Zstd: {compress.LevelDefault, -131072, -1, 0, 2, 3, 5, 6, 9, 10, 22},
}

// ourBatches are batches as we make them, in every setting: small and with more than one block and
// chunk of each codec, built and recompressed from another codec, with nulls, headers, negative
// timestamp deltas, horizons, markers, log append time, and emptied.
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
		for _, level := range everySetting[codec] {
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
	id.LastOffsetDelta = int32(max(4, len(records))) // one more than there are: the last is gone
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

// Kafka's own reader, in a JVM, finds every batch of ours sound, and reads in it what we put there.
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
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.Bytes())
	}
	theirs, ours := strings.Split(string(out), "\n"), strings.Split(want.String(), "\n")
	for i := range min(len(theirs), len(ours)) {
		if theirs[i] != ours[i] {
			t.Fatalf("line %d:\nwe read  %s\nKafka    %s", i+1, ours[i], theirs[i])
		}
	}
	if len(theirs) != len(ours) {
		t.Errorf("Kafka reads %d lines in %d batches, we %d", len(theirs), len(batches), len(ours))
	}
}
