package logstore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// kafkaDumpLog runs Kafka's own dump-log on files and returns its output. It skips the test if Java
// or Kafka's jars are missing.
func kafkaDumpLog(t *testing.T, files []string, flags ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("Kafka's tools take some seconds to start")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skipf("skipped: Kafka's tools need Java: %v", err)
	}
	lib := os.Getenv("KAFKA_LIB")
	if home, err := os.UserHomeDir(); lib == "" && err == nil {
		lib = filepath.Join(home, ".cache", "kafka-lab", "lib")
	}
	if found, _ := filepath.Glob(filepath.Join(lib, "kafka-tools-*.jar")); len(found) == 0 {
		t.Skipf("skipped: no kafka-tools-*.jar in %q; KAFKA_LIB names another folder", lib)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	arguments := append([]string{
		"-Xmx256M", "-cp", filepath.Join(lib, "*"), "org.apache.kafka.tools.DumpLogSegments",
		"--files", strings.Join(files, ","),
	}, flags...)
	out, err := exec.CommandContext(ctx, java, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("dump-log: %v\n%s", err, out)
	}
	return string(out)
}

// packed returns a batch of records, compressed with a codec. The batch is large enough to cause
// index entries.
func packed(t *testing.T, codec compress.Codec, id record.Identity, records int) []byte {
	t.Helper()
	id.LastOffsetDelta, id.LeaderEpoch = int32(records-1), -1
	b := record.NewBuilder(codec, compress.LevelDefault)
	b.Reset(id)
	for i := range records {
		b.Add(&record.Record{Offset: int64(i), Timestamp: epoch0.UnixMilli() + int64(i),
			Key:     fmt.Appendf(nil, "key-%d", i),
			Value:   fmt.Appendf(nil, "%d %x", i, uint64(i+1)*0x9E3779B97F4A7C15),
			Headers: []record.Header{{Key: []byte("h"), Value: nil}}})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// writeForKafka writes a log with batches of all codecs, batches of an idempotent producer, and
// committed, aborted and open transactions. It returns the number of records.
func writeForKafka(t *testing.T, dir string) (records int) {
	t.Helper()
	store, err := Open(Options{FS: vfs.OS{}, Dir: dir, Logger: quiet(), FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.Create(partition, topicOne,
		settings(func(s *topicconfig.Settings) { s.SegmentBytes = 20_000 }), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Lead(3); err != nil {
		t.Fatal(err)
	}
	add := func(batch []byte) {
		if _, err := log.AppendVerified(batch, Verified{Transaction: true}, epoch0); err != nil {
			t.Fatal(err)
		}
		records += int(record.Batch(batch).Count())
	}
	none := record.Identity{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	txn := func(round int) record.Identity {
		return record.Identity{ProducerID: 9, BaseSequence: int32(2 * round), Transactional: true}
	}
	for round := range 8 {
		add(packed(t, compress.None, txn(round), 2))
		for codec := compress.None; codec <= compress.Zstd; codec++ {
			add(packed(t, codec, none, 40))
			idempotent := record.Identity{ProducerID: 8,
				BaseSequence: int32(30 * (5*round + int(codec)))}
			add(packed(t, codec, idempotent, 30))
		}
		if round < 7 {
			if _, err := log.AppendControl(EndTxn{ProducerID: 9, Commit: round%2 == 0,
				CoordinatorEpoch: 4}, epoch0); err != nil {
				t.Fatal(err)
			}
			records++
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return records
}

// TestKafkaToolsAcceptOurFiles checks that Kafka's own tools read every record that Heartwood has
// written, with every codec. They find no fault in the indexes, the transaction indexes and the
// producer snapshots.
func TestKafkaToolsAcceptOurFiles(t *testing.T) {
	dir := t.TempDir()
	records := writeForKafka(t, dir)
	byExtension := func(extensions ...string) (files []string) {
		for _, extension := range extensions {
			found, err := filepath.Glob(filepath.Join(dir, partition.String(), "*"+extension))
			if err != nil || len(found) == 0 {
				t.Fatalf("no %s: %v", extension, err)
			}
			slices.Sort(found)
			files = append(files, found...)
		}
		return files
	}
	logs := byExtension(".log")
	if len(logs) < 3 {
		t.Fatalf("%d segments", len(logs))
	}
	out := kafkaDumpLog(t, logs, "--deep-iteration", "--print-data-log")
	if got := strings.Count(out, "| offset: "); got != records {
		t.Errorf("Kafka reads %d records, want %d", got, records)
	}
	if got := strings.Count(out, "isvalid: false"); got > 0 {
		t.Errorf("%d batches are not valid", got)
	}
	wantNoProblem(t, out)
	indexes := byExtension(".index", ".timeindex")
	out = kafkaDumpLog(t, indexes, "--index-sanity-check")
	if got := strings.Count(out, "passed sanity check"); got != len(indexes) {
		t.Errorf("%d of %d indexes pass the sanity check:\n%s", got, len(indexes), out)
	}
	wantNoProblem(t, kafkaDumpLog(t, indexes, "--verify-index-only"))
	out = kafkaDumpLog(t, byExtension(".txnindex", ".snapshot"))
	wantNoProblem(t, out)
	if got := strings.Count(out, "version: 0 producerId: 9 "); got != 3 {
		t.Errorf("%d aborted transactions, want 3:\n%s", got, out)
	}
	for _, want := range []string{
		"producerId: 8 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty",
		"lastSequence: 1199", "producerId: 9 producerEpoch: 0 coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong[",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// wantNoProblem checks the output of dump-log for reported problems, because the exit code does not
// report them. It ignores one message: that the first batch of a file does not follow offset -1.
func wantNoProblem(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		for _, bad := range []string{"mismatch", "Found ", "Mismatch", "xception", "corrupt",
			"is followed by"} {
			if strings.Contains(line, bad) && !strings.Contains(line, "-1 is followed by") {
				t.Errorf("dump-log: %s", line)
			}
		}
	}
}
