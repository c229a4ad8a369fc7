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

// testAhead: a Partition was deleted and created again and has lost its leader epochs, but the log
// of the leader contains epoch 7. The leader reports epoch 7 once.
func testAhead(f *fixture) {
	f.topic("orders", 1)
	b := f.run(0, f.config)
	f.elect("orders-0", 0, 1, 1)
	image := b.until("led", leads("orders", 0, 1))
	ahead := []metadata.Served{{Topic: image.Topic("orders").ID, Partition: 0, LeaderEpoch: 7,
		Ahead: true}}
	if err := b.ReportServing(f.t.Context(), 0, ahead); err != nil {
		f.t.Fatal(err)
	}
	reported := &v1alpha1.Partition{}
	f.get("orders-0", reported)
	if found := reported.Status.FoundEpoch; found == nil || *found != 7 ||
		reported.Status.ServingEpoch != nil || reported.Status.LeaderEpoch != 1 {
		f.t.Fatalf("status %+v, want foundEpoch 7 and no servingEpoch", reported.Status)
	}
	self, err := b.registered(0)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := b.serve(f.t.Context(), self,
		servedPartition{resource: reported, epoch: 7, ahead: true}); err != nil {
		f.t.Fatal(err)
	}
	again := &v1alpha1.Partition{}
	if f.get("orders-0", again); again.ResourceVersion != reported.ResourceVersion {
		f.t.Error("the leader epoch was reported twice")
	}
}

// serves returns the status of a partition that a broker serves in a leader epoch.
func serves(broker int32, brokerEpoch int64, epoch int32) v1alpha1.PartitionStatus {
	return v1alpha1.PartitionStatus{
		Leader: broker, LeaderEpoch: epoch, ServingEpoch: &epoch,
		ISR: []v1alpha1.InSyncReplica{{Broker: broker, BrokerEpoch: brokerEpoch}},
	}
}

func TestReportIsUpToDateAfterAnotherElection(t *testing.T) {
	self := metadata.Broker{ID: 3, Epoch: 9}
	for name, c := range map[string]struct {
		partition servedPartition
		status    v1alpha1.PartitionStatus
		upToDate  bool
	}{
		"served": {servedPartition{epoch: 2},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 2}, false},
		"served; another broker leads": {servedPartition{epoch: 2},
			v1alpha1.PartitionStatus{Leader: 4, LeaderEpoch: 2}, true},
		"served; a later leader epoch": {servedPartition{epoch: 2},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 3}, true},
		"stopped": {servedPartition{epoch: 2, stopped: true}, serves(3, 9, 2),
			false},
		"stopped; already reported": {servedPartition{epoch: 2, stopped: true},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 2}, true},
		"stopped; a later leader epoch": {servedPartition{epoch: 2, stopped: true}, serves(3, 9, 3),
			true},
		"stopped; another broker leads": {servedPartition{epoch: 2, stopped: true}, serves(4, 9, 2),
			true},
		"stopped; a later broker epoch serves": {servedPartition{epoch: 2, stopped: true},
			serves(3, 10, 2),
			true},
		"ahead": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 2}, false},
		"ahead; another broker leads": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 4, LeaderEpoch: 2}, true},
		"ahead; elected in a higher leader epoch": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 3, LeaderEpoch: 8}, true},
		"ahead; already reported": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 3, FoundEpoch: new(int32(7))}, true},
		"ahead; a lower leader epoch was reported": {servedPartition{epoch: 7, ahead: true},
			v1alpha1.PartitionStatus{Leader: 3, FoundEpoch: new(int32(6))}, false},
	} {
		if upToDate := c.partition.upToDate(c.status, self); upToDate != c.upToDate {
			t.Errorf("%s: got up to date %t, want %t", name, upToDate, c.upToDate)
		}
	}
}

// testStopped: the log of partition 0 fails and is repaired. Its servingEpoch is cleared until the
// broker serves the partition again; partition 1 is not affected.
func testStopped(f *fixture) {
	f.topic("orders", 2)
	b := f.run(0, f.config)
	f.elect("orders-0", 0, 1, 1)
	f.elect("orders-1", 0, 1, 1)
	image := b.until("both led", func(i *metadata.Image) bool {
		return leads("orders", 0, 1)(i) && i.Topic("orders").Partitions[1].Leader == 0
	})
	of := image.Topic("orders").ID
	both := []metadata.Served{{Topic: of, Partition: 0, LeaderEpoch: 1},
		{Topic: of, Partition: 1, LeaderEpoch: 1}}
	serving := func() (epochs [2]*int32) {
		for i := range epochs {
			p := &v1alpha1.Partition{}
			f.get(v1alpha1.PartitionName("orders", int32(i)), p)
			epochs[i] = p.Status.ServingEpoch
			if p.Status.LeaderEpoch != 1 || p.Status.Leader != 0 {
				f.t.Errorf("unexpected election: %+v", p.Status)
			}
		}
		return epochs
	}
	report := func(served []metadata.Served, first bool) {
		f.t.Helper()
		// The watch may not have delivered the previous write, and ReportServing then finds nothing
		// to clear. The broker calls it again.
		err := wait.PollUntilContextTimeout(f.t.Context(), 10*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				err := b.ReportServing(ctx, 0, served)
				now := serving()
				return (now[0] != nil) == first && now[1] != nil, err
			})
		if err != nil {
			f.t.Fatalf("got servingEpochs %v, error %v", serving(), err)
		}
	}
	report(both, true)
	report(both[1:], false)
	report(both, true)
}

