package cleaner

import (
	"errors"
	"fmt"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
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
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// stage is a store with one partition and a cleaner at work, played on by lines of a script
// (stage_commands_test.go), and beside it a ledger, which keeps everything and knows what must be
// there. The stories in testdata/clean and the random histories are such scripts.
type stage struct {
	fsys     *vfs.Mem
	disk     func(*vfs.Mem) vfs.FS // what the store gets of it
	at       string                // the line that is played
	store    *logstore.Store
	cleaner  *Cleaner
	log      *logstore.Log
	settings topicconfig.Settings
	budget   Options
	epoch    int32 // of the leader; none is used twice
	ledger   ledger
	// producers is where the ids of producers begin. Behind an unclean truncation the log may not
	// know the last batch of one, which the pass has removed with what came behind it: they begin
	// anew, as producers do that are told so.
	producers int64
	seen      tally  // of the cleaner, when a wait last told of it
	runs      string // of the cleaner, as of the last line
	out       strings.Builder
}

// stageFailure is what a check panics with: a failed history must be shrunk, not end the test.
type stageFailure struct{ text string }

func stageFail(format string, args ...any) { panic(stageFailure{fmt.Sprintf(format, args...)}) }

func stageMust(err error, what string) {
	if err != nil {
		stageFail("%s: %v", what, err)
	}
}

// play runs a script, each line in turn, and returns what its lines print. The error names the line
// that failed, whatever the reason: a command, or a check of the ledger behind it.
func play(t *testing.T, script []string) (output string, err error) {
	err = inStage(t, func(s *stage) {
		defer func() { output = s.out.String() }()
		s.open()
		s.doAll(script)
	})
	return output, err
}

// inStage calls act in a bubble, with a stage of an empty disk that is not open yet, and closes it.
// It returns what a check found.
func inStage(t *testing.T, act func(s *stage)) (err error) {
	warmUp(t)
	emptyPools() // of what other tests have left there
	defer emptyPools()
	synctest.Test(t, func(*testing.T) {
		s := newStage()
		defer func() {
			s.close()
			if failure := recover(); failure != nil {
				found, ok := failure.(stageFailure)
				if !ok {
					panic(failure)
				}
				err = fmt.Errorf("%s: %s", s.at, found.text)
			}
		}()
		act(s)
	})
	return err
}

func newStage() *stage {
	s := &stage{fsys: vfs.NewMem(), epoch: -1, ledger: newLedger(), at: "the beginning"}
	s.disk = func(mem *vfs.Mem) vfs.FS { return mem }
	s.settings = compacted(nil)
	s.settings.SegmentBytes, s.settings.TombstoneRetention, s.settings.MinDirtyPercent = 1<<20,
		time.Minute, 0
	return s
}

// doAll runs lines.
func (s *stage) doAll(script []string) {
	for i, line := range script {
		s.at = fmt.Sprintf("line %d, %s", i+1, line)
		s.do(line)
	}
}

// warmUp makes what the process makes once and a bubble may not share with another: the zstd
// library's channels.
func warmUp(t *testing.T) {
	b := sent{keys: []string{"k"}, value: "v"}.bytes(t)
	builder := record.NewBuilder(compress.Zstd, compress.LevelDefault)
	builder.Reset(record.Identity{})
	for _, r := range copiesOf(b) {
		builder.Add(r)
	}
	packed, err := builder.Build(nil)
	stageMust(err, "build")
	copiesOf(packed)
}

// emptyPools drops what the bubble left in pools: the channels of a decoder belong to the bubble
// that made it. A pool's content survives one collection.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// open opens the store as it is on the disk, and leads it in another epoch.
func (s *stage) open() {
	var err error
	s.store, err = logstore.Open(logstore.Options{FS: s.disk(s.fsys), Dir: dataDir,
		Logger: quiet()})
	stageMust(err, "open")
	if s.log = s.store.Log(partition); s.log == nil {
		s.log, err = s.store.Create(partition, topicOne, s.settings, true)
		stageMust(err, "create")
	}
	s.log.Configure(s.settings, true)
	s.lead()
	s.replicated()
	s.budget.Logger = quiet()
	s.cleaner, s.seen, s.runs = New(s.store, s.budget), tally{}, ""
	// so that no wait ends at the moment at which the cleaner or the store looks
	time.Sleep(time.Second / 2)
}

// lead begins another leader epoch, as a controller counts them.
func (s *stage) lead() {
	s.epoch++
	stageMust(s.log.Lead(s.epoch), "lead")
}

// replicated tells the log that all of it is on every replica.
func (s *stage) replicated() { s.log.AdvanceHighWatermark(s.log.LogEnd()) }

// close ends what runs; on a failed stage it may be half of it.
func (s *stage) close() {
	if s.cleaner != nil {
		s.cleaner.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
	s.cleaner, s.store = nil, nil
}

// restart stops the broker in order, and starts it.
func (s *stage) restart() {
	last := s.lastBatch(s.ledger.end)
	s.cleaner.Close()
	s.cleaner = nil
	stageMust(s.store.Close(), "close")
	s.store = nil
	s.wantEndFrom(last)
	s.abandon()
	s.repeat()
}

// kill cuts the power, and starts the broker: what was not synced may be gone, and nothing else.
func (s *stage) kill() {
	s.replicated()
	disk := s.fsys.CrashClone()
	safe := s.lastBatch(recoveryPoint(disk))
	s.close()
	s.fsys = disk
	s.wantEndFrom(safe)
	s.abandon()
	s.repeat()
}

// recoveryPoint reads the recovery point of the log from its checkpoint; 0 if there is none.
func recoveryPoint(disk vfs.FS) (offset int64) {
	content, err := disk.ReadFile(filepath.Join(dataDir, checkpoint.RecoveryPointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	stageMust(err, "read the recovery point")
	for line := range strings.Lines(string(content)) {
		if text, ok := strings.CutPrefix(line, fmt.Sprintf("%s %d ", partition.Topic,
			partition.Index)); ok {
			stageMust(scan(text, &offset), "read the recovery point")
		}
	}
	return offset
}

// segments lists the base offsets of the segments; the last one is active.
func (s *stage) segments() []int64 { return segmentBases(stageTB{}, s.fsys) }

func (s *stage) activeBase() int64 {
	bases := s.segments()
	return bases[len(bases)-1]
}

// lastBatch is where the last batch below an offset ends: a gap behind it, left by a truncation, is
// not known to a start that looks at the files.
func (s *stage) lastBatch(below int64) int64 {
	end := s.log.LogStart()
	for _, b := range s.scan().batches {
		if b.NextOffset() <= below {
			end = b.NextOffset()
		}
	}
	return end
}

// wantEndFrom starts the broker. Nothing below safe may be gone, nor anything be there that was
// not.
func (s *stage) wantEndFrom(safe int64) {
	s.open()
	end := s.log.LogEnd()
	if end < safe || end > s.ledger.end {
		stageFail("the log ends at %d behind a start; it ended at %d, and %d was safe", end,
			s.ledger.end, safe)
	}
	s.ledger.cut(end)
}

func (s *stage) wantEnd(want int64) {
	if end := s.log.LogEnd(); end != want {
		stageFail("the log ends at %d, want %d", end, want)
	}
}

// repeat sends the last batch of each producer once more, as one does that missed the answer: I26.
func (s *stage) repeat() {
	for _, b := range s.ledger.lastOfProducers() {
		if b.forged || b.producer < s.producers ||
			slices.ContainsFunc(b.records, func(r record.Record) bool { return r.Key == nil }) {
			continue // nobody would take it now
		}
		got, err := s.log.AppendVerified(slices.Clone(b.wire),
			logstore.Verified{Transaction: b.transactional}, time.Now())
		if err != nil || !got.Duplicate || got.BaseOffset != b.base {
			stageFail("the last batch of producer %d, at %d, sent again: %+v, %v", b.producer,
				b.base, got, err)
		}
	}
}

// do runs one line, and holds the log against the ledger.
func (s *stage) do(line string) {
	words := strings.Fields(line)
	command, known := stageCommands[words[0]]
	if !known {
		stageFail("no such command")
	}
	command(s, words[1:])
	if unseen[words[0]] {
		return
	}
	s.still()
	s.ledger.check(s)
}

// unseen are commands that do nothing to a log.
var unseen = map[string]bool{"config": true, "memory": true, "log": true, "counts": true,
	"paragraph": true, "settled": true, "read": true}

// still waits for the pass that may be under way: what one check reads must be one state of the
// log.
func (s *stage) still() {
	synctest.Wait()
	if runs := fmt.Sprint(s.tally().runs); runs != s.runs {
		s.runs, s.ledger.known = runs, s.ledger.end
	}
}

// tally is what the cleaner has done up to a moment.
type tally struct {
	runs                              map[string]int64
	read, written, reclaimed, removed int64
	sidecarRead, sidecarWritten       int64
	reason, lastError                 string
}

// tally takes the cleaner's own figures, as its metrics and its report have them.
func (s *stage) tally() tally {
	status := s.cleaner.Status(partition)
	if status == nil {
		return tally{reason: "not compacted"}
	}
	return tally{
		runs: status.Runs, read: status.ReadBytes, written: status.WrittenBytes,
		reclaimed: status.ReclaimedBytes, removed: status.RemovedRecords,
		sidecarRead: status.SidecarReadBytes, sidecarWritten: status.SidecarWrittenBytes,
		reason: status.Reason, lastError: status.LastError,
	}
}
