package sets

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// TopicsOf returns an event handler for PartitionSets. After a delay, it queues the Topics whose
// entries have changed. Further events during the delay are coalesced.
func TopicsOf(delay time.Duration) handler.EventHandler {
	add := func(before, after *v1alpha1.PartitionSet, namespace string, to queue) {
		for name := range changedTopics(before, after) {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			to.AddAfter(reconcile.Request{NamespacedName: key}, delay)
		}
	}
	none := &v1alpha1.PartitionSet{}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, to queue) {
			if set, ok := e.Object.(*v1alpha1.PartitionSet); ok {
				add(none, set, set.Namespace, to)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, to queue) {
			before, known := e.ObjectOld.(*v1alpha1.PartitionSet)
			after, ok := e.ObjectNew.(*v1alpha1.PartitionSet)
			if known && ok {
				add(before, after, after.Namespace, to)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, to queue) {
			if set, ok := e.Object.(*v1alpha1.PartitionSet); ok {
				add(set, none, set.Namespace, to)
			}
		},
	}
}

// changedTopics returns the names of the Topics whose entries differ between two versions of a set.
func changedTopics(before, after *v1alpha1.PartitionSet) map[string]bool {
	topics := map[string]bool{}
	compare := func(before, after map[string]string) {
		for name, text := range after {
			if last, ok := before[name]; !ok || last != text {
				note(topics, name)
			}
		}
		for name := range before {
			if _, ok := after[name]; !ok {
				note(topics, name)
			}
		}
	}
	compare(before.Spec.Assignments, after.Spec.Assignments)
	compare(before.Status.Partitions, after.Status.Partitions)
	return topics
}

func note(topics map[string]bool, entry string) {
	if key, err := partitionset.ParseKey(entry); err == nil {
		topics[key.Topic] = true
	}
}

// ID returns a Topic's topic id, which is its uid. ok is false if the uid is not a UUID.
func ID(uid types.UID) (id metadata.ID, ok bool) {
	digits := strings.ReplaceAll(string(uid), "-", "")
	if len(digits) != 2*len(id) {
		return metadata.ID{}, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil
}

// Tag returns the tag for a Topic's id.
func Tag(uid types.UID) string {
	id, _ := ID(uid)
	return partitionset.Tag(id)
}
