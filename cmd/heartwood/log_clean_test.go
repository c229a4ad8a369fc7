package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kafkaVectors contains partition directories that Apache Kafka wrote.
const kafkaVectors = "../../internal/logstore/segment/testdata/kafka-4.3.1"

// copyVectors copies one partition's directory of kafkaVectors, without the checkpoints in the
// parent directory. It returns the path of the copy.
func copyVectors(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(kafkaVectors, name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// cleanJSON runs log clean --json and returns the numbers of its report.
func cleanJSON(t *testing.T, args ...string) map[string]float64 {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := run(context.Background(), append([]string{"log", "clean", "--json"}, args...), &out,
		&errOut); code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	if errOut.Len() > 0 {
		t.Errorf("standard error: %s", errOut.String())
	}
	var all map[string]any
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if seconds, ok := all["wall_seconds"].(float64); !ok || seconds <= 0 {
		t.Errorf("wall_seconds is %v", all["wall_seconds"])
	}
	numbers := map[string]float64{}
	for name, value := range all {
		if number, ok := value.(float64); ok {
			numbers[name] = number
		}
	}
	return numbers
}

// TestCleanKafkaLog cleans a log written by Kafka and compares the report with constants. Flag
// --now sets the time, so the results do not depend on the clock.
func TestCleanKafkaLog(t *testing.T) {
	const now = "2026-11-21T12:00:00Z"
	dir := copyVectors(t, "vectors-0")
	if before := verify(t, dir); before != 1 {
		t.Errorf("%d problems before the first clean, want 1: the missing transaction index",
			before)
	}
	dry := cleanJSON(t, "--dry-run", "--now", now, dir)
	if dry["records_removed"] != 46 || dry["segments_rewritten"] != 2 ||
		dry["segments_untouched"] != 0 || dry["bytes_reclaimed"] < 2000 {
		t.Errorf("dry run: got %v, want 46 records removed, 2 segments rewritten, 2000 bytes reclaimed or more", dry)
	}
	got := cleanJSON(t, "--now", now, dir)
	for name, want := range map[string]float64{
		"passes": 1, "segments_total": 2, "segments_rewritten": 2, "segments_untouched": 0,
		"records_read": 64, "records_removed": 46,
		"bytes_reclaimed": 2580, "log_bytes_written": 2034, "tombstones_removed": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if after := verify(t, dir); after != 0 {
		t.Errorf("%d problems after the clean, want none", after)
	}
	// A second clean at the same time must remove nothing.
	again := cleanJSON(t, "--now", now, dir)
	if again["records_removed"] != 0 || again["log_bytes_written"] != 0 || again["passes"] != 1 {
		t.Errorf("second clean: got %v, want one pass that removes and writes nothing", again)
	}
	// Two days later, the retention of tombstones, and of markers of removed transactions, has passed.
	// Some of them must be removed.
	later := cleanJSON(t, "--now", "2026-11-23T12:00:00Z", dir)
	if later["tombstones_removed"]+later["markers_removed"] == 0 {
		t.Errorf("clean two days later: got %v, want tombstones or markers removed", later)
	}
	if after := verify(t, dir); after != 0 {
		t.Errorf("%d problems after the last clean, want none", after)
	}
}

// TestCleanOfCleanedKafkaLogChangesNothing cleans two directories that Kafka's cleaner has already
// cleaned. The clean must change nothing, and its report must include both directories.
func TestCleanOfCleanedKafkaLogChangesNothing(t *testing.T) {
	dir, other := copyVectors(t, "compacted-0"), copyVectors(t, "compacted-0")
	log := filepath.Join(dir, "00000000000000000000.log")
	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	got := cleanJSON(t, dir, other)
	if got["records_removed"] != 0 || got["segments_untouched"] != 2 ||
		got["log_bytes_written"] != 0 || got["records_read"] != 50 {
		t.Errorf("got report %v, want 0 records removed, 0 bytes written, 2 untouched segments, 50 records read", got)
	}
	after, err := os.ReadFile(log)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the log has changed: %v", err)
	}
}

// verify runs log verify and returns the number of lines that are not part of its summary: problems
// and notes.
func verify(t *testing.T, dir string) (problems int) {
	t.Helper()
	var out, errOut bytes.Buffer
	run(context.Background(), []string{"log", "verify", dir}, &out, &errOut)
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "checked ") {
			t.Log(line)
			problems++
		}
	}
	return problems
}
