package watch

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestRetryFollowsAnOutageWithinAMinute lets every attempt fail during an hour.
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
