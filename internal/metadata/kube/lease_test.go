package kube

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// unavailable is a client whose API server is unavailable.
type unavailable struct{ client.Client }

func (unavailable) Get(context.Context, client.ObjectKey, client.Object,
	...client.GetOption) error {
	return errors.New("no route")
}

func TestFailureToAcquireTheLeaseIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		opts := Options{Namespace: "logs", Cluster: "demo",
			Logger: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := newKeeper(unavailable{}, opts,
			metadata.Broker{ID: 1}).acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("got %d log lines, want 1:\n%.500s", lines, log.String())
		}
	})
}

// setsClient is a client that lists PartitionSets.
type setsClient struct {
	client.Client
	sets []*v1alpha1.PartitionSet
}

func (c setsClient) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	for _, set := range c.sets {
		list := into.(*v1alpha1.PartitionSetList)
		list.Items = append(list.Items, *set.DeepCopy())
	}
	return nil
}

// TestEpochsOutliveTheLeaseAndASet checks that no broker epoch is used again if a broker's Lease
// and a PartitionSet are lost. The operator has created the set again, but has not restored its
// status yet.
func TestEpochsOutliveTheLeaseAndASet(t *testing.T) {
	last := v1alpha1.PartitionSetStatus{
		Partitions:  map[string]string{"orders/0": "-@3 0:7 i 4"},
		Directories: map[string]string{"0:9": "disk"},
	}
	sets := emptySets("demo")
	latest := func(all ...*v1alpha1.PartitionSet) (int32, error) {
		return newKeeper(setsClient{sets: all}, Options{Cluster: "demo"},
			metadata.Broker{ID: 0, CleanEpoch: -1}).latestEpoch(t.Context())
	}
	if epoch, err := latest(sets[0]); err == nil {
		t.Errorf("a set does not exist: got epoch %d, want an error", epoch)
	}
	if epoch, err := latest(sets...); epoch != 0 || err != nil {
		t.Errorf("new sets: got epoch %d, error %v, want 0", epoch, err)
	}
	if err := partitionset.Remember(sets[1], last); err != nil {
		t.Fatal(err)
	}
	if epoch, err := latest(sets...); epoch != 9 || err != nil {
		t.Errorf("status in the annotation: got epoch %d, error %v, want 9", epoch, err)
	}
	sets[1].Status = v1alpha1.PartitionSetStatus{
		Partitions: map[string]string{"orders/0": "-@3 0:11 i 5"}}
	if epoch, err := latest(sets...); epoch != 11 || err != nil {
		t.Errorf("status restored: got epoch %d, error %v, want 11", epoch, err)
	}
	sets[1].Status = v1alpha1.PartitionSetStatus{}
	sets[1].Annotations[v1alpha1.AnnotationRemembered] = "x"
	if epoch, err := latest(sets...); err == nil {
		t.Errorf("an annotation that cannot be decoded: got epoch %d, want an error", epoch)
	}
}
