package kube

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// testAhead: a Partition made again forgot its leader epochs; the log knows them, and the leader
// says so, once.
func testAhead(w *world) {
	w.topic("orders", 1)
	b := w.run(0, w.config)
	w.elect("orders-0", 0, 1, 1)
	image := b.until("it is led", leads("orders", 0, 1))
	ahead := []metadata.Served{{Topic: image.Topic("orders").ID, Partition: 0, LeaderEpoch: 7,
		Ahead: true}}
	if err := b.ReportServing(w.t.Context(), 0, ahead); err != nil {
		w.t.Fatal(err)
	}
	told := &v1alpha1.Partition{}
	w.get("orders-0", told)
	if found := told.Status.FoundEpoch; found == nil || *found != 7 ||
		told.Status.ServingEpoch != nil || told.Status.LeaderEpoch != 1 {
		w.t.Fatalf("status %+v, want found epoch 7, and nothing served", told.Status)
	}
	self, err := b.registered(0)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := b.serve(w.t.Context(), self,
		servedPartition{resource: told, epoch: 7, ahead: true}); err != nil {
		w.t.Fatal(err)
	}
	again := &v1alpha1.Partition{}
	if w.get("orders-0", again); again.ResourceVersion != told.ResourceVersion {
		w.t.Error("it was told twice")
	}
}

// serves is the status of a partition that a broker's incarnation serves.
func serves(broker int32, incarnation int64, epoch int32) v1alpha1.PartitionStatus {
	return v1alpha1.PartitionStatus{
		Leader: broker, LeaderEpoch: epoch, ServingEpoch: &epoch,
		ISR: []v1alpha1.InSyncReplica{{Broker: broker, BrokerEpoch: incarnation}},
	}
}

func TestNothingIsWrittenAfterAnotherElection(t *testing.T) {
	self := metadata.Broker{ID: 3, Epoch: 9}
	for name, c := range map[string]struct {
		partition servedPartition
		status    v1alpha1.PartitionStatus
		settled   bool
	}{
		"served": {servedPartition{epoch: 2},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 2}, false},
		"served, another leads": {servedPartition{epoch: 2},
			v1alpha1.PartitionStatus{Leader: 4, LeaderEpoch: 2}, true},
		"served, a later epoch": {servedPartition{epoch: 2},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 3}, true},
		"stopped": {servedPartition{epoch: 2, stopped: true}, serves(3, 9, 2),
			false},
		"stopped, told already": {servedPartition{epoch: 2, stopped: true},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 2}, true},
		"stopped, a later epoch": {servedPartition{epoch: 2, stopped: true}, serves(3, 9, 3),
			true},
		"stopped, another leads": {servedPartition{epoch: 2, stopped: true}, serves(4, 9, 2),
			true},
		"stopped, a later start": {servedPartition{epoch: 2, stopped: true}, serves(3, 10, 2),
			true},
		"ahead": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 2}, false},
		"ahead, another leads": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 4, LeaderEpoch: 2}, true},
		"ahead, elected above it": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 8}, true},
		"ahead, told already": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 3, FoundEpoch: new(int32(7))}, true},
		"ahead, told less formerly": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 3, FoundEpoch: new(int32(6))}, false},
	} {
		if settled := c.partition.settled(c.status, self); settled != c.settled {
			t.Errorf("%s: settled is %v", name, settled)
		}
	}
}

// testStopped: a log that fails is served no more, and the Partition says so until it is served
// again; its neighbour stays.
func testStopped(w *world) {
	w.topic("orders", 2)
	b := w.run(0, w.config)
	w.elect("orders-0", 0, 1, 1)
	w.elect("orders-1", 0, 1, 1)
	image := b.until("both are led", func(i *metadata.Image) bool {
		return leads("orders", 0, 1)(i) && i.Topic("orders").Partitions[1].Leader == 0
	})
	of := image.Topic("orders").ID
	both := []metadata.Served{{Topic: of, Partition: 0, LeaderEpoch: 1},
		{Topic: of, Partition: 1, LeaderEpoch: 1}}
	serving := func() (epochs [2]*int32) {
		for i := range epochs {
			p := &v1alpha1.Partition{}
			w.get(v1alpha1.PartitionName("orders", int32(i)), p)
			epochs[i] = p.Status.ServingEpoch
			if p.Status.LeaderEpoch != 1 || p.Status.Leader != 0 {
				w.t.Errorf("another election: %+v", p.Status)
			}
		}
		return epochs
	}
	tell := func(served []metadata.Served, first bool) {
		w.t.Helper()
		// The watch may tell of the write before only later, so one call may find nothing to take
		// back; the broker calls again.
		err := wait.PollUntilContextTimeout(w.t.Context(), 10*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				err := b.ReportServing(ctx, 0, served)
				now := serving()
				return (now[0] != nil) == first && now[1] != nil, err
			})
		if err != nil {
			w.t.Fatalf("served %v: %v", serving(), err)
		}
	}
	tell(both, true)
	tell(both[1:], false)
	tell(both, true)
}

