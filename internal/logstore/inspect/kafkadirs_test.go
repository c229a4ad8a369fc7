package inspect

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

// kafkaDirectories are whole data directories that Apache Kafka wrote; their README tells how.
const kafkaDirectories = "../testdata/kafka-4.3.1"

// Nothing is wrong with what Kafka wrote: transactions, cleaned segments, snapshots, epochs, and
// files that we do not have.
func TestVerifyFindsNothingInKafkasDirectories(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, kafkaDirectories+"/clean")
	if problems != 0 || !strings.HasPrefix(out, "checked 10 segments, 345 batches, 505 records") {
		t.Errorf("%d problems:\n%s", problems, out)
	}
}

// A broker that was killed leaves the indexes of its active segments padded with zeros, which is
// noted, and else nothing.
func TestVerifyFindsNothingInDirectoriesOfAKilledKafka(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, kafkaDirectories+"/killed")
	if problems != 0 || strings.Count(out, "note: padded with zeros") != 8 ||
		strings.Count(out, "\n") != 9 {
		t.Errorf("%d problems:\n%s", problems, out)
	}
}
