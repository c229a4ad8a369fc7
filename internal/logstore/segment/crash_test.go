package segment

import (
	"bytes"
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// writeSegment writes a segment, and stops at the first error that a test injects. It returns the
// appended batches, and how many of them a successful Sync or Seal has made durable.
func writeSegment(t *testing.T, fsys vfs.FS) (m *model, durable int, err error) {
	m = &model{base: 3}
	s, err := Create(fsys, "/", m.base, "",
		Config{IndexIntervalBytes: 300, UnwrittenEntriesMax: 1})
	if err != nil {
		return m, 0, err
	}
	for i := range 12 {
		b := batchOf(t, m.next(), 2, int64(1000+i), 150+100*(i%3))
		if err := s.Append(b); err != nil {
			return m, durable, err
		}
		m.batches = append(m.batches, b)
		if i%4 == 3 {
			if err := s.Sync(); err != nil {
				return m, durable, err
			}
			durable = len(m.batches)
			if i == 7 {
				for range 2 { // the second call syncs the indexes
					if err := s.SyncIdleIndexes(); err != nil {
						return m, durable, err
					}
				}
			}
		}
	}
	if err := s.Seal(); err != nil {
		return m, durable, err
	}
	return m, len(m.batches), s.Close()
}

// TestCrashAtEveryStepLosesNothingSynced checks that after a power cut at any step of writeSegment,
// Recover finds every synced batch. It finds only complete batches, in the order in which they were
// appended.
func TestCrashAtEveryStepLosesNothingSynced(t *testing.T) {
	for step := 0; ; step++ {
		mem := vfs.NewMem()
		fault := vfs.NewFault(mem)
		fault.Inject(vfs.Rule{Skip: step, WriteBytes: 70}) // all later operations fail
		m, durable, err := writeSegment(t, fault)
		for seed := range uint64(5) {
			crashed := mem.CrashClone()
			if seed > 0 {
				crashed = mem.CrashClonePartly(seed)
			}
			recoverCrashed(t, crashed, m, durable, step)
		}
		if err == nil {
			if step < 30 {
				t.Errorf("only %d steps, want at least 30", step)
			}
			return
		}
	}
}

func recoverCrashed(t *testing.T, crashed *vfs.Mem, m *model, durable, step int) {
	t.Helper()
	cfg := Config{IndexIntervalBytes: 300}
	seen := 0
	s, found, err := Recover(crashed, "/", m.base, cfg, func(b record.Batch) error {
		if seen >= len(m.batches) || !bytes.Equal(b, m.batches[seen]) {
			t.Fatalf("step %d: batch %d was never appended", step, seen)
		}
		seen++
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) && durable == 0 {
		return // no batch was synced, and the crash has lost the file's name
	}
	must(t, err)
	if seen < durable || found.Batches != int64(seen) ||
		(found.TruncatedBytes > 0) != (found.Cause != nil) {
		t.Fatalf("step %d: recovered %d batches (%+v), %d were synced", step, seen, found, durable)
	}
	kept := &model{base: m.base, batches: m.batches[:seen]}
	random := newRandom(t)
	kept.check(t, s, random)
	// The recovered segment is durable: Recover after a second crash truncates nothing.
	again, found, err := Recover(crashed.CrashClone(), "/", m.base, cfg, nil)
	must(t, err)
	if found.Cause != nil || again.NextOffset() != kept.next() {
		t.Fatalf("step %d: second recovery %+v up to %d", step, found, again.NextOffset())
	}
	b := batchOf(t, kept.next(), 1, 5000, 10)
	must(t, s.Append(b))
	kept.batches = append(kept.batches[:seen:seen], b)
	must(t, s.Close())
	reopened, err := Open(crashed.CrashClone(), "/", m.base, cfg)
	must(t, err)
	kept.check(t, reopened, random)
}

// TestSealedSegmentSurvivesACrash checks that Open after a crash finds a sealed segment unchanged,
// so the segment needs no Recover.
func TestSealedSegmentSurvivesACrash(t *testing.T) {
	mem := vfs.NewMem()
	m, _, err := writeSegment(t, mem)
	must(t, err)
	crashed := mem.CrashClone()
	s, err := Open(crashed, "/", m.base, Config{IndexIntervalBytes: 300})
	must(t, err)
	m.check(t, s, newRandom(t))
	wantFiles(t, crashed, m, 300)
}

// TestRecoverTruncatesAtTheFirstInvalidBatch checks that Recover truncates the segment at the first
// invalid batch: an incomplete batch, or a batch with a wrong length, magic, checksum or offset.
func TestRecoverTruncatesAtTheFirstInvalidBatch(t *testing.T) {
	batches := []record.Batch{batchOf(t, 0, 2, 10, 50), batchOf(t, 2, 2, 20, 50),
		batchOf(t, 4, 2, 30, 50)}
	second := len(batches[0])
	damaged := func(index int, to byte) []byte {
		all := (&model{batches: batches}).bytes()
		all[second+index] = to
		return all
	}
	for name, content := range map[string][]byte{
		"length too small":      damaged(11, 3),
		"length beyond the end": damaged(9, 1),
		"length negative":       damaged(8, 0xff),
		"magic 1":               damaged(16, 1),
		"checksum":              damaged(20, 0xaa),
		"a changed record":      damaged(100, 0xaa),
		"base offset repeats":   damaged(7, 1),
		"base offset negative":  damaged(0, 0xff),
		"base offset too large": damaged(3, 0x80),
		"incomplete header":     (&model{batches: batches}).bytes()[:second+40],
		"incomplete batch":      (&model{batches: batches}).bytes()[:second+len(batches[1])-1],
		"zeros":                 append(bytes.Clone(batches[0]), make([]byte, 1000)...),
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			must(t, vfs.WriteFileAtomic(mem, "/"+Name(0, LogExtension, ""), content))
			s, found, err := Recover(mem, "/", 0, Config{}, nil)
			must(t, err)
			if found.Batches != 1 || found.TruncatedBytes != int64(len(content)-second) ||
				!errors.Is(found.Cause, record.ErrCorrupt) {
				t.Errorf("found %+v", found)
			}
			if s.NextOffset() != 2 || s.SizeBytes() != int64(second) {
				t.Errorf("next offset %d, size %d", s.NextOffset(), s.SizeBytes())
			}
		})
	}
}

