package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// world is a data directory in which every file of a log has content. The log has several segments,
// two leader epochs, an idempotent producer, aborted transactions and an open transaction. The log
// start is above the base offset of the first segment.
type world struct {
	mem, earlier *vfs.Mem // earlier: an earlier state of the same disk
	want         state
}

// state is a log's state as its callers see it. Damage to files that can be rebuilt must not change
// it.
type state struct {
	start, end, stable, highWatermark int64
	keys, committed                   []string
	epochs                            string
	// at contains the results of lookups by timestamp, for several timestamps.
	name string
}

func stateOf(t *testing.T, log *Log) state {
	t.Helper()
	s := state{start: log.LogStart(), end: log.LogEnd(), highWatermark: log.HighWatermark()}
	log.AdvanceHighWatermark(log.LogEnd())
	s.stable = log.LastStable()
	s.keys, s.committed = readKeys(t, log, s.start), committedKeys(t, log, s.start)
	s.epochs = fmt.Sprint(log.LeaderEpoch())
	for offset := s.start; offset < s.end; offset++ {
		s.epochs += fmt.Sprint(" ", log.EpochAt(offset))
	}
	for ms := int64(0); ms < 60; ms += 7 {
		result, ok, err := log.Timestamps().First(epoch0.UnixMilli()+ms, log.LogEnd())
		if err != nil {
			t.Fatal(err)
		}
		s.name += fmt.Sprint(result.Offset, ok, " ")
	}
	return s
}

func newWorld(t *testing.T, stopped bool) world {
	t.Helper()
	w := world{mem: vfs.NewMem()}
	store := openStore(t, w.mem)
	log := createLog(t, store,
		settings(func(s *topicconfig.Settings) {
			s.Delete, s.Compact, s.SegmentBytes = true, true, 900
		}))
	if err := log.Lead(2); err != nil {
		t.Fatal(err)
	}
	other, err := store.Create(PartitionID{Topic: "other"}, topicTwo, settings(nil), true)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, other, 3)
	for round := range int32(10) {
		if round == 6 {
			store.tick(epoch0, false)
			w.earlier = w.mem.CrashClone()
			if err := log.Lead(4); err != nil {
				t.Fatal(err)
			}
		}
		moment := epoch0.Add(time.Duration(log.LogEnd()) * time.Millisecond)
		seen := time.Now() // the present, because a start would expire older producers
		if _, err := log.Append(storetest.Batch{
			Producer: 7, Sequence: round, Timestamp: moment, Keys: []string{fmt.Sprintf("p%d", round)},
			Value: "of producer 7",
		}.Bytes(t), seen); err != nil {
			t.Fatal(err)
		}
		txn := storetest.Batch{Producer: 9, Sequence: round, Timestamp: moment,
			Keys: []string{fmt.Sprintf("t%d", round)}, Value: "of a transaction",
			Transactional: true}.Bytes(t)
		if _, err := log.AppendVerified(txn, Verified{Transaction: true}, seen); err != nil {
			t.Fatal(err)
		}
		appendBatch(t, log, storetest.Batch{Timestamp: moment,
			Keys:  []string{fmt.Sprintf("k%d", round)},
			Value: "a value of some thirty bytes"}.Bytes(t))
		if round < 9 {
			endTxn(t, log, 9, round%2 == 0)
		}
	}
	if err := log.DeleteBefore(3); err != nil {
		t.Fatal(err)
	}
	w.want = stateOf(t, log)
	store.tick(epoch0, false)
	// Write a .dead file, as a pass does. The file does not match the segment's bytes, which the
	// next pass detects (package clean).
	dead := filepath.Join(log.dir, segment.Name(bases(log)[0], segment.DeadExtension, ""))
	content := (&clean.DeadFile{}).Encode()
	if err := vfs.WriteFileAtomic(w.mem, dead, content); err != nil {
		t.Fatal(err)
	}
	if stopped {
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	w.mem = w.mem.CrashClone()
	return w
}

// damages lists ways to damage a file. earlier is an earlier content of the same file, or the
// content of another file of the same kind.
var damages = []struct {
	name   string
	change func(content, earlier []byte) []byte // new content; nil removes the file
}{
	{"missing", func([]byte, []byte) []byte { return nil }},
	{"empty", func([]byte, []byte) []byte { return []byte{} }},
	{"truncated", func(b, _ []byte) []byte { return b[:len(b)/2] }},
	{"a byte short", func(b, _ []byte) []byte { return b[:max(len(b)-1, 0)] }},
	{"garbage", func(b, _ []byte) []byte {
		return bytes.Repeat([]byte{0xa5, 0x5a, 0xff},
			len(b)/3+7)
	}},
	{"zeros", func(b, _ []byte) []byte { return make([]byte, len(b)) }},
	{"stale", func(_, earlier []byte) []byte { return earlier }},
	{"too long", func(b, _ []byte) []byte { return append(bytes.Clone(b), "\x01and more\n"...) }},
}

