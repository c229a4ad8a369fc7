package clean

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/seed"
)

func TestTableEqualsMap(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	tab := newTable(slotBytes * 1000)
	for round := range 50 {
		keyRange := keys.Slice(random.Uint32N(7), 7)
		switch round % 4 {
		case 0:
			keyRange = keys.AllHashes
		case 1: // few hashes, so probing wraps around the end of the table
			keyRange = keys.Range{First: keyRange.First, Last: keyRange.First + random.Uint64N(5000)}
		}
		tab.reset(keyRange)
		known := map[keys.Hash]recordPosition{}
		for i := range uint32(2000) {
			h := keys.Hash{High: keyRange.First + random.Uint64N(max(1, keyRange.Last-keyRange.First)),
				Low: random.Uint32N(3)}
			s := tab.find(h)
			if want, ok := known[h]; ok != s.occupied() || ok && s.latest() != want {
				t.Fatalf("find %v: %v at %v, want %v at %v", h, s.occupied(), s.latest(), ok, want)
			}
			if !s.occupied() && !tab.full() {
				known[h] = recordPosition{i % 7, i}
				tab.put(s, h, known[h], i%3 == 0)
				if s.tombstone() != (i%3 == 0) {
					t.Fatal("the tombstone flag is wrong")
				}
			}
		}
		if tab.used != len(known) || tab.used > tab.usedMax {
			t.Fatalf("%d slots of %d used, want %d", tab.used, tab.usedMax, len(known))
		}
	}
}

func TestSlotHasTheAccountedSize(t *testing.T) {
	if got := unsafe.Sizeof(slot{}); got != slotBytes {
		t.Errorf("a slot has %d bytes, slotBytes is %d", got, slotBytes)
	}
}

// TestOnePassSufficesForAnyBudget checks that one pass suffices for any memory budget. Kafka's
// cleaner fails, or needs several passes, if a segment contains more keys than fit into its offset
// map (KAFKA-2235, KAFKA-3587, KAFKA-3894).
func TestOnePassSufficesForAnyBudget(t *testing.T) {
	for _, budget := range []int64{1, 1 << 10, 64 << 10, 64 << 20} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			l := newLog(t)
			l.job.Limits.MemoryBytes = budget
			for range 3 {
				var records []string
				for i := range 3000 {
					records = append(records, fmt.Sprintf("key%d=%d", i, l.next))
				}
				l.batch(compress.Zstd, record.Identity{ProducerID: -1}, records...)
				l.roll()
			}
			stats := l.pass()
			if got := len(l.records()); got != 3000 || stats.RecordsRemoved != 6000 ||
				stats.GarbageRecords != 0 {
				t.Errorf("%d records remain, stats %+v", got, stats)
			}
			// A second pass may merge empty segments, which writes no bytes.
			if again := l.pass(); again.LogWrittenBytes != 0 {
				t.Errorf("a second pass writes: %+v", again)
			}
		})
	}
}

func TestF3HotKeyTakesOneSlot(t *testing.T) {
	l := newLog(t)
	l.job.Limits.MemoryBytes = 4 << 10
	hot := slices.Repeat([]string{"hot=1"}, 20_000)
	for range 5 {
		l.batch(compress.Zstd, record.Identity{ProducerID: -1}, hot...)
		l.roll()
	}
	l.batch(compress.None, record.Identity{ProducerID: -1}, "hot=2", "cold=1")
	l.roll()
	if stats := l.pass(); stats.RecordsRemoved != 100_000 {
		t.Errorf("stats %+v", stats)
	}
	l.want("100000:hot=2 100001:cold=1")
}

// TestF5EqualMD5KeysAreTwoKeys checks keys with the same MD5 hash, which Kafka's cleaner treats as
// one key. This cleaner compares 96 bits of a hash with a secret salt (F5).
func TestF5EqualMD5KeysAreTwoKeys(t *testing.T) {
	one :=
		"\xd1\x31\xdd\x02\xc5\xe6\xee\xc4\x69\x3d\x9a\x06\x98\xaf\xf9\x5c\x2f\xca\xb5\x87\x12\x46\x7e\xab\x40\x04\x58\x3e\xb8\xfb\x7f\x89" +
			"\x55\xad\x34\x06\x09\xf4\xb3\x02\x83\xe4\x88\x83\x25\x71\x41\x5a\x08\x51\x25\xe8\xf7\xcd\xc9\x9f\xd9\x1d\xbd\xf2\x80\x37\x3c\x5b" +
			"\xd8\x82\x3e\x31\x56\x34\x8f\x5b\xae\x6d\xac\xd4\x36\xc9\x19\xc6\xdd\x53\xe2\xb4\x87\xda\x03\xfd\x02\x39\x63\x06\xd2\x48\xcd\xa0" +
			"\xe9\x9f\x33\x42\x0f\x57\x7e\xe8\xce\x54\xb6\x70\x80\xa8\x0d\x1e\xc6\x98\x21\xbc\xb6\xa8\x83\x93\x96\xf9\x65\x2b\x6f\xf7\x2a\x70"
	other := []byte(one)
	for _, index := range []int{19, 45, 59, 83, 109, 123} {
		other[index] ^= 0x80
	}
	l := newLog(t)
	l.put(strings.ReplaceAll(one, "=", "") + "=1")
	l.put(strings.ReplaceAll(string(other), "=", "") + "=1")
	l.put("z=1", "z=2")
	l.roll()
	if stats := l.pass(); stats.RecordsRemoved != 1 {
		t.Errorf("stats %+v", stats)
	}
}

func TestResultIsIndependentOfTheNumberOfSlices(t *testing.T) {
	var want string
	for _, budget := range []int64{2000, 20_000, 1 << 20} {
		for _, workers := range []int{1, 4} {
			l := newLog(t)
			l.job.Limits = Limits{MemoryBytes: budget, Workers: workers, Parallel: parallel}
			random := rand.New(rand.NewPCG(5, 5))
			for range 8 {
				for range 60 {
					l.put(fmt.Sprintf("k%d=%d", random.IntN(150), l.next),
						fmt.Sprintf("k%d", random.IntN(400)))
				}
				l.roll()
			}
			l.pass()
			if want == "" {
				want = l.content()
			}
			l.want(want)
		}
	}
}

func TestMemoryStaysWithinTheBudget(t *testing.T) {
	l := newLog(t)
	for range 10 {
		for i := range 50 {
			var records []string
			for j := range 100 {
				records = append(records, fmt.Sprintf("key-%d-%d", i, j)+"=v")
			}
			l.batch(compress.Zstd, record.Identity{ProducerID: -1}, records...)
		}
		l.roll()
	}
	l.job.Limits.MemoryBytes = 48 << 10
	if stats := l.pass(); stats.RecordsRemoved != 45_000 || stats.MemoryPeakBytes > 48<<10+
		chunkBytesMax {
		t.Errorf("stats %+v", stats)
	}
}
