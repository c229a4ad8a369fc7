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
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// testAhead checks that a leader whose log contains epoch 7 reports this epoch once if the
// PartitionSet was deleted and created again and has lost its leader epochs.
func testAhead(f *fixture) {
	f.topic("orders", 1)
	b := f.run(0, f.config)
	f.elect(orders(0), 0, 1, 1)
	image := b.until("led", leads("orders", 0, 1))
	ahead := []metadata.Served{{Topic: image.Topic("orders").ID, Partition: 0, LeaderEpoch: 7,
		Ahead: true}}
	if err := b.ReportServing(f.t.Context(), 0, ahead); err != nil {
		f.t.Fatal(err)
	}
	reported := f.state(orders(0))
	if found := reported.FoundEpoch; found == nil || *found != 7 || reported.Serving ||
		reported.LeaderEpoch != 1 {
		f.t.Fatalf("state %+v, want found epoch 7, and not served", reported)
	}
	if err := b.ReportServing(f.t.Context(), 0, ahead); err != nil {
		f.t.Fatal(err)
	}
	if again := f.state(orders(0)); again.Changes != reported.Changes {
		f.t.Error("the leader epoch was reported twice")
	}
}

// serves returns the state of a partition with the given leader and leader epoch, and whether the
// leader serves.
func serves(broker int32, brokerEpoch int64, epoch int32, serving bool) *partitionset.State {
	return &partitionset.State{Serving: serving, Partition: placement.Partition{
		Leader: broker, LeaderEpoch: epoch,
		ISR: []placement.InSyncReplica{{Broker: broker, Epoch: brokerEpoch}}}}
}

// found adds to a state the latest leader epoch in the leader's log, as reported by the leader.
func found(state *partitionset.State, epoch int32) *partitionset.State {
	state.FoundEpoch = &epoch
	return state
}

// withIncarnation sets the incarnation id of the replica on broker 3.
func withIncarnation(state *partitionset.State, id string) *partitionset.State {
	state.ReplicaIncarnations = map[int32]string{3: id}
	return state
}

func TestReportIsRecordedOrObsolete(t *testing.T) {
	self := placement.InSyncReplica{Broker: 3, Epoch: 9}
	for name, c := range map[string]struct {
		report   report
		state    *partitionset.State
		recorded bool
	}{
		"served":                        {report{epoch: 2}, serves(3, 9, 2, false), false},
		"served; already reported":      {report{epoch: 2}, serves(3, 9, 2, true), true},
		"served; another broker leads":  {report{epoch: 2}, serves(4, 9, 2, false), true},
		"served; a later leader epoch":  {report{epoch: 2}, serves(3, 9, 3, false), true},
		"served; a later broker epoch":  {report{epoch: 2}, serves(3, 10, 2, false), true},
		"served; no state":              {report{epoch: 2}, nil, true},
		"stopped":                       {report{epoch: 2, stopped: true}, serves(3, 9, 2, true), false},
		"stopped; already reported":     {report{epoch: 2, stopped: true}, serves(3, 9, 2, false), true},
		"stopped; a later leader epoch": {report{epoch: 2, stopped: true}, serves(3, 9, 3, true), true},
		"stopped; another broker leads": {report{epoch: 2, stopped: true}, serves(4, 9, 2, true), true},
		"stopped; a later broker epoch serves": {report{epoch: 2, stopped: true},
			serves(3, 10, 2, true), true},
		"ahead":                       {report{epoch: 7, ahead: true}, serves(3, 9, 2, false), false},
		"ahead; another broker leads": {report{epoch: 7, ahead: true}, serves(4, 9, 2, false), true},
		"ahead; elected in a higher leader epoch": {report{epoch: 7, ahead: true},
			serves(3, 9, 8, false), true},
		"ahead; already reported": {report{epoch: 7, ahead: true},
			found(serves(3, 9, 2, false), 7), true},
		"ahead; a lower leader epoch was reported": {report{epoch: 7, ahead: true},
			found(serves(3, 9, 2, false), 6), false},
		"ahead; no state": {report{epoch: 7, ahead: true}, nil, true},
		"lost": {report{lost: true, incarnation: "x"},
			withIncarnation(serves(3, 9, 2, true), "x"), false},
		"lost; another broker leads": {report{lost: true, incarnation: "x"},
			withIncarnation(serves(4, 9, 2, true), "x"), false},
		"lost; the replica has another incarnation": {report{lost: true, incarnation: "x"},
			withIncarnation(serves(3, 9, 2, true), "y"), true},
		"lost; the replica has no incarnation id": {report{lost: true},
			serves(3, 9, 2, true), false},
		"lost; no state": {report{lost: true, incarnation: "x"}, nil, true},
	} {
		if recorded := c.report.isRecorded(c.state, self); recorded != c.recorded {
			t.Errorf("%s: got %t, want %t", name, recorded, c.recorded)
		}
	}
}

