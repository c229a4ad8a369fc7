package cleaner

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// scenario runs the lines of a script (scenario_commands_test.go) on a store with one partition and
// a running cleaner. It compares the log with a ledger, which contains every appended record. The
// files in testdata/scenarios and the random histories are such scripts.
type scenario struct {
	fsys     *vfs.Mem
	disk     func(*vfs.Mem) vfs.FS // wraps fsys for the store
	line     string                // current line of the script
	store    *logstore.Store
	cleaner  *Cleaner
	log      *logstore.Log
	settings topicconfig.Settings
	budget   Options
	epoch    int32 // current leader epoch; each start of the store uses a new epoch
	ledger   ledger
	// producers is a number that is added to each producer id in the script. After an unclean
	// truncation the log may lack a producer's last batch: a pass has removed the batch because of
	// a later batch, which is now truncated. Then producers is increased, so the script's producers
	// continue with new ids.
	producers int64
	reported  totals // the cleaner's totals at the end of the last wait
	lastRuns  string // results of the cleaner's passes after the last line
	out       strings.Builder
}

// scenarioFailure is the value that a failed check panics with. A failed check does not fail the
// test directly, because a failing history is first shortened.
type scenarioFailure struct{ text string }

func fail(format string, args ...any) { panic(scenarioFailure{fmt.Sprintf(format, args...)}) }