// findFile returns the first file with a suffix, or the last file if the argument last is true. It
// searches the partition's directory, and then the data directory if the partition's directory
// contains no such file.
func findFile(t *testing.T, mem *vfs.Mem, suffix string, last bool) string {
	t.Helper()
	var found []string
	for _, dir := range []string{filepath.Join(dataDir, partition.String()), dataDir} {
		entries, err := mem.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), suffix) && !entry.IsDir() {
				found = append(found, filepath.Join(dir, entry.Name()))
			}
		}
		if len(found) > 0 {
			break
		}
	}
	if len(found) == 0 {
		t.Skipf("skipped: there is no %s here", suffix)
	}
	slices.Sort(found)
	if last {
		return found[len(found)-1]
	}
	return found[0]
}

// TestDamagedFilesAreRebuiltOrRejected checks that a start rebuilds a damaged file if possible, and
// the log's state is unchanged. If the file cannot be rebuilt, the start fails with an error that
// contains the file's name. Other partitions are not affected.
func TestDamagedFilesAreRebuiltOrRejected(t *testing.T) {
	for _, file := range []struct {
		name, suffix string
		last         bool
		// except copies the parts of want that may differ to got, because only this file stores
		// them (docs/internals/format/checkpoints.md).
		except func(got, want *state)
		// reject is set if damage to this file may take the partition offline or make the store
		// reject the data directory.
		reject bool
	}{
		{name: "offset index, sealed", suffix: ".index"},
		{name: "offset index, active", suffix: ".index", last: true},
		{name: "time index, sealed", suffix: ".timeindex"},
		{name: "time index, active", suffix: ".timeindex", last: true},
		{name: "transaction index, first", suffix: ".txnindex"},
		{name: "transaction index, last", suffix: ".txnindex", last: true},
		{name: "producer snapshot, newest", suffix: swap.SnapshotSuffix, last: true},
		{name: "producer snapshot, oldest", suffix: swap.SnapshotSuffix},
		{name: "leader epochs", suffix: checkpoint.EpochsFile},
		{name: "recovery points", suffix: checkpoint.RecoveryPointFile},
		{name: "log starts", suffix: checkpoint.LogStartFile, except: func(got, want *state) {
			if got.start == 0 { // the base of the first segment, because no other file stores the start
				got.start, got.keys, got.committed, got.name = want.start,
					got.keys[len(got.keys)-len(want.keys):], want.committed, want.name
				got.epochs = want.epochs
			}
		}},
		{name: "high watermarks", suffix: checkpoint.HighWatermarkFile,
			except: func(got, want *state) { got.highWatermark = want.highWatermark }},
		{name: "first dirty offsets", suffix: checkpoint.FirstDirtyFile},
		{name: "tombstone horizons", suffix: checkpoint.HorizonFile},
		{name: "dead file", suffix: segment.DeadExtension},
		{name: "aborted transactions", suffix: checkpoint.AbortedFile},
		{name: "cleaning progress", suffix: checkpoint.CleaningFile},
		{name: "summaries of segments", suffix: checkpoint.SegmentsFile},
		{name: "topic id", suffix: datadir.PartitionFile, reject: true},
		{name: "policy", suffix: datadir.PolicyFile, reject: true},
		{name: "directory id", suffix: datadir.MetaFile, reject: true},
		{name: "key salt", suffix: "key-salt"},
	} {
		for _, clean := range []bool{true, false} {
			for _, damage := range damages {
				t.Run(fmt.Sprintf("%s, %s, clean %v", file.name, damage.name, clean),
					func(t *testing.T) {
						w := newWorld(t, clean)
						path := findFile(t, w.mem, file.suffix, file.last)
						content, err := w.mem.ReadFile(path)
						if err != nil {
							t.Fatal(err)
						}
						earlier, err := w.earlier.ReadFile(path)
						if errors.Is(err, fs.ErrNotExist) {
							earlier,
								err = w.mem.ReadFile(findFile(t, w.mem, file.suffix, !file.last))
						}
						if err != nil {
							t.Fatal(err)
						}
						if changed := damage.change(content, earlier); changed == nil {
							err = w.mem.Remove(path)
						} else {
							err = vfs.WriteFileAtomic(w.mem, path, changed)
						}
						if err != nil {
							t.Fatal(err)
						}
						w.open(t, path, file.reject, file.except)
					})
			}
		}
	}
}