// testStopped checks that a partition whose log fails, partition 0, is not recorded as served until
// its log is repaired and the broker serves it again. Partition 1 must not be affected. Each report
// is made before the watch has delivered the previous one.
func testStopped(f *fixture) {
	f.topic("orders", 2)
	b := f.run(0, f.config)
	f.elect(orders(0), 0, 1, 1)
	f.elect(orders(1), 0, 1, 1)
	image := b.until("both led", func(i *metadata.Image) bool {
		return leads("orders", 0, 1)(i) && i.Topic("orders").Partitions[1].Leader == 0
	})
	id := image.Topic("orders").ID
	both := []metadata.Served{{Topic: id, Partition: 0, LeaderEpoch: 1},
		{Topic: id, Partition: 1, LeaderEpoch: 1}}
	report := func(served []metadata.Served, first bool) {
		f.t.Helper()
		if err := b.ReportServing(f.t.Context(), 0, served); err != nil {
			f.t.Fatal(err)
		}
		for index, want := range []bool{first, true} {
			if got := f.state(orders(int32(index))); got.Serving != want || got.LeaderEpoch != 1 ||
				got.Leader != 0 {
				f.t.Errorf("partition %d: got state %+v, want serving %t", index, got, want)
			}
		}
	}
	for range 5 {
		report(both, true)
		report(both[1:], false)
	}
	report(both, true)
}

// testRecreatedTopic checks that a leader stays in the ISR if its Topic is deleted and created
// again, with the same leader elected in the same leader epoch. A report computed from an earlier
// image does not contain the new partition, which was never served.
func testRecreatedTopic(f *fixture) {
	b := f.run(0, f.config)
	f.run(1, f.config)
	b.until("both up", up(0, 1))
	create := func() metadata.ID {
		f.t.Helper()
		f.topic("orders", 1)
		f.assign(orders(0), 0, 1)
		f.change(orders(0), func(set *partitionset.Set) {
			set.PutState(orders(0), partitionset.State{Partition: placement.Partition{
				Replicas: []int32{0, 1}, Leader: 0, LeaderEpoch: 1,
				ReplicaIncarnations: map[int32]string{0: "i", 1: "i"},
				ISR:                 []placement.InSyncReplica{{Broker: 0, Epoch: 1}, {Broker: 1, Epoch: 1}}}})
		})
		topic := &v1alpha1.Topic{}
		f.get("orders", topic)
		topicID, err := id(topic.UID)
		if err != nil {
			f.t.Fatal(err)
		}
		b.until("led", func(image *metadata.Image) bool {
			return leads("orders", 0, 1)(image) && image.Topic("orders").ID == topicID
		})
		return topicID
	}
	served := []metadata.Served{{Topic: create(), LeaderEpoch: 1}}
	if err := b.ReportServing(f.t.Context(), 0, served); err != nil {
		f.t.Fatal(err)
	}
	if !f.state(orders(0)).Serving {
		f.t.Fatal("the report was not written")
	}
	deleted := &v1alpha1.Topic{}
	f.get("orders", deleted)
	if err := f.client.Delete(f.t.Context(), deleted); err != nil {
		f.t.Fatal(err)
	}
	b.until("deleted", func(image *metadata.Image) bool { return image.Topic("orders") == nil })
	f.change(orders(0), func(set *partitionset.Set) {
		set.RemoveState(orders(0))
		set.Unassign(orders(0))
	})
	create()
	before := f.state(orders(0))
	if err := b.ReportServing(f.t.Context(), 0, nil); err != nil {
		f.t.Fatal(err)
	}
	if after := f.state(orders(0)); len(after.ISR) != 2 || after.Changes != before.Changes {
		f.t.Errorf("got state %+v, want that before the report, %+v", after, before)
	}
}

// TestReportsOfDeletedTopicsAreForgotten checks that reports about topics that do not exist are
// deleted from memory.
func TestReportsOfDeletedTopicsAreForgotten(t *testing.T) {
	var p reportedPartitions
	p.record([]report{{location: place{key: orders(0), tag: "deleted"}, epoch: 1}})
	p.pending(resources{name: "demo"}, nil, placement.InSyncReplica{Broker: 0, Epoch: 1}, nil)
	if len(p.mu.byKey) != 0 {
		t.Errorf("got %v, want no report", p.mu.byKey)
	}
}

// testLeaseOwner checks that the LogCluster owns the broker's Lease, so that the garbage collector
// deletes a deleted LogCluster's Leases.
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
	// An existing Lease keeps its owner: if the API server enforces owner reference permissions, only
	// a client that may delete the Lease can change its owner.
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

// testServingConflict checks how a report is handled if it was decided on the basis of an outdated
// version of the set, so that the write conflicts. The report must then be decided again, on the
// stored version: it is written if only an annotation has changed, and dropped after another
// election.
func testServingConflict(f *fixture) {
	f.topic("orders", 1)
	b := f.run(0, f.config)
	f.elect(orders(0), 0, 1, 1)
	topic := b.until("led", leads("orders", 0, 1)).Topic("orders").ID
	f.note(orders(0))
	served := []metadata.Served{{Topic: topic, LeaderEpoch: 1}}
	if err := b.ReportServing(f.t.Context(), 0, served); err != nil {
		f.t.Fatal(err)
	}
	if state := f.state(orders(0)); !state.Serving {
		f.t.Errorf("got state %+v", state)
	}
	f.elect(orders(0), 0, 2, 1)
	if err := b.ReportServing(f.t.Context(), 0, served); err != nil {
		f.t.Fatal(err)
	}
	if state := f.state(orders(0)); state.Serving || state.LeaderEpoch != 2 {
		f.t.Errorf("the report of an old leader epoch was written after a new election: %+v", state)
	}
}

// testRecreatedCluster checks that brokers create their Leases again if their LogCluster is deleted
// and created again before the pods have stopped, while the garbage collector deletes the Leases.
// If a LogCluster exists, it must own the Leases.
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
