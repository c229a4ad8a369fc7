package logstore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// TestCountRecordsIsExactWhereItSaysSo checks CountRecords after random appends, replicated batches
// behind offset gaps, truncations, passes and restarts. A number reported as exact equals the
// number of readable records, and no number exceeds the number of offsets.
func TestCountRecordsIsExactWhereItSaysSo(t *testing.T) {
	exact, estimated := 0, 0
	for s := range seed.Sequence(t, 40) {
		random := rand.New(rand.NewPCG(s, 0))
		mem := vfs.NewMem()
		config := compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 1500 })
		store := openStore(t, mem)
		log := createLog(t, store, config)
		for range 40 {
			what := random.IntN(8)
			switch what {
			default:
				appendBatch(t, log, keyed(t, fmt.Sprint("k", random.IntN(9)), "other"))
			case 1: // as on a follower of a cleaned leader
				b := record.Batch(keyed(t, fmt.Sprint("k", random.IntN(9))))
				b.SetBaseOffset(log.LogEnd() + random.Int64N(5))
				b.SetLeaderEpoch(max(0, log.LeaderEpoch()))
				if err := log.AppendReplicated(b, epoch0); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := log.TruncateTo(log.LogEnd() - random.Int64N(4)); err != nil {
					t.Fatal(err)
				}
			case 3:
				log.AdvanceHighWatermark(log.LogEnd())
				store.tick(epoch0, false)
				if _, err := compact(t.Context(), log); err != nil {
					t.Fatal(err)
				}
			case 4:
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				store = openStore(t, mem)
				log = createLog(t, store, config)
			}
			records, counted := log.Compaction().CountRecords()
			read := int64(len(readKeys(t, log, log.LogStart())))
			if counted {
				exact++
			} else {
				estimated++
			}
			if counted && records != read || records < 0 || records > log.LogEnd()-log.LogStart() {
				t.Fatalf("seed %d, after %d: got %d, exact %t, of offsets %d to %d; %d can be read", s,
					what, records, counted, log.LogStart(), log.LogEnd(), read)
			}
		}
	}
	if exact == 0 || estimated == 0 {
		t.Errorf("%d exact and %d estimated numbers", exact, estimated)
	}
}
