// Package laststatus preserves the content of a PartitionSet across its deletion.
//
// When a PartitionSet of an existing LogCluster is deleted, the operator creates it again. The
// deleted set contained the assignments, ISRs and leader epochs. Without this content, the
// partitions would count as new, and any live replica could lead them, even one that lacks
// acknowledged records.
//
// The API server ignores the status in a request that creates an object. So this request stores the
// status in an annotation (partitionset.Remember). Until the first write of the status, readers use
// the annotation instead.
package laststatus

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// Cache records which sets have existed, and contains the last version of each deleted set. The
// zero value is empty and ready for use. A Cache is safe for concurrent use.
//
// The API server sends the last version with the delete event. If the operator was disconnected at
// that moment, the cache contains the last version that the operator had observed.
//
// A set can be created and deleted several times before a pass observes it, and a pass can observe
// it before its events are handled. So both passes and event handlers report the sets that they
// observe. Resource versions identify the latest observation, because the API server only increases
// them (KEP-5504).
type Cache struct {
	mu struct {
		sync.Mutex
		latest  map[types.NamespacedName]version
		deleted map[types.NamespacedName]*v1alpha1.PartitionSet
	}
}

// version identifies a version of a set.
type version struct {
	uid      types.UID
	resource string // resourceVersion
}

// after reports whether v is later than a version of another set with the same name.
func (v version) after(other version) bool {
	order, err := resourceversion.CompareResourceVersion(v.resource, other.resource)
	return err != nil || order > 0
}

// Handler wraps an event handler for PartitionSets. It stores a deleted set before it passes the
// event to the wrapped handler, so the reconciliation that the event triggers finds the set.
func (c *Cache) Handler(next handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent,
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if set, ok := e.Object.(*v1alpha1.PartitionSet); ok {
				c.Observe(set)
			}
			next.Create(ctx, e, queue)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent,
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if set, ok := e.ObjectNew.(*v1alpha1.PartitionSet); ok {
				c.Observe(set)
			}
			next.Update(ctx, e, queue)
		},
		GenericFunc: next.Generic,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent,
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if set, ok := e.Object.(*v1alpha1.PartitionSet); ok {
				c.store(set)
			}
			next.Delete(ctx, e, queue)
		},
	}
}

// store stores the last version of a deleted set, unless a later set of the same name is known.
func (c *Cache) store(set *v1alpha1.PartitionSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.advance(set) {
		return
	}
	if c.mu.deleted == nil {
		c.mu.deleted = map[types.NamespacedName]*v1alpha1.PartitionSet{}
	}
	c.mu.deleted[client.ObjectKeyFromObject(set)] = set.DeepCopy()
}

// Observe records that a set exists.
func (c *Cache) Observe(set *v1alpha1.PartitionSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	last := c.mu.deleted[key]
	if c.advance(set) && last != nil && last.UID != set.UID {
		delete(c.mu.deleted, key)
	}
}

// advance records a version of a set. It returns false if a later set of the same name is known.
// The caller holds c.mu.
func (c *Cache) advance(set *v1alpha1.PartitionSet) bool {
	key, next := client.ObjectKeyFromObject(set), version{set.UID, set.ResourceVersion}
	latest, known := c.mu.latest[key]
	if known && latest.uid != next.uid && !next.after(latest) {
		return false
	}
	if c.mu.latest == nil {
		c.mu.latest = map[types.NamespacedName]version{}
	}
	// A version of the same set replaces any other version, even a later one. A restore of etcd resets
	// the versions to lower ones. A set that is created after the restore still has a later version
	// than the version recorded here.
	c.mu.latest[key] = next
	return true
}

// Last returns the last version of a set that does not exist, or nil if the operator has observed
// no such set. known is false if the set has existed, but the event of its deletion has not arrived
// yet.
func (c *Cache) Last(key types.NamespacedName) (last *v1alpha1.PartitionSet, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	latest, seen := c.mu.latest[key]
	last = c.mu.deleted[key]
	if seen && (last == nil || last.UID != latest.uid) {
		return nil, false
	}
	return last, true
}

// Forget removes the information about a set whose LogCluster does not exist.
func (c *Cache) Forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.latest, key)
	delete(c.mu.deleted, key)
}

// Restored returns a set with the status that partitionset.Remember stored, without leaders. It
// returns its argument if the set does not have the annotation of Remember, or if its status has
// been written since. An error means that the annotation cannot be decoded; the set must then not
// be used.
func Restored(set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	last, err := partitionset.Remembered(set)
	if err != nil {
		return nil, err
	}
	if last == nil {
		return set, nil
	}
	restored := set.DeepCopy()
	restored.Status = *last
	retire(restored)
	return restored, nil
}

// retire removes the leaders from a set's status. It does not change invalid entries.
func retire(set *v1alpha1.PartitionSet) {
	content, _ := partitionset.Decode(set, nil)
	for key, entry := range content.Clone().All() {
		if entry.State != nil {
			retired := *entry.State
			retired.Partition, retired.Serving = placement.Retire(retired.Partition), false
			content.PutState(key, retired)
		}
	}
	content.EncodeStatus(set)
}
