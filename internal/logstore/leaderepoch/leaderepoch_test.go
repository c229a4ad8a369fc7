package leaderepoch

import (
	"slices"
	"testing"
)

func TestCache(t *testing.T) {
	base := Cache{{0, 0}, {2, 10}, {5, 20}}
	for _, test := range []struct {
		name string
		got  Cache
		want Cache
	}{
		{"a newer epoch is added", base.Assign(6, 30),
			Cache{{0, 0}, {2, 10}, {5, 20}, {6, 30}}},
		{"an older or equal epoch changes nothing", base.Assign(5, 30), base},
		{"an epoch without a record is replaced by the next at the same offset", base.Assign(6, 20),
			Cache{{0, 0}, {2, 10}, {6, 20}}},
		{"entries above a new start are removed", base.Assign(6, 15),
			Cache{{0, 0}, {2, 10}, {6, 15}}},
		{"truncation at the front within an epoch moves its start", base.TruncateFront(12),
			Cache{{2, 12}, {5, 20}}},
		{"truncation at the front at the start of an epoch", base.TruncateFront(10),
			Cache{{2, 10}, {5, 20}}},
		{"truncation at the front above all starts keeps the latest epoch", base.TruncateFront(99),
			Cache{{5, 99}}},
		{"truncation at the front below all starts changes nothing", Cache{{3, 7}}.TruncateFront(5),
			Cache{{3, 7}}},
		{"truncation at the end", base.TruncateEnd(19), Cache{{0, 0}, {2, 10}}},
		{"truncation at the end keeps an epoch that starts at the end", base.TruncateEnd(20), base},
		{"truncation of an empty cache", Cache(nil).TruncateFront(3).TruncateEnd(1), nil},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
	if !slices.Equal(base, Cache{{0, 0}, {2, 10}, {5, 20}}) {
		t.Errorf("the cache was changed in place: %v", base)
	}
	for offset, want := range map[int64]int32{0: 0, 9: 0, 10: 2, 19: 2, 20: 5, 1000: 5} {
		if got := base.At(offset); got != want {
			t.Errorf("offset %d: got epoch %d, want %d", offset, got, want)
		}
	}
	if got := (Cache{{3, 7}}).At(6); got != -1 {
		t.Errorf("offset below the first entry: got epoch %d, want -1", got)
	}
}

// TestEndOf expects the results of Kafka's LeaderEpochFileCache (KIP-101, KIP-279).
func TestEndOf(t *testing.T) {
	c := Cache{{2, 10}, {4, 30}, {7, 50}}
	for _, test := range []struct {
		epoch, found int32
		end          int64
	}{{-1, -1, -1}, {0, 0, 10}, {1, 1, 10}, {2, 2, 30}, {3, 2, 30}, {4, 4, 50}, {6, 4, 50},
		{7, 7, 90}, {8, -1, -1}} {
		if found, end := c.EndOf(test.epoch, 90); found != test.found || end != test.end {
			t.Errorf("epoch %d: got epoch %d with end %d, want epoch %d with end %d", test.epoch,
				found, end, test.found, test.end)
		}
	}
	if found, end := (Cache{}).EndOf(0, 90); found != -1 || end != -1 {
		t.Errorf("empty cache: got epoch %d with end %d, want -1 and -1", found, end)
	}
}

func TestContradicts(t *testing.T) {
	c := Cache{{2, 10}, {4, 30}}
	for _, test := range []struct {
		cache Cache
		epoch int32
		last  int64
		want  bool
	}{{c, 2, 29, false}, {c, 4, 29, true}, {c, 4, 30, false}, {c, 7, 9, false}, {nil, -1, 5, false},
		{nil, 0, 5, true}} {
		if got := test.cache.Contradicts(test.epoch, test.last); got != test.want {
			t.Errorf("cache %v, batch of epoch %d with last offset %d: got %t, want %t", test.cache,
				test.epoch, test.last, got, test.want)
		}
	}
}
