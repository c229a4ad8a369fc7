package watch

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestStreamOfEventsIsCoalescedWithoutPostponing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		)
		defer queue.ShutDown()
		handler := Coalesce(TopicDelay, ClusterOf)
		set := &v1alpha1.PartitionSet{ObjectMeta: metav1.ObjectMeta{Namespace: "logs"},
			Spec: v1alpha1.PartitionSetSpec{Cluster: "main"}}
		for range 3 * time.Second / (10 * time.Millisecond) {
			handler.Create(t.Context(), event.CreateEvent{Object: set}, queue)
			handler.Update(t.Context(),
				event.UpdateEvent{ObjectOld: set, ObjectNew: set}, queue)
			handler.Delete(t.Context(), event.DeleteEvent{Object: set}, queue)
			handler.Generic(t.Context(), event.GenericEvent{Object: set}, queue)
			time.Sleep(10 * time.Millisecond)
			if queue.Len() > 0 {
				break
			}
		}
		synctest.Wait()
		if queue.Len() != 1 {
			t.Fatalf("got %d entries after 3 s of events, want 1", queue.Len())
		}
		if request, _ := queue.Get(); request.String() != "logs/main" {
			t.Errorf("got request %s, want logs/main", request)
		}
	})
}

// TestRetryFollowsAnOutageWithinAMinute checks the delay of retries after all attempts have failed
// for an hour.
func TestRetryFollowsAnOutageWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(retries())
		defer queue.ShutDown()
		cluster := request("logs", "main")[0]
		queue.Add(cluster)
		end, attempts := time.Now().Add(time.Hour), 0
		for ; time.Now().Before(end); attempts++ {
			if item, _ := queue.Get(); item != cluster {
				t.Fatalf("got %s, want %s", item, cluster)
			}
			queue.AddRateLimited(cluster)
			queue.Done(cluster)
		}
		if late := time.Since(end); late > time.Minute {
			t.Errorf("the first attempt after the outage was %s after its end", late)
		}
		if attempts > 80 {
			t.Errorf("%d attempts within an hour: the backoff is too short", attempts)
		}
	})
}

// topic returns a Topic named orders.
func topic(uid types.UID, generation int64, cluster string) *v1alpha1.Topic {
	return &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Namespace: "logs", Name: "orders",
		UID: uid, Generation: generation}, Spec: v1alpha1.TopicSpec{Cluster: cluster}}
}

// TestReplacedObjectHasAChangedSpec checks that a replaced object counts as changed. If an object
// was deleted and created again while the watch was interrupted, it arrives as an update with the
// same generation.
func TestReplacedObjectHasAChangedSpec(t *testing.T) {
	before := topic("first", 1, "main")
	for name, c := range map[string]struct {
		after *v1alpha1.Topic
		want  bool
	}{
		"only the status has changed":       {topic("first", 1, "main"), false},
		"the spec has changed":              {topic("first", 2, "main"), true},
		"it was deleted and created again":  {topic("second", 1, "main"), true},
		"it was created again, and changed": {topic("second", 2, "main"), true},
	} {
		update := event.UpdateEvent{ObjectOld: before, ObjectNew: c.after}
		if got := SpecChanged.Update(update); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
	clusters := event.UpdateEvent{
		ObjectOld: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{UID: "first", Generation: 1}},
		ObjectNew: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{UID: "second", Generation: 1}}}
	if !PlacementChanged.Update(clusters) {
		t.Error("a LogCluster that was created again does not change the placement")
	}
}

// TestClusterOfReplacedObjectIsQueued checks that both LogClusters are reconciled after an update
// in which the Topic was created again for another LogCluster. If the Topic is still the same, only
// one LogCluster is reconciled.
func TestClusterOfReplacedObjectIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		)
		defer queue.ShutDown()
		queued := func(before, after *v1alpha1.Topic) map[string]bool {
			Coalesce(TopicDelay, ClusterOf).Update(t.Context(),
				event.UpdateEvent{ObjectOld: before, ObjectNew: after}, queue)
			time.Sleep(TopicDelay)
			synctest.Wait()
			all := map[string]bool{}
			for queue.Len() > 0 {
				request, _ := queue.Get()
				queue.Done(request)
				all[request.Name] = true
			}
			return all
		}
		got := queued(topic("first", 1, "main"), topic("second", 1, "other"))
		if want := map[string]bool{"main": true, "other": true}; !maps.Equal(got, want) {
			t.Errorf("after a replacement: got %v, want %v", got, want)
		}
		got = queued(topic("first", 1, "main"), topic("first", 1, "main"))
		if want := map[string]bool{"main": true}; !maps.Equal(got, want) {
			t.Errorf("after a change of the status: got %v, want %v", got, want)
		}
	})
}
