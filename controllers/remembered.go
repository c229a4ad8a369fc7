package controllers

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

// departed keeps the last status of Partitions that were deleted while their Topic lives: who is in
// sync, and under which leader epochs the records are. Made again without it a partition would be a
// new one, of which any living replica may lead, also one that lacks records.
//
// It is what the API server sends with the event, so it is the last there was. Where the operator
// was not connected when that happened, it is the last it had seen.
type departed struct {
	mu struct {
		sync.Mutex
		// statuses are by Topic and by the Partition's UID: a name may be used again.
		statuses map[types.NamespacedName]map[types.UID]v1alpha1.PartitionStatus
	}
}

// watched calls a handler of Partitions, and notes before what is deleted: who is called for that
// finds it.
func (d *departed) watched(next handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: next.Create, UpdateFunc: next.Update, GenericFunc: next.Generic,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent,
			queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if partition, ok := e.Object.(*v1alpha1.Partition); ok {
				d.note(partition)
			}
			next.Delete(ctx, e, queue)
		},
	}
}

func (d *departed) note(partition *v1alpha1.Partition) {
	topic := types.NamespacedName{Namespace: partition.Namespace, Name: partition.Spec.Topic}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.statuses == nil {
		d.mu.statuses = map[types.NamespacedName]map[types.UID]v1alpha1.PartitionStatus{}
	}
	if d.mu.statuses[topic] == nil {
		d.mu.statuses[topic] = map[types.UID]v1alpha1.PartitionStatus{}
	}
	d.mu.statuses[topic][partition.UID] = *partition.Status.DeepCopy()
}

// of returns the last status of a Topic's Partition; ok is false if it is not known to have been
// deleted.
func (d *departed) of(topic types.NamespacedName,
	partition types.UID) (status v1alpha1.PartitionStatus, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	status, ok = d.mu.statuses[topic][partition]
	return status, ok
}

// keep forgets what is known of a Topic, but for those of its Partitions that are to be made again.
func (d *departed) keep(topic types.NamespacedName, wanted func(types.UID) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid := range d.mu.statuses[topic] {
		if !wanted(uid) {
			delete(d.mu.statuses[topic], uid)
		}
	}
	if len(d.mu.statuses[topic]) == 0 {
		delete(d.mu.statuses, topic)
	}
}

// remember has a Partition that is made again say what its status was: a status cannot be made with
// the object. It stays there, and counts as long as the partition had no election.
func remember(partition *v1alpha1.Partition, last v1alpha1.PartitionStatus) error {
	if last.LeaderEpoch == 0 {
		return nil // nobody ever led
	}
	last.Conditions, last.ServingEpoch, last.InSync = nil, nil, ""
	text, err := json.Marshal(last)
	if err != nil {
		return fmt.Errorf("remember the status of partition %s: %w", partition.Name, err)
	}
	partition.Annotations = map[string]string{v1alpha1.AnnotationRemembered: string(text)}
	return nil
}

// recalled is a Partition as it was before it was deleted and made again, without a leader, if it
// had no election since and says so; else itself. What does not make sense counts as nothing: then
// it is a new one.
func recalled(partition *v1alpha1.Partition) *v1alpha1.Partition {
	text := partition.Annotations[v1alpha1.AnnotationRemembered]
	if text == "" || partition.Status.LeaderEpoch != 0 || len(partition.Status.ISR) > 0 {
		return partition
	}
	before := partition.DeepCopy()
	before.Status = v1alpha1.PartitionStatus{}
	if err := json.Unmarshal([]byte(text), &before.Status); err != nil ||
		before.Status.LeaderEpoch <= 0 || len(before.Status.ISR) == 0 {
		return partition
	}
	before.Status.Conditions, before.Status.ServingEpoch = nil, nil
	metadata.RecordPlaced(&before.Status, placement.Retire(metadata.PlacedPartition(before)))
	return before
}