func must(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

// runScript runs a script and returns the output of its lines. The error contains the line at which
// a command or the comparison with the ledger failed.
func runScript(t *testing.T, script []string) (output string, err error) {
	err = runInScenario(t, func(s *scenario) {
		defer func() { output = s.out.String() }()
		s.open()
		s.runLines(script)
	})
	return output, err
}

// runInScenario calls act in a synctest bubble with a new scenario, whose disk is empty and whose
// store is not open yet. Afterwards it closes the scenario, and returns the failure of a check as
// an error.
func runInScenario(t *testing.T, act func(s *scenario)) (err error) {
	warmUp(t)
	emptyPools() // because pools may contain channels of other tests
	defer emptyPools()
	synctest.Test(t, func(*testing.T) {
		s := newScenario()
		defer func() {
			s.close()
			if failure := recover(); failure != nil {
				found, ok := failure.(scenarioFailure)
				if !ok {
					panic(failure)
				}
				err = fmt.Errorf("%s: %s", s.line, found.text)
			}
		}()
		act(s)
	})
	return err
}

func newScenario() *scenario {
	s := &scenario{fsys: vfs.NewMem(), epoch: -1, ledger: newLedger(), line: "start"}
	s.disk = func(mem *vfs.Mem) vfs.FS { return mem }
	s.settings = compacted(nil)
	s.settings.SegmentBytes, s.settings.TombstoneRetention, s.settings.MinDirtyPercent = 1<<20,
		time.Minute, 0
	return s
}

func (s *scenario) runLines(script []string) {
	for i, line := range script {
		s.line = fmt.Sprintf("line %d, %s", i+1, line)
		s.runLine(line)
	}
}

// warmUp makes the zstd library create its channels outside of a bubble. The process creates the
// channels once, and bubbles must not share them.
func warmUp(t *testing.T) {
	b := storetest.Batch{Keys: []string{"k"}, Value: "v"}.Bytes(t)
	builder := record.NewBuilder(compress.Zstd, compress.LevelDefault)
	builder.Reset(record.Identity{})
	for _, r := range recordsOf(b) {
		builder.Add(r)
	}
	packed, err := builder.Build(nil)
	must(err, "build")
	recordsOf(packed)
}

// emptyPools empties all sync.Pools, because the channels of a pooled decoder belong to the bubble
// that created it. It collects garbage twice, because the content of a pool survives one
// collection.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// open opens the store on the disk, makes this broker the leader of the log in a new epoch, and
// starts the cleaner.
func (s *scenario) open() {
	var err error
	s.store, err = logstore.Open(logstore.Options{FS: s.disk(s.fsys), Dir: dataDir,
		Logger: quiet()})
	must(err, "open")
	if s.log = s.store.Log(partition); s.log == nil {
		s.log, err = s.store.Create(partition, topicOne, s.settings, true)
		must(err, "create")
	}
	s.log.Configure(s.settings, true)
	s.lead()
	s.replicated()
	s.budget.Logger = quiet()
	s.cleaner, s.reported, s.lastRuns = New(s.store, s.budget), totals{}, ""
	// Wait half a second. Then no later wait ends at the time of a tick of the cleaner or the
	// store.
	time.Sleep(time.Second / 2)
}

// lead begins a new leader epoch.
func (s *scenario) lead() {
	s.epoch++
	must(s.log.Lead(s.epoch), "lead")
}

// replicated advances the high watermark to the log end.
func (s *scenario) replicated() { s.log.AdvanceHighWatermark(s.log.LogEnd()) }

// close stops the cleaner and the store. After a failure, one of the two may not exist.
func (s *scenario) close() {
	if s.cleaner != nil {
		s.cleaner.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
	s.cleaner, s.store = nil, nil
}

// restart stops the broker gracefully and starts it again.
func (s *scenario) restart() {
	last := s.lastBatch(s.ledger.end)
	s.cleaner.Close()
	s.cleaner = nil
	must(s.store.Close(), "close")
	s.store = nil
	s.openAndCheckEnd(last)
	s.abortExpired()
	s.resendLast()
}

// kill cuts the power and starts the broker again. Only unsynced records may be lost.
func (s *scenario) kill() {
	s.replicated()
	disk := s.fsys.CrashClone()
	safe := s.lastBatch(recoveryPoint(disk))
	s.close()
	s.fsys = disk
	s.openAndCheckEnd(safe)
	s.abortExpired()
	s.resendLast()
}

// recoveryPoint returns the log's recovery point from its checkpoint, or 0 if there is no
// checkpoint.
func recoveryPoint(disk vfs.FS) (offset int64) {
	content, err := disk.ReadFile(filepath.Join(dataDir, checkpoint.RecoveryPointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	must(err, "read the recovery point")
	for line := range strings.Lines(string(content)) {
		if text, ok := strings.CutPrefix(line, fmt.Sprintf("%s %d ", partition.Topic,
			partition.Index)); ok {
			must(scan(text, &offset), "read the recovery point")
		}
	}
	return offset
}

// segments returns the segments' base offsets, the active segment last.
func (s *scenario) segments() []int64 { return segmentBases(scenarioTB{}, s.fsys) }

func (s *scenario) activeBase() int64 {
	bases := s.segments()
	return bases[len(bases)-1]
}

// lastBatch returns the end offset of the last batch that ends at or below an offset. A truncation
// may have left an offset gap after this batch, which a start cannot recover.
func (s *scenario) lastBatch(below int64) int64 {
	end := s.log.LogStart()
	for _, b := range s.scan().batches {
		if b.NextOffset() <= below {
			end = b.NextOffset()
		}
	}
	return end
}

// openAndCheckEnd starts the broker, and checks that the log ends between safe and its previous
// end.
func (s *scenario) openAndCheckEnd(safe int64) {
	s.open()
	end := s.log.LogEnd()
	if end < safe || end > s.ledger.end {
		fail("the log ends at %d after a start; it ended at %d, and was synced up to %d", end,
			s.ledger.end, safe)
	}
	s.ledger.truncateTo(end)
}

func (s *scenario) wantEnd(want int64) {
	if end := s.log.LogEnd(); end != want {
		fail("the log ends at %d, want %d", end, want)
	}
}

// resendLast appends each producer's last batch again, as after a lost response, and checks that
// the batch is detected as a duplicate (I26).
func (s *scenario) resendLast() {
	for _, b := range s.ledger.lastOfProducers() {
		if b.forged || b.producer < s.producers ||
			slices.ContainsFunc(b.records, func(r record.Record) bool { return r.Key == nil }) {
			continue // a leader would reject this batch
		}
		got, err := s.log.AppendVerified(slices.Clone(b.wire),
			logstore.Verified{Transaction: b.transactional}, time.Now())
		if err != nil || !got.Duplicate || got.BaseOffset != b.base {
			fail("repeated last batch of producer %d, at offset %d: got %+v, %v", b.producer,
				b.base, got, err)
		}
	}
}

// runLine runs one line of a script, and then compares the log with the ledger.
func (s *scenario) runLine(line string) {
	words := strings.Fields(line)
	command, known := commands[words[0]]
	if !known {
		fail("unknown command")
	}
	command(s, words[1:])
	if unchecked[words[0]] {
		return
	}
	s.waitIdle()
	s.ledger.check(s)
}

// unchecked contains the commands that do not change the log.
var unchecked = map[string]bool{"config": true, "memory": true, "log": true, "counts": true,
	"paragraph": true, "settled": true, "read": true}

// waitIdle waits until no pass is running. A check then reads one state of the log.
func (s *scenario) waitIdle() {
	synctest.Wait()
	if runs := fmt.Sprint(s.totals().runs); runs != s.lastRuns {
		s.lastRuns, s.ledger.passEnd = runs, s.ledger.end
	}
}

// totals contains sums over all passes of the cleaner.
type totals struct {
	runs                              map[string]int64
	read, written, reclaimed, removed int64
	sidecarRead, sidecarWritten       int64
	reason, lastError                 string
}

// totals returns the sums that the cleaner's status reports.
func (s *scenario) totals() totals {
	status := s.cleaner.Status(partition)
	if status == nil {
		return totals{reason: "not compacted"}
	}
	return totals{
		runs: status.Runs, read: status.ReadBytes, written: status.WrittenBytes,
		reclaimed: status.ReclaimedBytes, removed: status.RemovedRecords,
		sidecarRead: status.SidecarReadBytes, sidecarWritten: status.SidecarWrittenBytes,
		reason: status.Reason, lastError: status.LastError,
	}
}
