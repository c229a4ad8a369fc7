package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// replicated returns a partition that broker 0 leads in leader epoch 7. Brokers 0 and 1 are in
// sync; broker 2 is not.
func replicated() *v1alpha1.Partition {
	p := &v1alpha1.Partition{Spec: v1alpha1.PartitionSpec{Cluster: "demo", Topic: "orders",
		Replicas: []int32{0, 1, 2}}}
	p.Status = v1alpha1.PartitionStatus{
		Leader: 0, LeaderEpoch: 7, LeaderDirectory: "disk-0", Replicas: []int32{0, 1, 2},
		ServingEpoch: new(int32(7)),
		ISR: []v1alpha1.InSyncReplica{{Broker: 0, BrokerEpoch: 1, Directory: "disk-0"},
			{Broker: 1, BrokerEpoch: 1, Directory: "disk-1"}},
	}
	return p
}

// TestProposalIsCheckedBeforeItIsWritten: a rejected proposal is a conflict. A valid proposal
// changes only the ISR in the status.
func TestProposalIsCheckedBeforeItIsWritten(t *testing.T) {
	up := map[int32]placement.BrokerState{
		0: {Liveness: placement.Up, Epoch: 1, Directory: "disk-0"},
		1: {Liveness: placement.Up, Epoch: 1, Directory: "disk-1"},
		2: {Liveness: placement.Up, Epoch: 4, Directory: "disk-2"},
	}
	change := func(epoch int32, from []int32, to ...metadata.InSync) metadata.ISRChange {
		return metadata.ISRChange{LeaderEpoch: epoch, From: from, To: to}
	}
	self, other, third := metadata.InSync{Broker: 0, Epoch: 1},
		metadata.InSync{Broker: 1, Epoch: 1}, metadata.InSync{Broker: 2, Epoch: 4}
	for name, c := range map[string]struct {
		change  metadata.ISRChange
		leaving int32
		want    []int32 // nil: rejected
	}{
		"ISR grows": {change(7, []int32{1, 0}, self, other, third), -1,
			[]int32{0, 1, 2}},
		"ISR shrinks":          {change(7, []int32{0, 1}, self), -1, []int32{0}},
		"another leader epoch": {change(6, []int32{0, 1}, self), -1, nil},
		"another ISR":          {change(7, []int32{0}, self), -1, nil},
		"an earlier broker epoch": {change(7, []int32{0, 1}, self,
			metadata.InSync{Broker: 2, Epoch: 3}), -1, nil},
		"not a replica": {change(7, []int32{0, 1}, self,
			metadata.InSync{Broker: 9, Epoch: 1}), -1, nil},
		"a leaving member may stay":    {change(7, []int32{0, 1}, self, other), 1, []int32{0, 1}},
		"a leaving broker cannot join": {change(7, []int32{0, 1}, self, third), 2, nil},
	} {
		brokers := map[int32]placement.BrokerState{}
		for id, broker := range up {
			broker.Leaving = id == c.leaving
			brokers[id] = broker
		}
		before := replicated()
		after, err := applyProposal(before, c.change, brokers)
		if c.want == nil {
			if !errors.Is(err, metadata.ErrISRConflict) {
				t.Errorf("%s: got error %v, want ErrISRConflict", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []int32
		for _, replica := range after.Status.ISR {
			got = append(got, replica.Broker)
			if replica.Directory != up[replica.Broker].Directory ||
				replica.BrokerEpoch != up[replica.Broker].Epoch {
				t.Errorf("%s: ISR member %+v differs from the broker that is up", name, replica)
			}
		}
		if !slices.Equal(got, c.want) || after.Status.LeaderEpoch != 7 ||
			*after.Status.ServingEpoch != 7 || len(before.Status.ISR) != 2 {
			t.Errorf("%s: %+v, before %+v", name, after.Status, before.Status)
		}
	}
}

// TestLeaderWithAFailedLogLeavesTheISR: a leader whose log has failed leaves the ISR only if
// another in-sync replica can lead.
func TestLeaderWithAFailedLogLeavesTheISR(t *testing.T) {
	self := metadata.Broker{ID: 0, Epoch: 1}
	for name, c := range map[string]struct {
		up   map[int32]placement.BrokerState
		want int
	}{
		"another in-sync replica up": {map[int32]placement.BrokerState{1: {Liveness: placement.Up,
			Epoch: 1}}, 1},
		"the in-sync replica has restarted": {map[int32]placement.BrokerState{1: {Liveness: placement.Up,
			Epoch: 2}}, 2},
		"the in-sync replica is in controlled shutdown": {map[int32]placement.BrokerState{1: {Liveness: placement.Up,
			Epoch: 1, Leaving: true}}, 2},
		"the other broker is not in sync": {map[int32]placement.BrokerState{2: {Liveness: placement.Up,
			Epoch: 4}}, 2},
		"no other broker up": {nil, 2},
		"only the leader itself up": {map[int32]placement.BrokerState{0: {Liveness: placement.Up,
			Epoch: 1}}, 2},
	} {
		partition := replicated()
		stopped := servedPartition{epoch: 7, stopped: true,
			successor: successorExists(partition.Status, self, c.up)}
		stopped.write(partition, self)
		if status := partition.Status; len(status.ISR) != c.want || status.ServingEpoch != nil {
			t.Errorf("%s: got status %+v", name, status)
		}
	}
}

// testChangeISR: the leader adds a follower to the ISR and removes it.
func testChangeISR(f *fixture) {
	f.topic("orders", 1)
	p := &v1alpha1.Partition{}
	f.get("orders-0", p)
	p.Spec.Replicas = []int32{0, 1}
	if err := f.client.Update(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
	b0, b1 := f.run(0, f.config), f.run(1, f.config)
	b1.until("both up", up(0, 1))
	b0.until("both up", up(0, 1))
	f.elect("orders-0", 0, 3, 1)
	image := b0.until("leads", leads("orders", 0, 3))
	topic := image.Topic("orders").ID
	change := func(epoch int32, from []int32, to ...metadata.InSync) error {
		return b0.changeISR(f.t.Context(),
			metadata.ISRChange{Topic: topic, LeaderEpoch: epoch, From: from, To: to})
	}
	self, other := metadata.InSync{Broker: 0, Epoch: 1}, metadata.InSync{Broker: 1, Epoch: 1}
	// Another client changes another part of the Partition. This must not be reported as a
	// conflict.
	f.get("orders-0", p)
	p.Annotations = map[string]string{"note": "written by another client"}
	if err := f.client.Update(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
	if err := change(3, []int32{0}, self, other); err != nil {
		f.t.Fatal(err)
	}
	inSync := func(count int) func(*metadata.Image) bool {
		return func(image *metadata.Image) bool { return len(image.Topic("orders").Partitions[0].ISR) == count }
	}
	b1.until("both in sync", inSync(2))
	b0.until("both in sync", inSync(2))
	f.get("orders-0", p)
	want := v1alpha1.InSyncReplica{Broker: 1, BrokerEpoch: 1, Directory: "disk-1"}
	if !slices.Contains(p.Status.ISR, want) || p.Annotations["note"] == "" {
		f.t.Errorf("got partition %+v", p)
	}
	for name, err := range map[string]error{
		"from another leader epoch": change(2, []int32{0, 1}, self),
		"from another ISR":          change(3, []int32{0}, self),
		"to an earlier broker epoch": change(3, []int32{0, 1}, self,
			metadata.InSync{Broker: 1, Epoch: 7}),
	} {
		if !errors.Is(err, metadata.ErrISRConflict) {
			f.t.Errorf("a change %s: got error %v, want ErrISRConflict", name, err)
		}
	}
	if err := change(3, []int32{0, 1}, self); err != nil {
		f.t.Error(err)
	}
	// Wait until the watch has delivered the change. Otherwise changeISR would first read the
	// Partition, the read would fail with the cancelled context, and the outcome would be known.
	b0.until("alone in sync", inSync(1))
	ended, stop := context.WithCancel(f.t.Context())
	stop()
	err := b0.changeISR(ended, metadata.ISRChange{Topic: topic, LeaderEpoch: 3, From: []int32{0},
		To: []metadata.InSync{self, other}})
	if err == nil || errors.Is(err, metadata.ErrISRConflict) {
		f.t.Errorf(
			"change with a cancelled context: got error %v, want one other than ErrISRConflict",
			err,
		)
	}
}

// testAnnounceShutdown: the Lease contains the announcement at once, later renewals repeat it, and
// other brokers observe it. It does not apply to the next broker epoch.
func testAnnounceShutdown(f *fixture) {
	b0, b1 := f.run(0, f.config), f.run(1, f.config)
	b0.until("both up", up(0, 1))
	b1.until("both up", up(0, 1))
	leaving := func(want bool) func(*metadata.Image) bool {
		return func(image *metadata.Image) bool {
			broker, there := image.Broker(0)
			return there && broker.Leaving == want
		}
	}
	if err := b0.AnnounceShutdown(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	b1.until("broker 0 leaving", leaving(true))
	b0.until("itself leaving", leaving(true))
	lease := &coordinationv1.Lease{}
	f.get("demo-broker-0", lease)
	first := lease.Spec.RenewTime.Time
	eventually(f.t, "lease renewed with the announcement", func() bool {
		f.get("demo-broker-0", lease)
		return lease.Spec.RenewTime.After(first) &&
			lease.Annotations[v1alpha1.AnnotationLeaving] == "1"
	})
	b0.stop()
	if err := b0.AnnounceShutdown(f.t.Context()); err == nil {
		f.t.Error("a stopped broker announced its shutdown")
	}
	f.run(0, f.config).until("next epoch not leaving", leaving(false))
	b1.until("broker 0 not leaving", leaving(false))
}

// testOutageIsReported: an outage is reported while the API server is unavailable, and not after
// the next renewal of the Lease.
func testOutageIsReported(f *fixture) {
	interrupted, unavailable := f.interruptible()
	b := f.run(0, interrupted)
	b.until("up", up(0))
	if b.Detail() != "" || b.Outage(time.Now()) != 0 {
		f.t.Errorf("while the API server is available, got Detail %q", b.Detail())
	}
	unavailable.Store(true)
	eventually(f.t, "outage detected", func() bool { return b.Outage(time.Now()) > 0 })
	if detail := b.Detail(); !strings.Contains(detail, "serving from the last metadata image") {
		f.t.Errorf("got Detail %q", detail)
	}
	unavailable.Store(false)
	eventually(f.t, "outage over", func() bool { return b.Detail() == "" })
}

// TestCleanEpochAndLeavingOfALease: the announcement of a controlled shutdown applies only if it
// names the present broker epoch, which is 4 here. An invalid clean epoch is treated as none.
func TestCleanEpochAndLeavingOfALease(t *testing.T) {
	for _, c := range []struct {
		clean, leaving string
		want           int64
		wantLeaving    bool
	}{{"", "", -1, false}, {"3", "4", 3, true}, {"x", "3", -1, false}, {"-2", "x", -1, false}} {
		lease := leaseOf(1, "a", 4, at(0))
		lease.Annotations[v1alpha1.AnnotationCleanEpoch],
			lease.Annotations[v1alpha1.AnnotationLeaving] = c.clean, c.leaving
		if got, _ := leaseBroker(lease); got.CleanEpoch != c.want || got.Leaving != c.wantLeaving {
			t.Errorf("%+v: got clean epoch %d, leaving %t", c, got.CleanEpoch, got.Leaving)
		}
	}
}

// TestReassignmentIsInTheImage: during a reassignment the image contains the current replicas and
// the target.
func TestReassignmentIsInTheImage(t *testing.T) {
	p := replicated()
	to := &metadata.Partition{}
	fillPartition(to, p, nil)
	if !slices.Equal(to.Replicas, []int32{0, 1, 2}) || to.Target != nil {
		t.Errorf("no reassignment: %+v", to)
	}
	p.Spec.Replicas = []int32{1, 3}
	to = &metadata.Partition{}
	if fillPartition(to, p, nil); !slices.Equal(to.Replicas, []int32{0, 1, 2}) ||
		!slices.Equal(to.Target, []int32{1, 3}) {
		t.Errorf("reassignment: %+v", to)
	}
	p.Status.Replicas = nil // an earlier version of the operator did not write it
	to = &metadata.Partition{}
	if fillPartition(to, p, nil); !slices.Equal(to.Replicas, []int32{1, 3}) || to.Target != nil {
		t.Errorf("without status.replicas: %+v", to)
	}
}
