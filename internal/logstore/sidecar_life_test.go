package logstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// A topic that turns from delete to compact gets its sidecars in the background, one that turns
// back loses them.
func TestPolicyChangeBuildsOrDeletesSidecars(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	// without a key: legal then
	appendBatch(t, log, nullableBatch(t, record.Record{Value: []byte(strings.Repeat("v", 200))}))
	fillKeyed(t, log, 35)
	store.tick(epoch0, false)
	tend(log, epoch0)
	if made := namesWith(t, fsys, log, ".key"); len(made) > 0 {
		t.Errorf("a topic that is not compacted has %v", made)
	}
	log.Configure(keyedSettings(nil), true)
	fillKeyed(t, log, 25)
	store.tick(epoch0, false)
	tend(log, epoch0)
	checkSidecars(t, log)
	fillKeyed(t, log, 3) // into a spool
	log.Configure(settings(nil), true)
	tend(log, epoch0)
	if left := namesWith(t, fsys, log, keys.Extension); len(left) > 0 {
		t.Errorf("not compacted any more, and has %v", left)
	}
	log.Configure(keyedSettings(nil), true)
	tend(log, epoch0)
	checkSidecars(t, log)
}

// Records so small that an entry is no small part of them: the sidecar is there for a pass only.
func TestF11SmallRecordsKeepNoSidecar(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	for range 40 {
		appendBatch(t, log, sent{keys: []string{"a", "b", "c", "d", "e"}, value: "v"}.bytes(t))
	}
	store.tick(epoch0, false)
	tend(log, epoch0)
	if made := namesWith(t, fsys, log, keys.Extension); len(made) > 0 &&
		!strings.Contains(made[0], "spool") {
		t.Errorf("made: %v", made)
	}
	for _, h := range keyedSegments(t, log) {
		reader, err := log.compaction.sidecars.openOrBuild(context.Background(), h.Segment,
			sidecarOptions{background: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(compareKeys(log, h, reader), reader.Close()); err != nil {
			t.Error(err)
		}
	}
	log.compaction.sidecars.trim()
	for _, name := range namesWith(t, fsys, log, keys.Extension) {
		if strings.HasSuffix(name, keys.Extension) {
			t.Errorf("%s is left after the pass", name)
		}
	}
}

func TestKeepsSidecarByTheSizeOfRecords(t *testing.T) {
	for _, c := range []struct {
		logBytes int64
		records  int
		want     bool
	}{{0, 0, true}, {61, 0, true}, {1000, 10, true}, {999, 10, false}, {1 << 31, 1 << 20, true},
		{40 << 20, 1 << 20, false}} {
		if got := keepsSidecar(c.logBytes, c.records); got != c.want {
			t.Errorf("%d bytes, %d records: %t", c.logBytes, c.records, got)
		}
	}
}

// The estimate is for a segment whose sidecar is not there: of batches of one size it is exact,
// also where offsets have gaps.
func TestEstimateRecords(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store,
		keyedSettings(func(s *topicconfig.Settings) { s.SegmentBytes = 10_000 }))
	for range 150 {
		appendBatch(t, log, sent{keys: []string{"a", "b", "c"},
			value: strings.Repeat("v", 30)}.bytes(t))
	}
	h := keyedSegments(t, log)[0]
	if got, want := estimateRecords(h), int(h.NextOffset()-h.Base()); got != want {
		t.Errorf("%d records, want %d", got, want)
	}
	store.tick(epoch0, false)
	cleaned, err := cleanedOf(t, log, []*segment.Segment{h.Segment}, []int64{0, 30, 60})
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceNow(log, []*segment.Segment{h.Segment}, cleaned); err != nil {
		t.Fatal(err)
	}
	if got := estimateRecords(keyedSegments(t, log)[0]); got != 9 {
		t.Errorf("%d records are left, want 9", got)
	}
}

// Sidecars go with their segments: through a swap, retention, and the release of the log.
func TestSidecarsAreDeletedWithSegments(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, 50)
	store.tick(epoch0, false)
	tend(log, epoch0)
	checkSidecars(t, log)
	sources := []*segment.Segment{keyedSegments(t, log)[1].Segment,
		keyedSegments(t, log)[2].Segment}
	cleaned, err := cleanedOf(t, log, sources, []int64{sources[0].Base() + 1, sources[1].Base()})
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceNow(log, sources, cleaned); err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Stat(log.compaction.sidecars.name(sources[0].Base())); err == nil {
		t.Fatal("the sidecar of a source lies beside the cleaned segment")
	}
	if _, err := log.compaction.sidecars.openOrBuild(context.Background(), sources[0],
		sidecarOptions{background: true}); !errors.Is(err, errSegmentsChanged) {
		t.Errorf("a sidecar for a segment that was replaced: %v", err)
	}
	tend(log, epoch0)
	checkSidecars(t, log)
	log.Configure(keyedSettings(func(s *topicconfig.Settings) {
		s.Delete, s.RetentionBytes = true,
			1500
	}), true)
	if err := log.applyRetention(epoch0); err != nil {
		t.Fatal(err)
	}
	first := log.LogStart()
	if first == 0 {
		t.Fatal("retention took nothing")
	}
	for _, name := range namesWith(t, fsys, log, keys.Extension) {
		if base, _, _ := segment.ParseName(name); base < first &&
			!strings.Contains(name, deletedSuffix) {
			t.Errorf("%s outlives its segment: the log begins at %d", name, first)
		}
	}
}

