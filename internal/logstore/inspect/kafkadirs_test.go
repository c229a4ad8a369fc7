package inspect

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// kafkaDirectories contains whole data directories of Apache Kafka; see the README there.
const kafkaDirectories = "../testdata/kafka-4.3.1"

// TestVerifyFindsNothingInKafkasDirectories: verify finds no problem in the data directory of a
// Kafka broker that was shut down. The directory contains transactions, cleaned segments,
// snapshots, leader epochs, and files that Heartwood does not write.
func TestVerifyFindsNothingInKafkasDirectories(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, kafkaDirectories+"/clean")
	if problems != 0 || !strings.HasPrefix(out, "checked 10 segments, 345 batches, 505 records") {
		t.Errorf("got %d problems, want 0 in 10 segments:\n%s", problems, out)
	}
}

// TestVerifyFindsNothingInDirectoriesOfAKilledKafka: a killed Kafka broker leaves the index files
// of its active segments padded with zeros. Verify prints notes about them and finds no problem.
func TestVerifyFindsNothingInDirectoriesOfAKilledKafka(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, kafkaDirectories+"/killed")
	if problems != 0 || strings.Count(out, "note: padded with zeros") != 8 ||
		strings.Count(out, "\n") != 9 {
		t.Errorf("got %d problems, want 0 and 8 notes:\n%s", problems, out)
	}
}
