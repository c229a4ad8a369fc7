package cleaner

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/vfs"
)

// Invariants that want a whole log, with what checks them: docs/cleaner-invariants.md lists all,
// and where each is tested. Each line of these scripts is followed by the ledger's checks
// (ledger_check_test.go).

// played plays a script that must hold, and returns what it prints.
func played(t *testing.T, script ...string) string {
	t.Helper()
	output, err := play(t, script)
	if err != nil {
		t.Fatalf("%v, behind\n%s", err, output)
	}
	return output
}

// key, value, headers, timestamp, offset; the ledger compares
func TestI9KeptRecordsAreEqualToTheBit(t *testing.T) {
	var script []string
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		script = append(script, "put -"+codec+" a=1 kept-"+codec+"=2*500 c \"\"=3",
			"put -"+codec+" -time=0 c=1 zero-"+codec+"=1")
	}
	script = append(script, "roll", "wait 5s quietly")
	// and each into each other
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		script = append(script, "config clean="+codec, "put x="+codec, "roll", "wait 5s quietly",
			"read")
	}
	got := played(t, append(script, "log")...)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		if !strings.Contains(got, ":kept-"+codec+"=2*500") {
			t.Errorf("of %s is left\n%s", codec, got)
		}
	}
}

// at every moment, from every offset, with both isolation levels
func TestI14EveryViewEndsAsThatOfTheUncleanedLog(t *testing.T) {
	played(t, "config segment=1500 retention=20s",
		"put a=1 b=1 c=1", "put -producer=1 -txn a=2 d=1", "put -producer=2 -txn b=2", "roll",
		"abort 1", "put c", "roll", "wait 3s quietly", "read",
		"put -producer=1 -txn a=3", "commit 2", "roll", "wait 3s quietly", "read",
		"commit 1", "put d=2 b", "roll", "wait 3s quietly", "read", "wait 60s quietly", "read",
		"settled")
}

// KAFKA-17076: log end and log start too
func TestI15ValuesStayForEverAndNothingMoves(t *testing.T) {
	got := played(t, "put a=1 b=1", "put a=2", "roll", "wait 1h quietly", "log", "restart",
		"wait 1h quietly", "log")
	const want = "segment 0: 1:b=1 | 2:a=2\nactive  3:\n"
	if got != want+want {
		t.Errorf("the log is\n%s", got)
	}
}

// The last batch of a producer stays, without its records, and a start knows by it what the
// producer sent last: "restart" and "kill" send each producer's last batch again, which must be
// found out.
func TestI26SequencesAreKnownBehindAStart(t *testing.T) {
	got := played(t, "put -producer=1 a=1", "put -zstd -producer=2 a=2 b=1",
		"put -producer=3 -txn b=2", "commit 3", "put a=3 b=3", "roll",
		"wait 5s quietly", "log", "restart", "kill", "put -producer=1 c=1", "put -producer=2 c=2",
		"put -producer=3 c=3")
	for _, empty := range []string{"p1 0-0:empty", "p2 1-2:empty", "txn3 3-3:empty"} {
		if !strings.Contains(got, empty) {
			t.Errorf("no %s in\n%s", empty, got)
		}
	}
}

// An epoch of which no batch is left stands in the checkpoint alone, and a follower's question for
// its end is answered still.
func TestI33EpochsOutliveTheirBatches(t *testing.T) {
	err := inStage(t, func(s *stage) {
		s.open() // epoch 0
		s.doAll([]string{"put a=1", "lead", "put a=2", "lead", "put a=3", "roll", "put b=1"})
		before := s.epochs()
		s.doAll([]string{"wait 5s quietly", "log"})
		if got := s.out.String(); !strings.Contains(got, "segment 0: 2:a=3\n") {
			stageFail("the log is\n%s", got)
		}
		for _, how := range []string{"wait 1s quietly", "restart", "kill"} {
			s.do(how)
			after := s.epochs()
			if len(after) < len(before) || fmt.Sprint(after[:len(before)]) != fmt.Sprint(before) {
				stageFail("epochs %v behind %s, were %v", after, how, before)
			}
			if epoch, end := s.log.EndOffsetFor(1); epoch != 1 || end != 2 {
				stageFail("epoch 1 ends at %d of epoch %d behind %s", end, epoch, how)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// epochs returns the lines of the leader epoch checkpoint, without its header.
func (s *stage) epochs() []string {
	content, err := s.fsys.ReadFile(filepath.Join(logDir, epochFile))
	stageMust(err, "read the leader epochs")
	return strings.Split(strings.TrimSpace(string(content)), "\n")[2:]
}

// What the disk does to one log stops that log, and its store and the other logs go on.
func TestI8FailedDiskStopsTheLogNotTheProcess(t *testing.T) {
	var disk *vfs.Fault
	err := inStage(t, func(s *stage) {
		s.disk = func(mem *vfs.Mem) vfs.FS { disk = vfs.NewFault(mem); return disk }
		s.open()
		other, err := s.store.Create(logstore.PartitionID{Topic: "tickets", Index: 1}, topicOne,
			s.settings,
			true)
		stageMust(err, "create")
		s.rest()
		disk.Inject(vfs.Rule{Op: vfs.OpSync})
		s.wake()
		s.wait([]string{"5s", "quietly"})
		if disk.Failed() == 0 {
			stageFail("nothing failed")
		}
		disk.Clear()
		_, err = other.Append(keyed(stageTB{}, "a"), epoch0)
		stageMust(err, "append to another log")
		if slice, err := s.log.Read(0, s.log.LogEnd(), 1000, true); err != nil {
			stageFail("read: %v", err)
		} else {
			slice.Release()
		}
	})
	if err != nil {
		t.Error(err)
	}
}
