// Package keyed stores the state that a controller keeps between two reconciliations of a resource.
package keyed

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Map holds one value per resource. The zero value is empty and ready for use.
//
// Map is safe for any number of workers of one controller. mu protects only the map itself. A key's
// value needs no lock, even if the value is itself a map that is changed in place. The reason is
// that the work queue never passes the same key to two workers at the same time, and that only the
// reconciliation of a key may use the key's value.
//
// The values are lost when the operator restarts. Every user of Map must document the effect of
// this loss.
type Map[V any] struct {
	mu     sync.Mutex
	values map[types.NamespacedName]V
}

// Get returns the value of a key, or the zero value and false if no value is stored.
func (m *Map[V]) Get(key types.NamespacedName) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok = m.values[key]
	return value, ok
}

// Set stores the value of a key.
func (m *Map[V]) Set(key types.NamespacedName, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[types.NamespacedName]V{}
	}
	m.values[key] = value
}

// Delete removes the value of a key, if it exists.
func (m *Map[V]) Delete(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}
