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

// The tests in this file use rare inputs, which must not make a pass fail. Package clean tests more
// such inputs: keys with equal MD5 sums, huge batches, offsets that do not fit into one segment,
// and batches that decompress to gigabytes.

// wantSuffix runs a script and checks that its output ends with the text end.
func wantSuffix(t *testing.T, end string, script ...string) {
	t.Helper()
	if got := output(t, script...); !strings.HasSuffix(got, end) {
		t.Errorf("want the suffix\n%s\ngot\n%s", end, got)
	}
}

func TestBatchLargerThanMessageLimit(t *testing.T) { // KAFKA-4019, 6834
	wantSuffix(t, "segment 0: 0:big=x*20000000\nsegment 2: 2:b=2\nactive  3:\n",
		"config segment=100000000 message=30000000", "put big=x*20000000 b=1", "put b=2",
		"config message=1024 segment=2000000", "roll", "wait 10s quietly", "log")
}

// TestHundredThousandKeysInOneBatch cleans a batch with more distinct keys than the memory budget
// can hold (KAFKA-2235, 3587, 3894).
func TestHundredThousandKeysInOneBatch(t *testing.T) {
	got := output(t, "config segment=100000000 message=50000000", "memory 1000",
		"fill n=100000 batch=100000 value=1", "fill n=20000 batch=20000 from=25000 value=2", "roll",
		"wait 3s", "counts", "settled")
	if !strings.HasPrefix(got, "passes: 1 success, removed 20000,") ||
		!strings.Contains(got, "batches 2, records 100000, keys 100000") {
		t.Error(got)
	}
}

// TestHotKey cleans a log in which all records have the same key. A pass must not need memory for
// each record (F3).
func TestHotKey(t *testing.T) {
	wantSuffix(t, "segments 2, batches 1, records 1, keys 1, tombstones 0\n",
		"config segment=400000", "memory 100000", "fill n=100000 batch=500 keys=1 value=1", "roll",
		"wait 60s quietly", "counts", "settled")
}

// TestOffsetsThreeBillionApart cleans a log whose offsets have gaps of billions, as after years of
// compaction (KAFKA-2024, 5413, 6264, 4451).
func TestOffsetsThreeBillionApart(t *testing.T) {
	mem := vfs.NewMem()
	must(mem.MkdirAll(offlineDir), "make a directory")
	for _, content := range [][]any{{int64(0), "a", "b"}, {int64(3_000_000_000), "a"},
		{int64(9_000_000_000), "c", "b"}, {int64(9_000_000_002), "d"}} {
		file, err := segment.Create(mem, offlineDir, content[0].(int64), "", segment.Config{})
		must(err, "create")
		for i, key := range content[1:] {
			batch := record.Batch(keyed(t, key.(string)))
			batch.SetBaseOffset(content[0].(int64) + int64(i))
			must(file.Append(batch), "append")
		}
		must(errors.Join(file.Seal(), file.Close()), "seal")
	}
	want := map[string]int64{"a": 3_000_000_000, "b": 9_000_000_001, "c": 9_000_000_000,
		"d": 9_000_000_002}
	for range 2 {
		if _, err := cleanOffline(t, mem, OfflineOptions{SegmentBytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		if got, records := latestIn(t, mem); !maps.Equal(got, want) || records != 4 {
			t.Errorf("%d records, the latest are %v, want %v", records, got, want)
		}
	}
}

func TestKeysLikeMarkers(t *testing.T) { // KAFKA-14055
	wantSuffix(
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

// TestTimestampsIn2099AndMissing checks that minLag, maxLag, retention and the segment age take
// effect even if producers choose timestamps that are far in the future, missing or 0.
func TestTimestampsIn2099AndMissing(t *testing.T) {
	for _, ms := range []string{"4083696000000", "-1", "0"} {
		got := output(t, "config minlag=10m maxlag=1h dirty=50", "put -time="+ms+" a=1 b=1 c=1",
			"put -time="+ms+" a", "put b=2", "roll",
			"wait 9m quietly", "log", "wait 55m quietly", "log",
			"config minlag=0s maxlag=unlimited dirty=0", "put end=1", "roll",
			"wait 5m quietly", "settled", "read")
		if !strings.Contains(got, "0:a=1 1:b=1 2:c=1 | 3:a | 4:b=2") && ms == "4083696000000" {
			t.Errorf("timestamp %s: a pass removed records before minLag\n%s", ms, got)
		}
		// A record with a future timestamp delays the pass no longer than a record with the time of
		// the append.
		if strings.Count(got, "a=1") > 1 {
			t.Errorf("timestamp %s: no pass within maxLag\n%s", ms, got)
		}
	}
}

func TestEveryCodecInAndOut(t *testing.T) { // KAFKA-3252, 4298
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
		output(t, append(script, "read", "settled")...)
		for _, out := range codecs {
			want := map[bool]string{true: "segment 0: 1:b=1 |",
				false: "segment 0: " + out + " 1:b=1 |"}[out == "none"]
			got := output(t, "put -"+in+" a=1 b=1", "put -"+in+" a=2", "config codec="+out, "roll",
				"wait 3s quietly", "log")
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s into %s:\n%s", in, out, got)
			}
		}
	}
}

// TestHugeTransactions cleans transactions of thousands of batches that span many segments, with a
// minimal memory budget (F12, I21).
func TestHugeTransactions(t *testing.T) {
	var script []string
	for producer, end := range []string{"commit", "abort", "commit"} {
		script = append(script,
			fmt.Sprintf("fill n=4000 batch=4 keys=500 from=%d value=3 txn=%d", producer*100,
				producer), "wait 3s quietly",
			fmt.Sprintf("%s %d", end, producer))
	}
	wantSuffix(t, "records 502, keys 501, tombstones 0\n",
		append(append([]string{"config segment=20000 retention=10s", "memory 500"}, script...),
			"put z=1", "roll", "put z=2", "wait 60s quietly", "settled", "counts")...)
}
