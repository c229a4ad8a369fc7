package cleaner

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/vfs"
)

// The tests in this file check invariants that need a whole log.
// docs/internals/cleaner-invariants.md lists all invariants with their tests. After each line of a
// script the ledger checks the log (ledger_check_test.go).

// output runs a script that must succeed, and returns its output.
func output(t *testing.T, script ...string) string {
	t.Helper()
	output, err := runScript(t, script)
	if err != nil {
		t.Fatalf("%v, after\n%s", err, output)
	}
	return output
}

// TestI9KeptRecordsAreUnchanged checks that a pass does not change the records that it keeps: the
// ledger compares each record's key, value, headers, timestamp and offset.
func TestI9KeptRecordsAreUnchanged(t *testing.T) {
	var script []string
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		script = append(script, "put -"+codec+" a=1 kept-"+codec+"=2*500 c \"\"=3",
			"put -"+codec+" -time=0 c=1 zero-"+codec+"=1")
	}
	script = append(script, "roll", "wait 5s quietly")
	// Convert the records from each codec to each other codec.
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		script = append(script, "config clean="+codec, "put x="+codec, "roll", "wait 5s quietly",
			"read")
	}
	got := output(t, append(script, "log")...)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		if !strings.Contains(got, ":kept-"+codec+"=2*500") {
			t.Errorf("the kept record of %s is missing in\n%s", codec, got)
		}
	}
}

// TestI14ReadersEndInTheStateOfTheUncleanedLog checks that a reader that reads to the log end finds
// the same last value of each key as in the uncleaned log. This holds at any time, from every
// offset, and with both isolation levels.
func TestI14ReadersEndInTheStateOfTheUncleanedLog(t *testing.T) {
	output(t, "config segment=1500 retention=20s",
		"put a=1 b=1 c=1", "put -producer=1 -txn a=2 d=1", "put -producer=2 -txn b=2", "roll",
		"abort 1", "put c", "roll", "wait 3s quietly", "read",
		"put -producer=1 -txn a=3", "commit 2", "roll", "wait 3s quietly", "read",
		"commit 1", "put d=2 b", "roll", "wait 3s quietly", "read", "wait 60s quietly", "read",
		"settled")
}

// TestI15ValuesAndOffsetsNeverChange checks that passes and restarts change no record, and neither
// the log start nor the log end (KAFKA-17076).
func TestI15ValuesAndOffsetsNeverChange(t *testing.T) {
	got := output(t, "put a=1 b=1", "put a=2", "roll", "wait 1h quietly", "log", "restart",
		"wait 1h quietly", "log")
	const want = "segment 0: 1:b=1 | 2:a=2\nactive  3:\n"
	if got != want+want {
		t.Errorf("the log is\n%s", got)
	}
}

// TestI26SequencesSurviveRestart checks that a pass keeps each producer's last batch, even without
// records, and a start restores the last sequence number from this batch. The commands "restart"
// and "kill" append each producer's last batch again and check that it is detected as a duplicate.
func TestI26SequencesSurviveRestart(t *testing.T) {
	got := output(t, "put -producer=1 a=1", "put -zstd -producer=2 a=2 b=1",
		"put -producer=3 -txn b=2", "commit 3", "put a=3 b=3", "roll",
		"wait 5s quietly", "log", "restart", "kill", "put -producer=1 c=1", "put -producer=2 c=2",
		"put -producer=3 c=3")
	for _, empty := range []string{"p1 0-0:empty", "p2 1-2:empty", "txn3 3-3:empty"} {
		if !strings.Contains(got, empty) {
			t.Errorf("no %s in\n%s", empty, got)
		}
	}
}

// TestI33EpochsSurviveTheirBatches checks a leader epoch whose batches were all removed, so only
// the leader epoch checkpoint contains the epoch. OffsetsForLeaderEpoch still returns the end of
// the epoch.
func TestI33EpochsSurviveTheirBatches(t *testing.T) {
	err := runInScenario(t, func(s *scenario) {
		s.open() // in leader epoch 0
		s.runLines([]string{"put a=1", "lead", "put a=2", "lead", "put a=3", "roll", "put b=1"})
		s.runLines([]string{"wait 5s quietly", "log"})
		before := s.epochs()
		if want := []string{"0 0", "1 1", "2 2"}; !slices.Equal(before, want) {
			fail("got epochs %v in the file after the pass, want %v", before, want)
		}
		if got := s.out.String(); !strings.Contains(got, "segment 0: 2:a=3\n") {
			fail("the log is\n%s", got)
		}
		for _, how := range []string{"wait 1s quietly", "restart", "kill"} {
			s.runLine(how)
			after := s.epochs()
			if len(after) < len(before) || fmt.Sprint(after[:len(before)]) != fmt.Sprint(before) {
				fail("epochs %v after %s, were %v", after, how, before)
			}
			if epoch, end := s.log.EndOffsetFor(1); epoch != 1 || end != 2 {
				fail("end of epoch 1 after %s: got epoch %d, offset %d", how, epoch, end)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// epochs returns the lines of the leader epoch checkpoint, without its header.
func (s *scenario) epochs() []string {
	content, err := s.fsys.ReadFile(filepath.Join(logDir, epochFile))
	must(err, "read the leader epochs")
	return strings.Split(strings.TrimSpace(string(content)), "\n")[2:]
}

// TestI8FailedDiskStopsTheLogNotTheProcess checks that a failed sync during a pass stops the log.
// The log can still be read, and the other logs accept appends.
func TestI8FailedDiskStopsTheLogNotTheProcess(t *testing.T) {
	var disk *vfs.Fault
	err := runInScenario(t, func(s *scenario) {
		s.disk = func(mem *vfs.Mem) vfs.FS { disk = vfs.NewFault(mem); return disk }
		s.open()
		other, err := s.store.Create(logstore.PartitionID{Topic: "tickets", Index: 1}, topicOne,
			s.settings,
			true)
		must(err, "create")
		s.prepare()
		disk.Inject(vfs.Rule{Op: vfs.OpSync})
		s.resume()
		s.wait([]string{"5s", "quietly"})
		if disk.Failed() == 0 {
			fail("no sync failed")
		}
		disk.Clear()
		_, err = other.Append(keyed(scenarioTB{}, "a"), epoch0)
		must(err, "append to another log")
		if slice, err := s.log.Read(0, s.log.LogEnd(), 1000, true); err != nil {
			fail("read: %v", err)
		} else {
			slice.Release()
		}
	})
	if err != nil {
		t.Error(err)
	}
}
