package timer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestWatchListsAgainstModel adds and removes items with up to 8 keys, the same key twice among them, and compares who watches
// each key with a map from key to items. Removing twice must do nothing.
func TestWatchListsAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	const keys = 200 // so that shards have several, and some none
	lists := newWatchLists[int]()
	watching := map[*item[int]][]int{}
	var items []*item[int]
	for range 20_000 {
		if len(items) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(items))
			lists.remove(items[i].watches)
			delete(watching, items[i])
			if random.IntN(2) == 0 { // else it may be removed again
				items = slices.Delete(items, i, i+1)
			}
			continue
		}
		it := &item[int]{watches: make([]watch[int], random.IntN(9))}
		watched := make([]int, len(it.watches))
		for i := range watched {
			watched[i] = random.IntN(keys)
			it.watches[i].of, it.watches[i].shard = it, lists.shard(watched[i])
		}
		lists.add(it.watches, watched)
		watching[it] = watched
		items = append(items, it)
	}
	compareWatchers(t, lists, watching, keys)
	for _, it := range items {
		lists.remove(it.watches)
	}
	compareWatchers(t, lists, nil, keys)
}

func compareWatchers(t *testing.T, lists *watchLists[int], watching map[*item[int]][]int, keys int) {
	t.Helper()
	want, total := make([]map[*item[int]]int, keys), int64(0)
	for it, watched := range watching {
		for _, key := range watched {
			if want[key] == nil {
				want[key] = map[*item[int]]int{}
			}
			want[key][it]++
			total++
		}
	}
	for key := range keys {
		for _, it := range lists.appendWatchers(nil, key) {
			if want[key][it] == 0 {
				t.Fatalf("key %d: a watcher too many", key)
			}
			want[key][it]--
			if want[key][it] == 0 {
				delete(want[key], it)
			}
		}
		if len(want[key]) != 0 {
			t.Fatalf("key %d: %d watchers are missing", key, len(want[key]))
		}
	}
	if watched, _ := lists.counts(); watched != total {
		t.Errorf("%d places counted, want %d", watched, total)
	}
}

// TestManyKeysOfOneShard: the lock is taken once for all of them, and not by one who holds it.
func TestManyKeysOfOneShard(t *testing.T) {
	p := NewPurgatory[int](Options{})
	defer p.Close()
	var keys []int
	for key := 0; len(keys) < 10; key++ {
		if p.lists.shard(key) == p.lists.shard(0) {
			keys = append(keys, key)
		}
	}
	r := &request{t: t}
	p.Wait(r, 1<<40, keys...)
	if watched := p.watched(); watched != 10 {
		t.Errorf("%d places, want 10", watched)
	}
	r.ready.Store(true)
	if p.Notify(keys[9]) != 1 || p.watched() != 0 || p.purged() != 10 {
		t.Errorf("%d places are left, %d given up", p.watched(), p.purged())
	}
}

// TestLayout holds the sizes that comments speak of.
func TestLayout(t *testing.T) {
	if size := unsafe.Sizeof(shard[string]{}); size != 64 {
		t.Errorf("a shard takes %d bytes, not a cache line", size)
	}
	if size := unsafe.Sizeof(item[string]{}); size > 224 {
		t.Errorf("an item takes %d bytes, the allocator's next class is above 224", size)
	}
}

// TestWaitAllocatesOnce: few keys lie in the item, more cost one more allocation.
func TestWaitAllocatesOnce(t *testing.T) {
	p := NewPurgatory[int](Options{})
	defer p.Close()
	op := &ready{}
	few, many := []int{1, 2, 3}, []int{1, 2, 3, 4}
	for want, keys := range map[float64][]int{1: few, 2: many} {
		p.Wait(op, 1<<40, keys...).Cancel() // the lists are made
		if got := testing.AllocsPerRun(100, func() { p.Wait(op, 1<<40, keys...).Cancel() }); got != want {
			t.Errorf("%d keys: %v allocations, want %v", len(keys), got, want)
		}
	}
}
