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
	"heartwood.dev/heartwood/test/kit/storetest"
)

// When the policy changes from delete to compact, sidecars are built in the background; when it
// changes back, they are deleted.
func TestPolicyChangeBuildsOrDeletesSidecars(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	// without a key, which the policy delete allows
	appendBatch(t, log, storetest.Encode(t, storetest.NoProducer,
		record.Record{Value: []byte(strings.Repeat("v", 200))}))
	fillKeyed(t, log, 35)
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	if made := namesWith(t, fsys, log, ".key"); len(made) > 0 {
		t.Errorf("log that is not compacted has %v", made)
	}
	log.Configure(keyedSettings(nil), true)
	fillKeyed(t, log, 25)
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
	fillKeyed(t, log, 3) // into a spool
	log.Configure(settings(nil), true)
	updateSidecars(log, epoch0)
	if left := namesWith(t, fsys, log, keys.Extension); len(left) > 0 {
		t.Errorf("log that is no longer compacted has %v", left)
	}
	log.Configure(keyedSettings(nil), true)
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
}

// The sidecar of a segment with very small records exists during a pass only.
func TestF11SmallRecordsKeepNoSidecar(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	for range 40 {
		appendBatch(t, log,
			storetest.Batch{Keys: []string{"a", "b", "c", "d", "e"}, Value: "v"}.Bytes(t))
	}
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	if made := namesWith(t, fsys, log, keys.Extension); len(made) > 0 &&
		!strings.Contains(made[0], "spool") {
		t.Errorf("sidecars of small records: %v", made)
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

// The estimate is exact for batches of equal size, also if offsets have gaps.
func TestEstimateRecords(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store,
		keyedSettings(func(s *topicconfig.Settings) { s.SegmentBytes = 10_000 }))
	for range 150 {
		appendBatch(t, log, storetest.Batch{Keys: []string{"a", "b", "c"},
			Value: strings.Repeat("v", 30)}.Bytes(t))
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

// Sidecars are deleted with their segments, by a swap and by retention.
func TestSidecarsAreDeletedWithSegments(t *testing.T) {
	fsys, _, log := keyedLog(t, 50)
	updateSidecars(log, epoch0)
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
		t.Fatal("the sidecar of a source is beside the cleaned segment")
	}
	if _, err := log.compaction.sidecars.openOrBuild(context.Background(), sources[0],
		sidecarOptions{background: true}); !errors.Is(err, errSegmentsChanged) {
		t.Errorf("sidecar of a replaced segment: %v", err)
	}
	updateSidecars(log, epoch0)
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
		t.Fatal("retention deleted no segment")
	}
	for _, name := range namesWith(t, fsys, log, keys.Extension) {
		if base, _, _ := segment.ParseName(name); base < first &&
			!strings.Contains(name, deletedSuffix) {
			t.Errorf("%s is not deleted with its segment; the log starts at %d", name, first)
		}
	}
}

// A sidecar that is built while its segment is replaced must not appear: its ordinals are those of
// the old segment.
func TestSidecarOfReplacedSegmentDoesNotAppear(t *testing.T) {
	fsys, _, log := keyedLog(t, 50)
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
		t.Errorf("sidecar %v", made)
	}
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
}

// A sidecar that is built during a truncation does not appear, and the next one is correct.
func TestTruncationDiscardsSpoolsAndSidecars(t *testing.T) {
	_, _, log := keyedLog(t, 50)
	h := keyedSegments(t, log)[1]
	err := log.compaction.sidecars.build(context.Background(), h,
		sidecarOptions{Options: keys.Options{Throttle: func(context.Context, int) error {
			log.mu.Lock()
			defer log.mu.Unlock()
			log.compaction.sidecars.invalidateLocked(log.currentLocked())
			log.truncations.Add(1)
			return nil
		}}})
	if !errors.Is(err, errSegmentsChanged) {
		t.Errorf("%v", err)
	}
	if h.sidecarState() != nil || log.compaction.sidecars.spools.active != nil ||
		len(log.compaction.sidecars.spools.rolled) > 0 {
		t.Error("spools or sidecar states are left")
	}
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
}

// The number of spools is bounded if no sidecars are built.
func TestSpoolsOfRolledSegmentsAreBounded(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, 200)
	if n := len(log.compaction.sidecars.spools.rolled); n != spoolsMax {
		t.Errorf("%d spools are kept of %d segments", n, len(bases(log)))
	}
	store.tick(epoch0, false)
	updateSidecars(log, epoch0.Add(time.Hour))
	checkSidecars(t, log)
}

// The salt is durable before the first sidecar, and a sidecar is renamed only when it is complete.
func TestSidecarIsPublishedInOrder(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), dataDir)
	store := openStore(t, trace)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, 6)
	store.tick(epoch0, false)
	trace.Take()
	updateSidecars(log, epoch0)
	golden(t, "sidecar.trace", trace.Take())
}