// testLeaseOwner: a Lease is owned by the LogCluster, so that the garbage collector deletes the
// Leases of a deleted LogCluster.
func testLeaseOwner(f *fixture) {
	f.run(0, f.config).until("up", up(0))
	cluster, lease := &v1alpha1.LogCluster{}, &coordinationv1.Lease{}
	f.get("demo", cluster)
	f.get("demo-broker-0", lease)
	if owners := lease.OwnerReferences; len(owners) != 1 || owners[0].UID != cluster.UID ||
		owners[0].BlockOwnerDeletion != nil {
		f.t.Errorf("owners %+v, want the LogCluster without blockOwnerDeletion",
			lease.OwnerReferences)
	}
	// An existing Lease keeps its owner: an API server that enforces owner permissions allows a
	// change of owner only with the permission to delete the Lease.
	lease.OwnerReferences = nil
	if err := f.client.Patch(f.t.Context(), lease,
		client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"ownerReferences":null}}`))); err != nil {
		f.t.Fatal(err)
	}
	f.run(0, f.config).until("up again", up(0))
	if f.get("demo-broker-0", lease); len(lease.OwnerReferences) != 0 {
		f.t.Errorf("got owners %+v, want no change", lease.OwnerReferences)
	}
}

// testServingConflict: the watched Partition is outdated, so the write conflicts. The report is
// then decided by the current Partition: it is written if only an annotation has changed, and
// dropped after another election.
func testServingConflict(f *fixture) {
	f.topic("orders", 1)
	b := f.run(0, f.config)
	f.elect("orders-0", 0, 1, 1)
	b.until("led", leads("orders", 0, 1))
	stale := &v1alpha1.Partition{}
	f.get("orders-0", stale)
	labelled := stale.DeepCopy()
	labelled.Annotations = map[string]string{"note": "written by another client"}
	if err := f.client.Update(f.t.Context(), labelled); err != nil {
		f.t.Fatal(err)
	}
	self, err := b.registered(0)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := b.serve(f.t.Context(), self, servedPartition{resource: stale, epoch: 1}); err != nil {
		f.t.Fatal(err)
	}
	now := &v1alpha1.Partition{}
	f.get("orders-0", now)
	if now.Status.ServingEpoch == nil || *now.Status.ServingEpoch != 1 ||
		now.Annotations["note"] == "" {
		f.t.Errorf("got partition %+v", now)
	}
	f.elect("orders-0", 0, 2, 1)
	if err := b.serve(f.t.Context(), self, servedPartition{resource: stale, epoch: 1}); err != nil {
		f.t.Fatal(err)
	}
	if f.get("orders-0", now); *now.Status.ServingEpoch != 1 || now.Status.LeaderEpoch != 2 {
		f.t.Errorf("the report of an old leader epoch was written after a new election: %+v", now.Status)
	}
}

// testRecreatedCluster: a LogCluster is deleted and created again before its pods have stopped, and
// the garbage collector deletes the Leases. The brokers create their Leases again, owned by the
// existing LogCluster if there is one.
func testRecreatedCluster(f *fixture) {
	f.run(0, f.config).until("up", up(0))
	collect := func() (owner types.UID) {
		f.t.Helper()
		former := &coordinationv1.Lease{}
		f.get("demo-broker-0", former)
		if err := f.client.Delete(f.t.Context(), former); err != nil {
			f.t.Fatal(err)
		}
		lease := &coordinationv1.Lease{}
		err := wait.PollUntilContextTimeout(f.t.Context(), 50*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				err := f.client.Get(ctx, client.ObjectKeyFromObject(former), lease)
				return err == nil && lease.UID != former.UID, client.IgnoreNotFound(err)
			})
		if err != nil || len(lease.OwnerReferences) != 1 {
			f.t.Fatalf("the new lease has owners %+v, error %v", lease.OwnerReferences, err)
		}
		return lease.OwnerReferences[0].UID
	}
	cluster := &v1alpha1.LogCluster{}
	f.get("demo", cluster)
	if err := f.client.Delete(f.t.Context(), cluster); err != nil {
		f.t.Fatal(err)
	}
	if owner := collect(); owner != cluster.UID {
		f.t.Errorf(
			"got owner %s, want the deleted LogCluster, so that the lease is deleted after its pod has stopped",
			owner,
		)
	}
	again := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 3}}
	f.create(again)
	if owner := collect(); owner != again.UID {
		f.t.Errorf("got owner %s, want the existing LogCluster %s", owner, again.UID)
	}
}
