package inspect

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// kafkaDirectories contains whole data directories of Apache Kafka; see the README in this
// directory.
const kafkaDirectories = "../testdata/kafka-4.3.1"

// TestVerifyFindsNothingInKafkasDirectories checks that verify finds no problem in the data
// directory of a Kafka broker that was shut down. The directory contains transactions, cleaned
// segments, snapshots, leader epochs, and files that Heartwood does not write.
func TestVerifyFindsNothingInKafkasDirectories(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, kafkaDirectories+"/clean")
	if problems != 0 || !strings.HasPrefix(out, "checked 10 segments, 345 batches, 505 records") {
		t.Errorf("got %d problems, want 0 in 10 segments:\n%s", problems, out)
	}
}

// TestVerifyFindsNothingInDirectoriesOfAKilledKafka verifies the directory of a killed Kafka
// broker, in which the active segments' index files are padded with zeros. Verify prints notes
// about these files and finds no problem.
func TestVerifyFindsNothingInDirectoriesOfAKilledKafka(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, kafkaDirectories+"/killed")
	if problems != 0 || strings.Count(out, "note: padded with zeros") != 8 ||
		strings.Count(out, "\n") != 9 {
		t.Errorf("got %d problems, want 0 and 8 notes:\n%s", problems, out)
	}
}

// TestVerifyFindsNothingInSmallLogsOfARunningKafka verifies files as a running, copied or killed
// Kafka broker leaves them: preallocated indexes without an entry, for a log without records and
// for a log with less than an index interval, an empty epoch file and an empty checkpoint. Then it
// verifies the log without its index files. Verify prints notes and finds no problem. Dump prints
// no zeros.
func TestVerifyFindsNothingInSmallLogsOfARunningKafka(t *testing.T) {
	batch := batchOf(t, compress.None, 0, record.Record{Key: []byte("k"), Timestamp: 9},
		record.Record{Key: []byte("l"), Timestamp: 9})
	empty := 1 // number of empty leader epoch files
	for _, records := range [][]byte{nil, batch} {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("/d/p-0"))
		for name, content := range map[string][]byte{
			"p-0/00000000000000000000.log":       records,
			"p-0/00000000000000000000.index":     make([]byte, 10<<10),
			"p-0/00000000000000000000.timeindex": make([]byte, 12<<10),
			"p-0/leader-epoch-checkpoint":        nil,
			"recovery-point-offset-checkpoint":   nil,
		} {
			must(t, vfs.WriteFileAtomic(mem, "/d/"+name, content))
		}
		if records != nil {
			must(t, vfs.WriteFileAtomic(mem, "/d/p-0/"+epochFile, []byte("0\n1\n0 0\n")))
			empty = 0
		}
		problems, out := verify(t, mem, "/d")
		if problems != 0 || strings.Count(out, "note: padded with zeros") != 2 ||
			strings.Count(out, "note: the file is empty") != empty {
			t.Errorf("got %d problems, want 0, and notes:\n%s", problems, out)
		}
		if out := dump(t, mem, DumpOptions{}, "/d/p-0/00000000000000000000.index"); strings.Count(out,
			"\n") != 2 || !strings.Contains(out, "note: padded with zeros") {
			t.Errorf("dump: got %d bytes, want a note", len(out))
		}
		for _, extension := range []string{".index", ".timeindex"} {
			must(t, mem.Remove("/d/p-0/00000000000000000000"+extension))
		}
		problems, out = verify(t, mem, "/d")
		if problems != 0 || strings.Count(out, "note: the file is missing") != 2 {
			t.Errorf("got %d problems, want 0 and 2 notes:\n%s", problems, out)
		}
	}
}

// TestPaddingBeforeTheLastSegmentIsAProblem checks that zeros at the end of earlier segments'
// indexes are a problem, because a broker truncates the indexes when it rolls a segment. In the
// time index, one entry of zeros may be valid.
func TestPaddingBeforeTheLastSegmentIsAProblem(t *testing.T) {
	mem := partition(t, "/p-0", 1, 1)
	must(t, vfs.WriteFileAtomic(mem, "/p-0/00000000000000000005.index", make([]byte, 80)))
	if problems, out := verify(t, mem, "/p-0"); problems == 0 {
		t.Errorf("got no problem:\n%s", out)
	}
	mem = vfs.NewMem()
	must(t, mem.MkdirAll("/p-0"))
	b := batchOf(t, compress.None, 0, record.Record{Key: []byte("k"), Timestamp: 0})
	must(t, vfs.WriteFileAtomic(mem, "/p-0/00000000000000000000.log", b))
	must(t, vfs.WriteFileAtomic(mem, "/p-0/00000000000000000000.index", nil))
	must(t, vfs.WriteFileAtomic(mem, "/p-0/00000000000000000000.timeindex", make([]byte, 12)))
	if problems, out := verify(t, mem, "/p-0"); problems != 0 || strings.Contains(out, "note") {
		t.Errorf("got %d problems, want 0 and no note:\n%s", problems, out)
	}
}
