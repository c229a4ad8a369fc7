package cleaner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestI34CompactDeleteKeepsLatestRecords checks a log from which retention deletes whole segments
// while the cleaner compacts the others (KIP-71, KAFKA-4015). From the log start on, the log
// contains the latest record of each key. If this record is a tombstone, the log contains no older
// value of the key.
func TestI34CompactDeleteKeepsLatestRecords(t *testing.T) {
	chance := rand.New(rand.NewPCG(seed.New(t), 0))
	config := compacted(func(s *topicconfig.Settings) {
		s.Delete, s.RetentionTime, s.TombstoneRetention, s.MinDirtyPercent = true, 20*time.Minute,
			2*time.Minute, 10
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		latest, deleted := map[string]int64{}, map[string]bool{}
		once := time.Now()
		f.put("once")
		latest["once"] = 0
		for range 40 {
			for range 25 {
				key := fmt.Sprintf("k%d", chance.IntN(30))
				latest[key], deleted[key] = f.log.LogEnd(), chance.IntN(4) == 0
				if deleted[key] {
					f.delete(key)
				} else {
					f.put(key)
				}
			}
			wait(time.Minute + time.Duration(chance.Int64N(int64(time.Minute))))
			f.wantLatest(latest, deleted)
		}
		if records := readKeys(t, f.log, f.log.LogStart()); len(records) == 0 ||
			f.cleaner.Status(partition).Runs[runSuccess] < 10 {
			t.Errorf("only %d records, runs %v", len(records),
				f.cleaner.Status(partition).Runs)
		}
		// Retention must have deleted the key that was written once at the start.
		if age := time.Since(once); age < 2*20*time.Minute || f.log.LogStart() <= latest["once"] {
			t.Errorf("the log starts at %d, and the record at %d is %s old", f.log.LogStart(),
				latest["once"], age)
		}
	})
}

// delete appends a tombstone of the key.
func (f *fixture) delete(key string) {
	f.t.Helper()
	batch := storetest.Batch{Keys: []string{key}, Timestamp: time.Now()}.Tombstones(f.t)
	if _, err := f.log.Append(batch, time.Now()); err != nil {
		f.t.Fatal(err)
	}
	f.log.AdvanceHighWatermark(f.log.LogEnd())
}

// wantLatest compares the offset of each key's last record, from the log start on, with the
// expected offset. For a deleted key the log may contain its tombstone or no record.
func (f *fixture) wantLatest(latest map[string]int64, deleted map[string]bool) {
	f.t.Helper()
	found := map[string]int64{}
	for _, text := range readKeys(f.t, f.log, f.log.LogStart()) {
		var offset int64
		head, key, _ := strings.Cut(text, "=")
		_, _ = fmt.Sscan(head, &offset)
		found[key] = offset
	}
	start := f.log.LogStart()
	for key, offset := range latest {
		position, there := found[key]
		switch {
		case there && position != offset:
			f.t.Errorf("%s is at %d, its latest record is at %d (log start %d, deleted %t)", key,
				position, offset, start, deleted[key])
		case !there && offset >= start && !deleted[key]:
			f.t.Errorf("%s at %d is missing, the log starts at %d", key, offset, start)
		}
	}
}