// testLeaseOwner: the garbage collector takes the Leases of a deleted LogCluster along.
func testLeaseOwner(w *world) {
	w.run(0, w.config).until("it is up", up(0))
	cluster, lease := &v1alpha1.LogCluster{}, &coordinationv1.Lease{}
	w.get("demo", cluster)
	w.get("demo-broker-0", lease)
	if owners := lease.OwnerReferences; len(owners) != 1 || owners[0].UID != cluster.UID ||
		owners[0].BlockOwnerDeletion != nil {
		w.t.Errorf("owners %+v, want the LogCluster, which waits for nobody", lease.OwnerReferences)
	}
	// A Lease that is there keeps its owner: to change one needs the right to delete where API
	// servers guard owners.
	lease.OwnerReferences = nil
	if err := w.client.Patch(w.t.Context(), lease,
		client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"ownerReferences":null}}`))); err != nil {
		w.t.Fatal(err)
	}
	w.run(0, w.config).until("it is up again", up(0))
	if w.get("demo-broker-0", lease); len(lease.OwnerReferences) != 0 {
		w.t.Errorf("owners %+v were changed", lease.OwnerReferences)
	}
}

// testServingConflict writes what a stale watch would: the CAS fails, and what is there now
// decides.
func testServingConflict(w *world) {
	w.topic("orders", 1)
	b := w.run(0, w.config)
	w.elect("orders-0", 0, 1, 1)
	b.until("it is led", leads("orders", 0, 1))
	stale := &v1alpha1.Partition{}
	w.get("orders-0", stale)
	labelled := stale.DeepCopy()
	labelled.Annotations = map[string]string{"note": "somebody else wrote"}
	if err := w.client.Update(w.t.Context(), labelled); err != nil {
		w.t.Fatal(err)
	}
	self, err := b.registered(0)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := b.serve(w.t.Context(), self, servedPartition{resource: stale, epoch: 1}); err != nil {
		w.t.Fatal(err)
	}
	now := &v1alpha1.Partition{}
	w.get("orders-0", now)
	if now.Status.ServingEpoch == nil || *now.Status.ServingEpoch != 1 ||
		now.Annotations["note"] == "" {
		w.t.Errorf("partition is %+v", now)
	}
	w.elect("orders-0", 0, 2, 1)
	if err := b.serve(w.t.Context(), self, servedPartition{resource: stale, epoch: 1}); err != nil {
		w.t.Fatal(err)
	}
	if w.get("orders-0", now); *now.Status.ServingEpoch != 1 || now.Status.LeaderEpoch != 2 {
		w.t.Errorf("an old epoch was reported after a new election: %+v", now.Status)
	}
}

// testRemadeCluster: a LogCluster is deleted and made again before its pods are gone, and its
// Leases are collected.
func testRemadeCluster(w *world) {
	w.run(0, w.config).until("it is up", up(0))
	collect := func() (owner types.UID) {
		w.t.Helper()
		former := &coordinationv1.Lease{}
		w.get("demo-broker-0", former)
		if err := w.client.Delete(w.t.Context(), former); err != nil {
			w.t.Fatal(err)
		}
		lease := &coordinationv1.Lease{}
		err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				err := w.client.Get(ctx, client.ObjectKeyFromObject(former), lease)
				return err == nil && lease.UID != former.UID, client.IgnoreNotFound(err)
			})
		if err != nil || len(lease.OwnerReferences) != 1 {
			w.t.Fatalf("the lease made again has owners %+v; %v", lease.OwnerReferences, err)
		}
		return lease.OwnerReferences[0].UID
	}
	cluster := &v1alpha1.LogCluster{}
	w.get("demo", cluster)
	if err := w.client.Delete(w.t.Context(), cluster); err != nil {
		w.t.Fatal(err)
	}
	if owner := collect(); owner != cluster.UID {
		w.t.Errorf(
			"owner %s, want the LogCluster that is gone, so that the lease goes with its pod",
			owner,
		)
	}
	again := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 3}}
	w.make(again)
	if owner := collect(); owner != again.UID {
		w.t.Errorf("owner %s, want the LogCluster that is there, %s", owner, again.UID)
	}
}
