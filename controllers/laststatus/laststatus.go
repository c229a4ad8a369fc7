// Package laststatus preserves the content of a PartitionSet across its deletion.
//
// When a PartitionSet of an existing LogCluster is deleted, the operator creates it again. The
// deleted set contains the assignments, ISRs and leader epochs. Without them the partitions would
// be treated as new, and any live replica could lead them, even one that lacks acknowledged
// records.
//
// The API server ignores the status of an object that is created. So the status is stored in an
// annotation, in the request that creates the set (partitionset.Remember). Until the first write of
// the status, readers use the annotation instead.
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

// Cache knows the sets that have existed, and contains the last version of each set that was
// deleted. The zero value is empty and ready for use. A Cache is safe for concurrent use.
//
// The API server sends the last version with the delete event. If the operator was disconnected at
// that moment, the cache contains the last version that the operator had observed.
//
// A set may be created and deleted several times before a pass observes it, and a pass may observe
// it before its events are handled. So both the passes and the events report what they observe, and
// resource versions, which the API server only increases, tell which observation is the latest
// (KEP-5504).
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

// after reports whether v is later than another version of a set of the same name.
func (v version) after(other version) bool {
	order, err := resourceversion.CompareResourceVersion(v.resource, other.resource)
	return err != nil || order > 0
}

// Handler wraps a handler of events of PartitionSets. It stores a deleted set before it passes the
// event on, so that the reconciliation that the event causes finds the set.
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

// store stores the last version of a set that was deleted, unless a later set of the same name is
// known.
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

// Observe notes that a set exists.
func (c *Cache) Observe(set *v1alpha1.PartitionSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	last := c.mu.deleted[key]
	if c.advance(set) && last != nil && last.UID != set.UID {
		delete(c.mu.deleted, key)
	}
}

// advance notes a version of a set. It returns false if a later set of the same name is known. The
// caller holds c.mu.
func (c *Cache) advance(set *v1alpha1.PartitionSet) bool {
	key, next := client.ObjectKeyFromObject(set), version{set.UID, set.ResourceVersion}
	latest, known := c.mu.latest[key]
	if known && latest.uid != next.uid && !next.after(latest) {
		return false
	}
	if c.mu.latest == nil {
		c.mu.latest = map[types.NamespacedName]version{}
	}
	// Versions of the same set replace each other in any order. So after a restore of etcd, which
	// takes versions back, a set that is created later has a later version again.
	c.mu.latest[key] = next
	return true
}

// Last returns the last version of a set that does not exist. It returns nil if the operator has
// observed no such set. known is false if the set has existed, but the event of its deletion has
// not arrived yet.
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

// Forget removes what is known about a set whose LogCluster does not exist.
func (c *Cache) Forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.latest, key)
	delete(c.mu.deleted, key)
}

// Restored returns a set with the status that partitionset.Remember stored, in which no partition
// has a leader. It returns the argument if it has no annotation, or if its status was written since
// then. The error means that the annotation cannot be decoded; the set must not be used then.
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

// retire removes the leaders from the status of a set. Invalid entries stay as they are.
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
