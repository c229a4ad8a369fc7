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
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestPolicyChangeBuildsOrDeletesSidecars checks that when the cleanup policy changes from delete
// to compact, the cleaner builds key sidecars in the background. When the policy changes back, it
// deletes them.
func TestPolicyChangeBuildsOrDeletesSidecars(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	// A record without a key is allowed while the policy is delete.
	appendBatch(t, log, storetest.Encode(t, storetest.NoProducer,
		record.Record{Value: []byte(strings.Repeat("v", 200))}))
	fillKeyed(t, log, 35)
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	if made := namesWith(t, fsys, log, ".key"); len(made) > 0 {
		t.Errorf("key files of a log with policy delete: %v", made)
	}
	log.Configure(keyedSettings(nil), true)
	fillKeyed(t, log, 25)
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
	fillKeyed(t, log, 3) // creates a spool
	log.Configure(settings(nil), true)
	updateSidecars(log, epoch0)
	if left := namesWith(t, fsys, log, keys.Extension); len(left) > 0 {
		t.Errorf("key files left after the change to policy delete: %v", left)
	}
	log.Configure(keyedSettings(nil), true)
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
}

// TestF11SmallRecordsKeepNoSidecar checks that a segment with very small records has a key sidecar
// only during a pass: the cleaner builds none in the background, and deletes the sidecar that the
// pass has built.
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
		reader, err := log.compaction.Sidecars.OpenOrBuild(context.Background(), h.Segment,
			sidecars.Options{Background: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(compareKeys(log, h, reader), reader.Close()); err != nil {
			t.Error(err)
		}
	}
	log.compaction.Sidecars.Trim()
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
		if got := sidecars.Keeps(c.logBytes, c.records); got != c.want {
			t.Errorf("%d bytes, %d records: got %t, want %t", c.logBytes, c.records, got, c.want)
		}
	}
}

// TestEstimateRecords checks that the estimated number of records of a segment is exact if all
// batches have the same size, even with offset gaps.
func TestEstimateRecords(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store,
		keyedSettings(func(s *topicconfig.Settings) { s.SegmentBytes = 10_000 }))
	for range 150 {
		appendBatch(t, log, storetest.Batch{Keys: []string{"a", "b", "c"},
			Value: strings.Repeat("v", 30)}.Bytes(t))
	}
	h := keyedSegments(t, log)[0]
	if got, want := sidecars.EstimateRecords(h), int(h.NextOffset()-h.Base()); got != want {
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
	if got := sidecars.EstimateRecords(keyedSegments(t, log)[0]); got != 9 {
		t.Errorf("%d records are left, want 9", got)
	}
}

// TestSidecarsAreDeletedWithSegments checks that swaps and retention delete key sidecars together
// with their segments.
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
	if _, err := fsys.Stat(log.compaction.Sidecars.Name(sources[0].Base())); err == nil {
		t.Fatal("the sidecar of a replaced segment still exists")
	}
	if _, err := log.compaction.Sidecars.OpenOrBuild(context.Background(), sources[0],
		sidecars.Options{Background: true}); !errors.Is(err, segmentlist.ErrChanged) {
		t.Errorf("sidecar of a replaced segment: %v", err)
	}
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
	log.Configure(keyedSettings(func(s *topicconfig.Settings) {
		s.Delete, s.RetentionBytes = true, 1500
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
			!strings.Contains(name, swap.DeletedSuffix) {
			t.Errorf("%s is not deleted with its segment; the log starts at %d", name, first)
		}
	}
}

// TestSidecarOfReplacedSegmentDoesNotAppear replaces a segment while its key sidecar is being
// built. The sidecar must not appear under its final name, because its ordinals refer to the
// replaced segment.
func TestSidecarOfReplacedSegmentDoesNotAppear(t *testing.T) {
	fsys, _, log := keyedLog(t, 50)
	h := keyedSegments(t, log)[1]
	replaced := false
	err := log.compaction.Sidecars.Build(context.Background(), h,
		sidecars.Options{Options: keys.Options{Throttle: func(context.Context, int) error {
			if !replaced {
				replaced = true
				cleaned, err := cleanedOf(t, log, []*segment.Segment{h.Segment},
					[]int64{h.Base() + 1})
				return errors.Join(err, replaceNow(log, []*segment.Segment{h.Segment}, cleaned))
			}
			return nil
		}}})
	if !errors.Is(err, segmentlist.ErrChanged) {
		t.Errorf("%v", err)
	}
	if made := namesWith(t, fsys, log, fmt.Sprintf("%020d.keys", h.Base())); len(made) > 0 {
		t.Errorf("sidecar %v", made)
	}
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
}

// TestTruncationDiscardsSpoolsAndSidecars truncates the log while a key sidecar is being built. The
// sidecar does not appear under its final name, and the spools are discarded. Sidecars that are
// built afterwards are correct.
func TestTruncationDiscardsSpoolsAndSidecars(t *testing.T) {
	_, _, log := keyedLog(t, 50)
	h := keyedSegments(t, log)[1]
	err := log.compaction.Sidecars.Build(context.Background(), h,
		sidecars.Options{Options: keys.Options{Throttle: func(context.Context, int) error {
			log.mu.Lock()
			defer log.mu.Unlock()
			log.compaction.Sidecars.InvalidateLocked(log.list.Handles())
			log.truncations.Add(1)
			return nil
		}}})
	if !errors.Is(err, segmentlist.ErrChanged) {
		t.Errorf("%v", err)
	}
	if h.SidecarState() != nil || log.compaction.Sidecars.Spools.Active != nil ||
		len(log.compaction.Sidecars.Spools.Rolled) > 0 {
		t.Error("spools or sidecar states are left")
	}
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
}

// TestSpoolsOfRolledSegmentsAreBounded checks that the number of rolled segments' spools is
// limited, even if no sidecars are built from them.
func TestSpoolsOfRolledSegmentsAreBounded(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, keyedSettings(nil))
	fillKeyed(t, log, 200)
	const spoolsMax = 4 // as in package sidecars
	if n := len(log.compaction.Sidecars.Spools.Rolled); n != spoolsMax {
		t.Errorf("%d spools of %d segments, want %d", n, len(bases(log)), spoolsMax)
	}
	store.tick(epoch0, false)
	updateSidecars(log, epoch0.Add(time.Hour))
	checkSidecars(t, log)
}

// TestSidecarIsPublishedInOrder checks that the salt is durable before the first sidecar is
// written, and a sidecar gets its final name only when the sidecar is complete.
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
