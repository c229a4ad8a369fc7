// Package laststatus preserves the status of a Partition across its deletion.
//
// When a Partition is deleted while its Topic exists, the topic controller creates it again. The
// status of the deleted Partition contains the ISR and the leader epoch. Without this status the
// partition would be treated as new, and any live replica could lead it, even one that lacks
// acknowledged records.
//
// The API server ignores the status of an object that is created. So the status is stored in an
// annotation, which is used until the first election.
package laststatus

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// Cache contains the last status of each deleted Partition whose Topic exists. The zero value is
// empty and ready for use.
//
// The API server sends the last status with the delete event. If the operator was disconnected at
// that moment, the cache contains the last status that the operator had observed. A Cache is safe
// for concurrent use.
type Cache struct {
	mu struct {
		sync.Mutex
		// The keys are the Topic and the Partition's UID. A Partition's name is no key, because
		// several Partitions may have had the same name.
		statuses map[types.NamespacedName]map[types.UID]v1alpha1.PartitionStatus
	}
}

// Handler wraps a handler of Partition events. It stores the status of a deleted Partition before
// it passes the event on, so that the reconciliation that the event causes finds the status.
func (c *Cache) Handler(next handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: next.Create, UpdateFunc: next.Update, GenericFunc: next.Generic,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent,
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if partition, ok := e.Object.(*v1alpha1.Partition); ok {
				c.store(partition)
			}
			next.Delete(ctx, e, queue)
		},
	}
}

func (c *Cache) store(partition *v1alpha1.Partition) {
	topic := types.NamespacedName{Namespace: partition.Namespace, Name: partition.Spec.Topic}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.statuses == nil {
		c.mu.statuses = map[types.NamespacedName]map[types.UID]v1alpha1.PartitionStatus{}
	}
	if c.mu.statuses[topic] == nil {
		c.mu.statuses[topic] = map[types.UID]v1alpha1.PartitionStatus{}
	}
	c.mu.statuses[topic][partition.UID] = *partition.Status.DeepCopy()
}

// Get returns the last status of a deleted Partition of a Topic. ok is false if the cache contains
// none, because no deletion of this Partition was observed.
func (c *Cache) Get(topic types.NamespacedName,
	partition types.UID) (status v1alpha1.PartitionStatus, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, ok = c.mu.statuses[topic][partition]
	return status, ok
}

// Retain removes the statuses of a Topic's Partitions except those that keep selects.
func (c *Cache) Retain(topic types.NamespacedName, keep func(types.UID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.mu.statuses[topic] {
		if !keep(uid) {
			delete(c.mu.statuses[topic], uid)
		}
	}
	if len(c.mu.statuses[topic]) == 0 {
		delete(c.mu.statuses, topic)
	}
}

// Annotate stores a status in the annotation of a Partition that is to be created again. It stores
// nothing if the partition never had a leader, because then there are no records.
func Annotate(partition *v1alpha1.Partition, last v1alpha1.PartitionStatus) error {
	if last.LeaderEpoch == 0 {
		return nil
	}
	last.Conditions, last.ServingEpoch, last.InSync = nil, nil, ""
	text, err := json.Marshal(last)
	if err != nil {
		return fmt.Errorf("encode the last status of partition %s: %w", partition.Name, err)
	}
	partition.Annotations = map[string]string{v1alpha1.AnnotationRemembered: string(text)}
	return nil
}

// Restore returns a copy of a Partition with the status that Annotate stored, but without a leader.
// If the Partition has no valid annotation, or has had an election since it was created again,
// Restore returns it unchanged.
func Restore(partition *v1alpha1.Partition) *v1alpha1.Partition {
	text := partition.Annotations[v1alpha1.AnnotationRemembered]
	if text == "" || partition.Status.LeaderEpoch != 0 || len(partition.Status.ISR) > 0 {
		return partition
	}
	restored := partition.DeepCopy()
	restored.Status = v1alpha1.PartitionStatus{}
	if err := json.Unmarshal([]byte(text), &restored.Status); err != nil ||
		restored.Status.LeaderEpoch <= 0 || len(restored.Status.ISR) == 0 {
		return partition
	}
	restored.Status.Conditions, restored.Status.ServingEpoch = nil, nil
	metadata.RecordPlaced(&restored.Status, placement.Retire(metadata.PlacedPartition(restored)))
	return restored
}
