package logstore

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// rowsOf returns all rows of a log, in pages of limit rows.
func rowsOf(t testing.TB, log *Log, limit int, now time.Time) (all compaction.SegmentRows) {
	t.Helper()
	for from := int64(0); ; from = all.Next {
		page, err := log.Compaction().SegmentRows(from, limit, now)
		if err != nil {
			t.Fatal(err)
		}
		page.Rows = append(all.Rows, page.Rows...)
		if all = page; all.Next < 0 {
			return all
		}
	}
}

// modelState computes a segment's state from the definitions in docs/internals/cleaner.md, without
// any stored state.
func modelState(log *Log, handles []*segmentlist.Handle, index int,
	now time.Time) (compaction.SegmentState,
	string) {
	end := func(i int) int64 {
		if i+1 < len(handles) {
			return handles[i+1].Base()
		}
		return math.MaxInt64
	}
	if end(index) <= log.LogStart() {
		return compaction.SegmentExpired, ""
	}
	firstDirty := log.Compaction().Progress.FirstDirty()
	if firstDirty < log.LogStart() || firstDirty > log.LogEnd() {
		firstDirty = log.LogStart()
	}
	for i := range index + 1 {
		reason := ""
		young := handles[i].LastWritten() > now.Add(-log.Settings().MinLag).UnixMilli()
		switch {
		case end(i) <= log.LogStart():
		case i == len(handles)-1:
			reason = compaction.BlockedActive
		case end(i) > log.HighWatermark():
			reason = compaction.BlockedUnreplicated
		case end(i) > log.LastStable():
			reason = compaction.BlockedTransaction
		case end(i) > log.disk.SealedEnd():
			reason = compaction.BlockedActive
		case end(i) > firstDirty && log.Settings().MinLag > 0 && young:
			reason = compaction.BlockedMinLag
		}
		if reason != "" && index == len(handles)-1 {
			reason = compaction.BlockedActive
		}
		if reason != "" {
			return compaction.SegmentBlocked, reason
		}
	}
	if end(index) > firstDirty {
		return compaction.SegmentDirty, ""
	}
	return compaction.SegmentClean, ""
}

// TestSegmentStatesMatchDefinitions compares the segments' states with a model, and the sums over
// the segments with the sections that the cleaner uses, while offsets and settings change at
// random.
func TestSegmentStatesMatchDefinitions(t *testing.T) {
	for s := range seed.Sequence(t, 5) {
		random := rand.New(rand.NewPCG(s, 0))
		_, log := compactLog(t, vfs.NewMem(), nil)
		fill(t, log, random.IntN(40))
		list := log.list.Acquire()
		for range 100 {
			log.offsets.Restore(log.LogStart(), random.Int64N(log.LogEnd()+1), log.LogEnd(),
				&log.mu.producers)
			log.offsets.RaiseLogStart(random.Int64N(log.offsets.HighWatermark()+1), &log.mu.producers)
			must(t, log.compaction.Progress.SetFirstDirty(random.Int64N(log.LogEnd()+5)))
			log.Configure(settings(func(s *topicconfig.Settings) {
				s.Delete, s.Compact = false, true
				s.MinLag = time.Duration(random.IntN(3)) * time.Hour
			}), true)
			now := epoch0.Add(time.Duration(random.IntN(180)) * time.Minute)
			sections, _ := log.Compaction().Sections(now)
			got := rowsOf(t, log, 1+random.IntN(4), now)
			sums := map[string]int64{}
			for i, row := range got.Rows {
				state, reason := modelState(log, list.Handles, i, now)
				if row.State != state || row.BlockedBy != reason {
					t.Fatalf("segment %d: got state %d %q, want %d %q (%+v)", row.Base, row.State,
						row.BlockedBy, state, reason, sections)
				}
				sums[fmt.Sprint(state, reason)] += row.SizeBytes
			}
			want := map[string]int64{fmt.Sprint(compaction.SegmentClean, ""): sections.CleanBytes,
				fmt.Sprint(compaction.SegmentDirty, ""): sections.DirtyBytes}
			for reason, bytes := range sections.Blocked {
				want[fmt.Sprint(compaction.SegmentBlocked, reason)] = bytes
			}
			for key, bytes := range want {
				if sums[key] != bytes {
					t.Fatalf("state %s: got %d bytes, want %d", key, sums[key], bytes)
				}
			}
			if got.Bound != sections.Bound || got.FirstDirty != sections.FirstDirty ||
				got.Total != len(list.Handles) || len(got.Rows) != got.Total {
				t.Fatalf("got %+v, want %+v", got, sections)
			}
		}
		list.Release()
	}
}