func TestRecoverTruncatesNothingWhenTheDiskOrTheVisitorFails(t *testing.T) {
	mem := vfs.NewMem()
	m, _, err := writeSegment(t, mem)
	must(t, err)
	size := int64(len(m.bytes()))
	wantUntruncated := func() {
		t.Helper()
		if info, err := mem.Stat("/" + Name(m.base, LogExtension, "")); err != nil ||
			info.Size() != size {
			t.Fatalf("the file has %d bytes, %v; want %d", info.Size(), err, size)
		}
	}
	fault := vfs.NewFault(mem)
	fault.Inject(vfs.Rule{Op: vfs.OpRead})
	if _, _, err := Recover(fault, "/", m.base, Config{}, nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("recovery of an unreadable file: %v", err)
	}
	wantUntruncated()
	// Recover does not truncate a batch that the visitor rejects, even if the visitor's error wraps
	// ErrCorrupt.
	rejected := errors.Join(errors.New("rejected"), record.ErrCorrupt)
	if _, _, err := Recover(mem, "/", m.base, Config{},
		func(record.Batch) error { return rejected }); !errors.Is(err, rejected) {
		t.Errorf("recovery with a visitor that fails: %v", err)
	}
	wantUntruncated()
}

// TestSealAndCloseSyncIndexes checks that Close and Seal make all index entries durable, including
// entries that an earlier Sync wrote without syncing them.
func TestSealAndCloseSyncIndexes(t *testing.T) {
	for _, syncEach := range []bool{true, false} {
		for _, end := range []func(*Segment) error{(*Segment).Seal, (*Segment).Close} {
			mem := vfs.NewMem()
			s, err := Create(mem, "/", 0, "", Config{IndexIntervalBytes: 1, UnwrittenEntriesMax: 1})
			must(t, err)
			for i := range int64(9) {
				must(t, s.Append(batchOf(t, i, 1, 1000+i, 10)))
				if syncEach {
					must(t, s.Sync())
				}
			}
			must(t, end(s))
			for _, extension := range []string{IndexExtension, TimeIndexExtension} {
				name := "/" + Name(0, extension, "")
				want, err := mem.ReadFile(name)
				must(t, err)
				if got, err := mem.CrashClone().ReadFile(name); err != nil ||
					!bytes.Equal(got, want) {
					t.Errorf("sync each %t: after a crash %s has %d bytes of %d, %v", syncEach,
						extension, len(got), len(want), err)
				}
			}
		}
	}
}