// A sidecar that is made while its segment is replaced must not appear: beside the new one it would
// name other records.
func TestSidecarOfReplacedSegmentDoesNotAppear(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, 50)
	store.tick(epoch0, false)
	h := keyedSegments(t, log)[1]
	replaced := false
	err := log.compaction.sidecars.build(context.Background(), h,
		sidecarOptions{Options: keys.Options{Throttle: func(context.Context, int) error {
			if !replaced {
				replaced = true
				cleaned, err := cleanedOf(t, log, []*segment.Segment{h.Segment},
					[]int64{h.Base() + 1})
				return errors.Join(err, replaceNow(log, []*segment.Segment{h.Segment}, cleaned))
			}
			return nil
		}}})
	if !errors.Is(err, errSegmentsChanged) {
		t.Errorf("%v", err)
	}
	if made := namesWith(t, fsys, log, fmt.Sprintf("%020d.keys", h.Base())); len(made) > 0 {
		t.Errorf("there is %v", made)
	}
	tend(log, epoch0)
	checkSidecars(t, log)
}

// The end of the log is cut off while a sidecar is made of what stays: it does not appear, and the
// next one is right.
func TestTruncationDiscardsSpoolsAndSidecars(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, 50)
	store.tick(epoch0, false)
	h := keyedSegments(t, log)[1]
	err := log.compaction.sidecars.build(context.Background(), h,
		sidecarOptions{Options: keys.Options{Throttle: func(context.Context, int) error {
			log.mu.Lock()
			defer log.mu.Unlock()
			log.compaction.sidecars.invalidateLocked(log.currentLocked())
			log.lineage.Add(1)
			return nil
		}}})
	if !errors.Is(err, errSegmentsChanged) {
		t.Errorf("%v", err)
	}
	if h.sidecarState() != nil || log.compaction.sidecars.spools.active != nil ||
		len(log.compaction.sidecars.spools.rolled) > 0 {
		t.Error("something is still believed of keys")
	}
	tend(log, epoch0)
	checkSidecars(t, log)
}

// Where nobody makes sidecars, spools do not pile up.
func TestSpoolsOfRolledSegmentsAreBounded(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, 200)
	if n := len(log.compaction.sidecars.spools.rolled); n != spoolsMax {
		t.Errorf("%d spools are kept of %d segments", n, len(bases(log)))
	}
	store.tick(epoch0, false)
	tend(log, epoch0.Add(time.Hour))
	checkSidecars(t, log)
}

// The order on disk: the salt before what is hashed with it, the sidecar under its name only when
// it is whole.
func TestSidecarIsPublishedInOrder(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), dataDir)
	store := openStore(t, trace)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, 6)
	store.tick(epoch0, false)
	trace.Take()
	tend(log, epoch0)
	golden(t, "sidecar.trace", trace.Take())
}