// open opens the damaged data directory and compares the log with the expected state. If mayReject
// is set, an error that names the damaged file is accepted too.
func (w world) open(t *testing.T, path string, mayReject bool, except func(got, want *state)) {
	t.Helper()
	store, err := Open(Options{FS: w.mem, Dir: dataDir, Logger: quiet(), FlushInterval: time.Hour})
	if err == nil {
		t.Cleanup(func() { _ = store.Close() })
		err = store.Offline()[partition]
	}
	if err != nil {
		if !mayReject || !errors.Is(err, datadir.ErrMalformed) && !errors.Is(err, record.ErrCorrupt) ||
			!strings.Contains(err.Error(), filepath.Base(path)) {
			t.Fatalf("got error %v, want the log to be opened or an error that names %s", err, path)
		}
		return
	}
	if other := store.Log(PartitionID{Topic: "other"}); other == nil ||
		!slices.Equal(readKeys(t, other, 0), expectKeys(0, 3)) {
		t.Error("another partition was harmed")
	}
	log := store.Log(partition)
	got := stateOf(t, log)
	if except != nil {
		except(&got, &w.want)
	}
	if fmt.Sprint(got) != fmt.Sprint(w.want) {
		t.Errorf("got  %v\nwant %v", got, w.want)
	}
	repeat := storetest.Batch{Producer: 7, Sequence: 9, Keys: []string{"p9"},
		Value: "of producer 7"}.Bytes(t)
	if again, err := log.Append(repeat, epoch0); err != nil || !again.Duplicate {
		t.Errorf("repeated batch of producer 7: %+v, %v", again, err)
	}
	next := storetest.Batch{Producer: 7, Sequence: 10, Keys: []string{"p10"}}.Bytes(t)
	if appended, err := log.Append(next, epoch0); err != nil || appended.BaseOffset != w.want.end {
		t.Errorf("next batch of producer 7: %+v, %v", appended, err)
	}
	if !log.Producers().HasOpenTransaction(9, 0) {
		t.Error("the open transaction of producer 9 is lost")
	}
}

// TestDamagedSidecarsAreFoundAndRebuilt checks that Verify detects a key sidecar that is damaged or
// belongs to other data. The cleaner rebuilds such a sidecar when it opens it.
func TestDamagedSidecarsAreFoundAndRebuilt(t *testing.T) {
	for _, file := range []string{keys.Extension, keys.SaltFile} {
		for _, damage := range damages {
			t.Run(file+", "+damage.name, func(t *testing.T) {
				w := newWorld(t, true)
				store := openStore(t, w.mem)
				log := createLog(t, store,
					settings(func(s *topicconfig.Settings) {
						s.Delete, s.Compact, s.SegmentBytes = true, true, 900
					}))
				want := countKeys(t, log)
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(dataDir, partition.String())
				if problems, err := inspect.Verify(w.mem, []string{dir}, inspect.VerifyOptions{},
					t.Output()); err != nil || problems > 0 {
					t.Fatalf("%d problems, %v", problems, err)
				}
				path := findFile(t, w.mem, file, false)
				content, err := w.mem.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				other, err := w.mem.ReadFile(findFile(t, w.mem, file, true))
				if err != nil {
					t.Fatal(err)
				}
				if file == keys.SaltFile {
					other = keys.Salt{1}.Encode()
				}
				changed := damage.change(content, other)
				if changed == nil {
					err = w.mem.Remove(path)
				} else {
					err = vfs.WriteFileAtomic(w.mem, path, changed)
				}
				if err != nil {
					t.Fatal(err)
				}
				problems, err := inspect.Verify(w.mem, []string{dir}, inspect.VerifyOptions{},
					io.Discard)
				if missing := file == keys.Extension && changed == nil; err != nil ||
					(problems == 0) != missing {
					t.Errorf("%d problems, %v", problems, err)
				}
				log = createLog(t, openStore(t, w.mem), log.Settings())
				if got := countKeys(t, log); !slices.Equal(got, want) {
					t.Errorf("rebuilt: %v, want %v", got, want)
				}
			})
		}
	}
}

// countKeys opens or builds each sealed segment's sidecar, and returns the sidecars' numbers of
// records and entries.
func countKeys(t *testing.T, log *Log) (counts []string) {
	t.Helper()
	list := log.list.Acquire()
	defer list.Release()
	for _, h := range list.Handles[:len(list.Handles)-1] {
		reader, err := log.compaction.Sidecars.OpenOrBuild(t.Context(), h.Segment,
			sidecars.Options{Background: true})
		if err != nil {
			t.Fatal(err)
		}
		entries := 0
		for e := reader.Entries(keys.AllHashes); ; {
			page, err := e.NextPage()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			entries += page.Len()
		}
		counts = append(counts, fmt.Sprint(h.Base(), reader.Counts(), entries))
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}
