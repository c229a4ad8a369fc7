package keyed

import (
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestMapHoldsOneValuePerKey(t *testing.T) {
	var m Map[int]
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	if value, ok := m.Get(a); ok || value != 0 {
		t.Errorf("empty map: got %d, %t; want 0, false", value, ok)
	}
	m.Delete(a)
	m.Set(a, 1)
	m.Set(b, 2)
	m.Set(a, 3)
	m.Delete(b)
	if value, ok := m.Get(a); !ok || value != 3 {
		t.Errorf("a: got %d, %t; want 3, true", value, ok)
	}
	if value, ok := m.Get(b); ok {
		t.Errorf("b was deleted: got %d, want no value", value)
	}
}

// TestWorkersOfDifferentKeysDoNotInterfere runs eight workers that change the values of their own
// keys in place. The test is meaningful only with the race detector.
func TestWorkersOfDifferentKeysDoNotInterfere(t *testing.T) {
	var m Map[map[int]bool]
	var workers sync.WaitGroup
	for worker := range 8 {
		key := types.NamespacedName{Name: strconv.Itoa(worker)}
		workers.Go(func() {
			for i := range 100 {
				value, ok := m.Get(key)
				if !ok {
					value = map[int]bool{}
				}
				value[i] = true
				m.Set(key, value)
			}
		})
	}
	workers.Wait()
	for worker := range 8 {
		if value, _ := m.Get(types.NamespacedName{Name: strconv.Itoa(worker)}); len(value) != 100 {
			t.Errorf("worker %d: %d entries, want 100", worker, len(value))
		}
	}
}
