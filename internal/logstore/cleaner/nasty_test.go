package cleaner

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// What a cleaner meets once in its life, and must not fail on. Of the list of these
// TestF5EqualMD5KeysAreTwoKeys, TestI41HugeBatchesAreCleaned, TestI30OffsetsOfAGroupFitOneSegment
// and TestDecompressionBombIsKeptInBoundedMemory stand beside the pass itself.

// wantEnds plays a script and wants its output to end so.
func wantEnds(t *testing.T, end string, script ...string) {
	t.Helper()
	if got := played(t, script...); !strings.HasSuffix(got, end) {
		t.Errorf("it ends otherwise than with\n%s\nprinted was\n%s", end, got)
	}
}

func TestNastyBatchOfTwentyMegabytesWithALimitOfOneKilobyte(t *testing.T) { // KAFKA-4019, 6834
	wantEnds(t, "segment 0: 0:big=x*20000000\nsegment 2: 2:b=2\nactive  3:\n",
		"config segment=100000000 message=30000000", "put big=x*20000000 b=1", "put b=2",
		"config message=1024 segment=2000000", "roll", "wait 10s quietly", "log")
}

// KAFKA-2235, 3587, 3894: more keys than any budget
func TestNastyHundredThousandKeysInOneBatch(t *testing.T) {
	got := played(t, "config segment=100000000 message=50000000", "memory 1000",
		"fill n=100000 batch=100000 value=1", "fill n=20000 batch=20000 from=25000 value=2", "roll",
		"wait 3s", "counts", "settled")
	if !strings.HasPrefix(got, "passes: 1 success, removed 20000,") ||
		!strings.Contains(got, "batches 2, records 100000, keys 100000") {
		t.Error(got)
	}
}

func TestNastyOneKeyVeryOften(t *testing.T) { // F3: a hot key takes one slot
	wantEnds(t, "segments 2, batches 1, records 1, keys 1, tombstones 0\n",
		"config segment=400000", "memory 100000", "fill n=100000 batch=500 keys=1 value=1", "roll",
		"wait 60s quietly", "counts", "settled")
}

// KAFKA-2024, 5413, 6264, 4451: as a log may be that was cleaned for years
func TestNastyOffsetsThreeBillionApart(t *testing.T) {
	mem := vfs.NewMem()
	stageMust(mem.MkdirAll(offlineDir), "make a directory")
	for _, part := range [][]any{{int64(0), "a", "b"}, {int64(3_000_000_000), "a"},
		{int64(9_000_000_000), "c", "b"}, {int64(9_000_000_002), "d"}} {
		file, err := segment.Create(mem, offlineDir, part[0].(int64), "", segment.Config{})
		stageMust(err, "create")
		for i, key := range part[1:] {
			batch := record.Batch(keyed(t, key.(string)))
			batch.SetBaseOffset(part[0].(int64) + int64(i))
			stageMust(file.Append(batch), "append")
		}
		stageMust(errors.Join(file.Seal(), file.Close()), "seal")
	}
	want := map[string]int64{"a": 3_000_000_000, "b": 9_000_000_001, "c": 9_000_000_000,
		"d": 9_000_000_002}
	for range 2 {
		if _, err := byHand(t, mem, OfflineOptions{SegmentBytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		if got, records := latestIn(t, mem); !maps.Equal(got, want) || records != 4 {
			t.Errorf("%d records, the latest are %v, want %v", records, got, want)
		}
	}
}

func TestNastyKeysThatLookLikeMarkers(t *testing.T) { // KAFKA-14055
	wantEnds(
		t,
		"segment 0: txn5 0:a=1 | 1:COMMIT(5) | 3:\x00\x00\x00\x00=abort | 4:\x00\x00\x00\x01=commit\nactive  5:\n",
		"put -producer=5 -txn a=1",
		"commit 5",
		`put "\x00\x00\x00\x01"=user "\x00\x00\x00\x00"=abort`,
		`put "\x00\x00\x00\x01"=commit`,
		"roll",
		"wait 5s quietly",
		"read",
		"log",
	)
}

// minLag and maxLag, retention and the age of segments count by timestamps that anybody may send.
func TestNastyTimestampsIn2099AndNone(t *testing.T) {
	for _, ms := range []string{"4083696000000", "-1", "0"} {
		got := played(t, "config minlag=10m maxlag=1h dirty=50", "put -time="+ms+" a=1 b=1 c=1",
			"put -time="+ms+" a", "put b=2", "roll",
			"wait 9m quietly", "log", "wait 55m quietly", "log",
			"config minlag=0s maxlag=unlimited dirty=0", "put end=1", "roll",
			"wait 5m quietly", "settled", "read")
		if !strings.Contains(got, "0:a=1 1:b=1 2:c=1 | 3:a | 4:b=2") && ms == "4083696000000" {
			t.Errorf("timestamp %s: minLag does not hold\n%s", ms, got)
		}
		// A timestamp in the future blocks the log no longer than one of the time of the append.
		if strings.Count(got, "a=1") > 1 {
			t.Errorf("timestamp %s: maxLag does not hold\n%s", ms, got)
		}
	}
}

func TestNastyEveryCodecInAndOut(t *testing.T) { // KAFKA-3252, 4298
	codecs := []string{"none", "gzip", "snappy", "lz4", "zstd"}
	for _, in := range codecs {
		var script []string
		for _, out := range codecs {
			for _, setting := range []string{"codec=" + out + " clean=off",
				"codec=producer clean=" + out} {
				script = append(script, "config codec=producer clean=off",
					"put -"+in+" a=1 c=x*300", "put -"+in+" a=2 c=2", "put -"+in+" c=3",
					"config "+setting, "roll", "wait 3s quietly")
			}
		}
		played(t, append(script, "read", "settled")...)
		for _, out := range codecs {
			want := map[bool]string{true: "segment 0: 1:b=1 |",
				false: "segment 0: " + out + " 1:b=1 |"}[out == "none"]
			got := played(t, "put -"+in+" a=1 b=1", "put -"+in+" a=2", "config codec="+out, "roll",
				"wait 3s quietly", "log")
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s into %s:\n%s", in, out, got)
			}
		}
	}
}

// Transactions of thousands of batches, over many segments, in a budget that holds next to nothing.
// F12, I21; complaints: they pin the last stable offset
func TestNastyHugeTransactions(t *testing.T) {
	var script []string
	for producer, end := range []string{"commit", "abort", "commit"} {
		script = append(script,
			fmt.Sprintf("fill n=4000 batch=4 keys=500 from=%d value=3 txn=%d", producer*100,
				producer), "wait 3s quietly",
			fmt.Sprintf("%s %d", end, producer))
	}
	wantEnds(t, "records 502, keys 501, tombstones 0\n",
		append(append([]string{"config segment=20000 retention=10s", "memory 500"}, script...),
			"put z=1", "roll", "put z=2", "wait 60s quietly", "settled", "counts")...)
}