// TestRecoveredSegmentSurvivesAPowerCut kills a process before it has synced data or names. The
// next process recovers the segment from the page cache. A later power cut loses nothing.
func TestRecoveredSegmentSurvivesAPowerCut(t *testing.T) {
	mem := vfs.NewMem()
	m := &model{base: 3}
	s, err := Create(mem, "/", m.base, "", Config{IndexIntervalBytes: 300})
	must(t, err)
	for i := range 6 {
		b := batchOf(t, m.next(), 2, int64(1000+i), 200)
		must(t, s.Append(b))
		m.batches = append(m.batches, b)
	}
	s, _, err = Recover(mem, "/", m.base, Config{IndexIntervalBytes: 300}, nil)
	must(t, err)
	if s.NextOffset() != m.next() || s.Unsynced() {
		t.Fatalf("recovered up to %d of %d, unsynced %t", s.NextOffset(), m.next(), s.Unsynced())
	}
	for seed := range uint64(20) {
		again, found, err := Recover(mem.CrashClonePartly(seed), "/", m.base,
			Config{IndexIntervalBytes: 300}, nil)
		must(t, err)
		if found.Cause != nil || again.NextOffset() != m.next() {
			t.Fatalf("seed %d: %+v up to %d", seed, found, again.NextOffset())
		}
		m.check(t, again, newRandom(t))
	}
}

// TestRecoveredIndexesAreSyncedLater checks that Recover does not sync the indexes; Seal does.
// Until then NeedsSeal reports true, and a start after a crash must use Recover instead of Open.
func TestRecoveredIndexesAreSyncedLater(t *testing.T) {
	mem := vfs.NewMem()
	cfg := Config{IndexIntervalBytes: 300}
	m, _, err := writeSegment(t, mem)
	must(t, err)
	for name, damage := range map[string][]byte{"unchanged": nil, "too long": make([]byte, 4000),
		"too short": {1, 2, 3}, "other bytes": []byte("12345678")} {
		if damage != nil {
			must(t, vfs.WriteFileAtomic(mem, "/"+Name(m.base, IndexExtension, ""), damage))
			must(t, vfs.WriteFileAtomic(mem, "/"+Name(m.base, TimeIndexExtension, ""), damage))
		}
		fault := vfs.NewFault(mem)
		fault.Inject(vfs.Rule{Op: vfs.OpSync, Name: "*index"})
		s, _, err := Recover(fault, "/", m.base, cfg, nil)
		if err != nil {
			t.Fatalf("%s: an index was synced: %v", name, err)
		}
		m.check(t, s, newRandom(t))
		if !s.NeedsSeal() || s.Unsynced() {
			t.Errorf("%s: needs seal %t, unsynced %t", name, s.NeedsSeal(), s.Unsynced())
		}
		fault.Clear()
		must(t, s.Seal())
		crashed := mem.CrashClone()
		wantFiles(t, crashed, m, 300)
		sealed, err := Open(crashed, "/", m.base, cfg)
		must(t, err)
		m.check(t, sealed, newRandom(t))
		must(t, s.Close())
	}
}