// fileFacts are the facts about one segment, computed by reading all of its files.
type fileFacts struct {
	records, tombstones, nullKeys int
	dead                          *clean.DeadFile
}

func factsOf(t testing.TB, log *Log, h *segmentlist.Handle) (f fileFacts) {
	t.Helper()
	err := h.Scan(0, func(_ int64, b record.Batch) error {
		return b.Records(1<<20, func(r *record.Record) error {
			f.records++
			switch {
			case b.Control() || r.Key == nil:
				f.nullKeys++
			case r.Tombstone():
				f.tombstones++
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	name := log.compaction.Sidecars.Path(h.Base(), segment.DeadExtension, "")
	if content, err := log.env.fs.ReadFile(name); err == nil {
		if f.dead, err = clean.DecodeDeadFile(content); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// checkRow compares a row with the files of the row's segment.
func checkRow(t testing.TB, log *Log, h *segmentlist.Handle, row compaction.SegmentRow) {
	t.Helper()
	f := factsOf(t, log, h)
	if row.Base != h.Base() || row.SizeBytes != h.SizeBytes() ||
		row.LastOffset != h.NextOffset()-1 {
		t.Fatalf("got row %+v of segment %d", row, h.Base())
	}
	// A segment of small records has no sidecar after a pass.
	_, missing := log.env.fs.Stat(log.compaction.Sidecars.Name(h.Base()))
	if row.Counts == nil && missing == nil ||
		row.Counts != nil && (row.Counts.Records != f.records ||
			row.Counts.Tombstones != f.tombstones || row.Counts.NullKeys != f.nullKeys) {
		t.Fatalf("segment %d: got counts %+v, the file has %+v", row.Base, row.Counts, f)
	}
	var want *compaction.SegmentGarbage
	var clocks []progress.TombstoneClock
	switch {
	case f.dead != nil && f.dead.ComputedThrough > log.LogEnd(): // the log was truncated since
	case f.dead != nil && f.dead.Lineage == uint64(log.EpochAt(f.dead.ComputedThrough-1)):
		want = &compaction.SegmentGarbage{Bytes: f.dead.DeadBytes,
			Records: int64(f.dead.DeadRecords), CountedMs: f.dead.PassedAtMs}
		for _, set := range f.dead.Removable {
			clocks = append(clocks, progress.TombstoneClock{Count: int64(set.Count), SinceMs: set.SinceMs,
				Replicated: true,
				GoesFromMs: set.SinceMs + log.Settings().TombstoneRetention.Milliseconds()})
		}
	case f.dead == nil && row.State == compaction.SegmentClean:
		want = &compaction.SegmentGarbage{}
	}
	if (row.Garbage == nil) != (want == nil) || want != nil && *row.Garbage != *want ||
		!slices.Equal(row.Clocks, clocks) {
		t.Fatalf("segment %d: got garbage %+v, clocks %+v, want %+v, %+v", row.Base, row.Garbage,
			row.Clocks, want, clocks)
	}
}

// TestSegmentRowsEqualFiles compares rows with the segments' files: after appends, after passes
// that leave garbage, after truncations, and after restarts.
func TestSegmentRowsEqualFiles(t *testing.T) {
	garbage, clocks := 0, 0
	for s := range seed.Sequence(t, 3) {
		random := rand.New(rand.NewPCG(s, 0))
		fsys := vfs.NewMem()
		store := openStore(t, fsys)
		config := keyedSettings(func(s *topicconfig.Settings) {
			s.MaxGarbagePercent, s.TombstoneRetention = 50, time.Hour
		})
		log := createLog(t, store, config)
		now := epoch0
		for range 60 {
			switch random.IntN(6) {
			case 0:
				if _, err := log.Compaction().Pass(t.Context(), compaction.PassOptions{
					Settings: log.Compaction().Settings(), Now: now, MemoryBytes: 1 << 20,
					Thorough: random.IntN(4) == 0}); err != nil {
					t.Fatal(err)
				}
			case 1:
				if random.IntN(4) == 0 && log.LogEnd() > 20 {
					end := log.LogEnd() - random.Int64N(20)
					log.offsets.Restore(log.LogStart(), min(end, log.HighWatermark()), log.LogEnd(),
						&log.mu.producers)
					if err := log.TruncateTo(end); err != nil {
						t.Fatal(err)
					}
				}
			default:
				for range random.IntN(15) {
					b := storetest.Batch{Keys: []string{fmt.Sprint("k", random.IntN(30))},
						Value: randomText(100)}
					content := b.Bytes(t)
					if random.IntN(4) == 0 {
						content = b.Tombstones(t)
					}
					appendBatch(t, log, content)
				}
			}
			now = now.Add(time.Minute)
			store.tick(epoch0, false)
			updateSidecars(log, now)
			rows, list := rowsOf(t, log, 3, now), log.list.Acquire()
			for i, h := range list.Handles[:len(list.Handles)-1] {
				checkRow(t, log, h, rows.Rows[i])
				clocks += len(rows.Rows[i].Clocks)
				if g := rows.Rows[i].Garbage; g != nil && g.Records > 0 {
					garbage++
				}
			}
			list.Release()
		}
	}
	if garbage == 0 || clocks == 0 {
		t.Errorf("%d rows with garbage, %d clocks: the test has compared nothing", garbage, clocks)
	}
}

// TestSegmentHeadersAreReadOnce checks that the second report reads no sidecar and no .dead file.
func TestSegmentHeadersAreReadOnce(t *testing.T) {
	fsys, _, log := keyedLog(t, 60)
	updateSidecars(log, epoch0)
	first := rowsOf(t, log, 500, epoch0)
	for _, name := range names(t, fsys) {
		if strings.HasSuffix(name, keys.Extension) {
			if err := fsys.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	second := rowsOf(t, log, 500, epoch0)
	for i, row := range second.Rows[:second.Total-1] {
		if row.Counts == nil || *row.Counts != *first.Rows[i].Counts || row.Counts.Records == 0 {
			t.Errorf("segment %d: got counts %+v, want %+v", row.Base, row.Counts,
				first.Rows[i].Counts)
		}
	}
}

// names returns the paths of the log's files.
func names(t testing.TB, fsys vfs.FS) (all []string) {
	t.Helper()
	dir := dataDir + "/" + partition.String()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, dir+"/"+entry.Name())
	}
	return all
}

// TestSegmentRowsOfOtherLogs checks that a log that is not compacted has rows without a section,
// and that a closed log has no rows.
func TestSegmentRowsOfOtherLogs(t *testing.T) {
	store, log := swapLog(t, vfs.NewMem())
	rows := rowsOf(t, log, 2, epoch0)
	if rows.Compacted || rows.Total != 5 || len(rows.Rows) != 5 || rows.Bound != 0 {
		t.Errorf("got %+v", rows)
	}
	for _, row := range rows.Rows {
		if row.State != compaction.SegmentUncompacted || row.Counts != nil || row.Garbage != nil {
			t.Errorf("row %+v, want an uncompacted one without counts and garbage", row)
		}
		if !row.HasBatches || row.OldestMs != epoch0.UnixMilli() {
			t.Errorf("row %+v, want the oldest time %d", row, epoch0.UnixMilli())
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Compaction().SegmentRows(0, 1, epoch0); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed log: error %v", err)
	}
}
