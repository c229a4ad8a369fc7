package timer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestWatchListsAgainstModel adds and removes items with up to 8 keys, and some items with 200
// keys, including duplicates. It compares the watchers of each key with a map. It removes some
// items twice; the second removal must have no effect.
func TestWatchListsAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	const keys = 200
	lists := new(watchLists[int])
	watching := map[*item[int]][]int{}
	var items []*item[int]
	for range 20_000 {
		if len(items) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(items))
			removeAll(lists, items[i])
			delete(watching, items[i])
			if random.IntN(2) == 0 { // otherwise the item stays in the model and may be removed again later
				items = slices.Delete(items, i, i+1)
			}
			continue
		}
		watched := make([]int, random.IntN(9))
		if random.IntN(100) == 0 {
			watched = make([]int, 200)
		}
		for i := range watched {
			watched[i] = random.IntN(keys)
		}
		it := &item[int]{links: make([]link[int], 0, len(watched))}
		for left := lists.add(it, watched); len(left) > 0; {
			left = lists.add(it, left)
		}
		watching[it] = watched
		items = append(items, it)
	}
	compareWatchers(t, lists, watching, keys)
	for _, it := range items {
		removeAll(lists, it)
	}
	compareWatchers(t, lists, nil, keys)
}

func removeAll(lists *watchLists[int], it *item[int]) {
	for lists.remove(it) {
	}
}

func compareWatchers(t *testing.T, lists *watchLists[int], watching map[*item[int]][]int,
	keys int) {
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
				t.Fatalf("key %d has an unexpected watcher", key)
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
	if lists.links != total {
		t.Errorf("%d links are counted, want %d", lists.links, total)
	}
}

// TestKeysPerLock checks that a call of add or remove processes at most keysPerLock keys.
func TestKeysPerLock(t *testing.T) {
	lists, it, keys := new(watchLists[int]), &item[int]{links: make([]link[int], 0, 100)},
		make([]int, 100)
	if left := lists.add(it, keys); len(left) != 100-keysPerLock || lists.links != keysPerLock {
		t.Errorf("%d keys remain, %d links", len(left), lists.links)
	}
	lists.add(it, keys[keysPerLock:])
	if !lists.remove(it) || lists.links != 100-keysPerLock || lists.remove(it) || lists.links != 0 {
		t.Errorf("%d links remain", lists.links)
	}
}

// TestItemFitsItsSizeClass checks the size that the comment of inlineLinks states.
func TestItemFitsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(item[string]{}); size > 192 {
		t.Errorf("an item takes %d bytes, want at most 192", size)
	}
}

// TestWaitAllocations checks that Wait allocates once if the keys' links fit in the item, and twice
// otherwise.
func TestWaitAllocations(t *testing.T) {
	p := NewPurgatory[int](Options{})
	defer p.Close()
	op := &ready{}
	few, many := []int{1, 2, 3}, []int{1, 2, 3, 4}
	for want, keys := range map[float64][]int{1: few, 2: many} {
		p.Wait(op, 1<<40, keys...).Cancel() // creates the lists of the keys, which are reused below
		if got := testing.AllocsPerRun(100,
			func() { p.Wait(op, 1<<40, keys...).Cancel() }); got != want {
			t.Errorf("%d keys: %v allocations, want %v", len(keys), got, want)
		}
	}
}
