package logstore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// cachedAfterPass runs a pass over a log on a real disk. It returns the share of the log, 0 to 1,
// that is in the page cache after the pass. If cold is set, no part of the log is in the page cache
// before the pass.
func cachedAfterPass(t *testing.T, cold bool) float64 {
	t.Helper()
	store, err := Open(Options{FS: vfs.OS{}, Dir: t.TempDir(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	log := createLog(t, store,
		compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 8 << 20 }))
	value := make([]byte, 20_000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 1500 { // 30 MB; a third of the batches is superseded
		for j := range value {
			value[j] = byte('a' + random.IntN(26))
		}
		appendBatch(t, log, storetest.Batch{Keys: []string{fmt.Sprintf("key %d", i-i%3*(i%2))},
			Value: string(value)}.Bytes(t))
	}
	if err := log.disk.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := store.save(); err != nil {
		t.Fatal(err)
	}
	list := log.list.Acquire()
	for _, h := range list.Handles {
		if cold {
			vfs.Uncache(h.File(), 0, h.SizeBytes())
		}
	}
	list.Release()
	stats, err := compact(t.Context(), log)
	if err != nil || stats.SegmentsRewritten == 0 {
		t.Fatalf("stats %+v, error %v", stats, err)
	}
	list = log.list.Acquire()
	defer list.Release()
	var size, found int64
	for _, h := range list.Handles[:len(list.Handles)-1] {
		bytes, ok := vfs.Cached(h.File(), 0, h.SizeBytes())
		if !ok {
			t.Skip("the system does not report the page cache")
		}
		size, found = size+h.SizeBytes(), found+bytes
	}
	return float64(found) / float64(size)
}

func TestF10ColdLogStaysOutOfPageCache(t *testing.T) {
	cold, warm := cachedAfterPass(t, true), cachedAfterPass(t, false)
	t.Logf(
		"%.0f %% of the output are cached after a pass over a cold log, %.0f %% over a warm one",
		100*cold,
		100*warm,
	)
	if warm < 0.5 {
		t.Skip("the machine is short of memory: recently written data is not cached")
	}
	if cold > warm/2 {
		t.Errorf("%.2f of the output is cached for a cold log, %.2f for a warm one", cold, warm)
	}
}
