package cleaner

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// TestDistinctKeysAreKnownAfterAPass checks that the number of keys is unknown before the first
// pass, and afterwards is at most the number of records that no pass has found to be superseded.
func TestDistinctKeysAreKnownAfterAPass(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.MinDirtyPercent = 50_000, 100
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		const keys = 200
		f.fillWith(f.log, 10, keys)
		if status := f.cleaner.Status(partition); status.DistinctKeys != nil ||
			*status.Records != 10 || !status.RecordsExact {
			t.Errorf("before a pass: %+v", status)
		}
		f.fillWith(f.log, 3_000, keys)
		ticket := f.cleanNow()
		f.until(time.Hour, "a pass", func() bool {
			status := f.cleaner.Status(partition)
			return status.CleanNowServed >= ticket && status.RunningPass == nil
		})
		status := f.cleaner.Status(partition)
		read := int64(len(readKeys(t, f.log, 0)))
		if *status.Records != read || !status.RecordsExact || status.DistinctKeys == nil {
			t.Fatalf("got %d records, exact %t, keys %v, want %d records", *status.Records,
				status.RecordsExact, status.DistinctKeys, read)
		}
		if *status.DistinctKeys < keys || *status.DistinctKeys > read {
			t.Errorf("got at most %d keys of %d in %d records", *status.DistinctKeys, keys, read)
		}
		// Each record has one of the existing keys, so the limit grows by the number of records.
		before := *status.DistinctKeys
		f.fillWith(f.log, 20, keys)
		if got := *f.cleaner.Status(partition).DistinctKeys; got != before+20 {
			t.Errorf("after 20 records: got at most %d keys, want %d", got, before+20)
		}
	})
}
