package timer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestWatchListsAgainstModel adds and removes items with up to 8 keys, few with 200, the same key
// twice among them, and compares who watches each key with a map from key to items. Removing twice
// must do nothing.
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
			if random.IntN(2) == 0 { // else it may be removed again
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
		it := &item[int]{places: make([]place[int], 0, len(watched))}
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
	if lists.places != total {
		t.Errorf("%d places counted, want %d", lists.places, total)
	}
}

// TestKeysAtOnce: nobody who waits on many keys keeps the lock for all of them.
func TestKeysAtOnce(t *testing.T) {
	lists, it, keys := new(watchLists[int]), &item[int]{places: make([]place[int], 0, 100)},
		make([]int, 100)
	if left := lists.add(it, keys); len(left) != 100-keysMax || lists.places != keysMax {
		t.Errorf("%d keys are left, %d places", len(left), lists.places)
	}
	lists.add(it, keys[keysMax:])
	if !lists.remove(it) || lists.places != 100-keysMax || lists.remove(it) || lists.places != 0 {
		t.Errorf("%d places are left", lists.places)
	}
}

// TestLayout holds the sizes that comments speak of.
func TestLayout(t *testing.T) {
	if size := unsafe.Sizeof(item[string]{}); size > 192 {
		t.Errorf("an item takes %d bytes, the allocator's next class is above 192", size)
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
		if got := testing.AllocsPerRun(100,
			func() { p.Wait(op, 1<<40, keys...).Cancel() }); got != want {
			t.Errorf("%d keys: %v allocations, want %v", len(keys), got, want)
		}
	}
}
