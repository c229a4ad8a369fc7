package inspect

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// kafkaDirectories are whole data directories of Apache Kafka; see their README.
const kafkaDirectories = "../testdata/kafka-4.3.1"

// Kafka's files have no problem: transactions, cleaned segments, snapshots, epochs, and files that
// Heartwood does not have.
func TestVerifyFindsNothingInKafkasDirectories(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, kafkaDirectories+"/clean")
	if problems != 0 || !strings.HasPrefix(out, "checked 10 segments, 345 batches, 505 records") {
		t.Errorf("%d problems:\n%s", problems, out)
	}
}

// A killed broker leaves the indexes of its active segments padded with zeros, which results in
// notes only.
func TestVerifyFindsNothingInDirectoriesOfAKilledKafka(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, kafkaDirectories+"/killed")
	if problems != 0 || strings.Count(out, "note: padded with zeros") != 8 ||
		strings.Count(out, "\n") != 9 {
		t.Errorf("%d problems:\n%s", problems, out)
	}
}
