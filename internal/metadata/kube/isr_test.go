package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// replicated is a partition that broker 0 leads in epoch 7, with broker 1 in sync and broker 2 not.
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

// TestAProposalIsCheckedBeforeItIsWritten: all else is as it was, and what is refused is a
// conflict.
func TestAProposalIsCheckedBeforeItIsWritten(t *testing.T) {
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
		want    []int32 // nil: refused
	}{
		"grows": {change(7, []int32{1, 0}, self, other, third), -1,
			[]int32{0, 1, 2}},
		"shrinks":       {change(7, []int32{0, 1}, self), -1, []int32{0}},
		"another epoch": {change(6, []int32{0, 1}, self), -1, nil},
		"another ISR":   {change(7, []int32{0}, self), -1, nil},
		"an earlier incarnation": {change(7, []int32{0, 1}, self,
			metadata.InSync{Broker: 2, Epoch: 3}), -1, nil},
		"one that is not there": {change(7, []int32{0, 1}, self,
			metadata.InSync{Broker: 9, Epoch: 1}), -1, nil},
		"one that leaves may stay":  {change(7, []int32{0, 1}, self, other), 1, []int32{0, 1}},
		"one that leaves cannot in": {change(7, []int32{0, 1}, self, third), 2, nil},
	} {
		brokers := map[int32]placement.BrokerState{}
		for id, standing := range up {
			standing.Leaving = id == c.leaving
			brokers[id] = standing
		}
		before := replicated()
		after, err := proposed(before, c.change, brokers)
		if c.want == nil {
			if !errors.Is(err, metadata.ErrISRConflict) {
				t.Errorf("%s: %v", name, err)
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
				t.Errorf("%s: %+v is not what is up", name, replica)
			}
		}
		if !slices.Equal(got, c.want) || after.Status.LeaderEpoch != 7 ||
			*after.Status.ServingEpoch != 7 || len(before.Status.ISR) != 2 {
			t.Errorf("%s: %+v, before %+v", name, after.Status, before.Status)
		}
	}
}

// TestALeaderWhoseLogFailedStepsAside if there is somebody to lead, and only then.
func TestALeaderWhoseLogFailedStepsAside(t *testing.T) {
	self := metadata.Broker{ID: 0, Epoch: 1}
	for name, c := range map[string]struct {
		up   map[int32]placement.BrokerState
		want int
	}{
		"another is in sync and up": {map[int32]placement.BrokerState{1: {Liveness: placement.Up,
			Epoch: 1}}, 1},
		"it is another incarnation": {map[int32]placement.BrokerState{1: {Liveness: placement.Up,
			Epoch: 2}}, 2},
		"it leaves": {map[int32]placement.BrokerState{1: {Liveness: placement.Up,
			Epoch: 1, Leaving: true}}, 2},
		"who is up is not in sync": {map[int32]placement.BrokerState{2: {Liveness: placement.Up,
			Epoch: 4}}, 2},
		"nobody else is up": {nil, 2},
		"only the one itself that is": {map[int32]placement.BrokerState{0: {Liveness: placement.Up,
			Epoch: 1}}, 2},
	} {
		partition := replicated()
		stopped := servedPartition{epoch: 7, stopped: true,
			others: inSyncBeside(partition.Status, self, c.up)}
		stopped.write(partition, self)
		if status := partition.Status; len(status.ISR) != c.want || status.ServingEpoch != nil {
			t.Errorf("%s: %+v", name, status)
		}
	}
}

// testChangeISR: the leader takes a follower in and out, against a real API server.
func testChangeISR(w *world) {
	w.topic("orders", 1)
	p := &v1alpha1.Partition{}
	w.get("orders-0", p)
	p.Spec.Replicas = []int32{0, 1}
	if err := w.client.Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	b0, b1 := w.run(0, w.config), w.run(1, w.config)
	b1.until("both are up", up(0, 1))
	b0.until("both are up", up(0, 1))
	w.elect("orders-0", 0, 3, 1)
	image := b0.until("it leads", leads("orders", 0, 3))
	topic := image.Topic("orders").ID
	change := func(epoch int32, from []int32, to ...metadata.InSync) error {
		return b0.changeISR(w.t.Context(),
			metadata.ISRChange{Topic: topic, LeaderEpoch: epoch, From: from, To: to})
	}
	self, other := metadata.InSync{Broker: 0, Epoch: 1}, metadata.InSync{Broker: 1, Epoch: 1}
	// Somebody writes the Partition meanwhile: no reason to refuse, as it is another part of it.
	w.get("orders-0", p)
	p.Annotations = map[string]string{"note": "somebody else wrote"}
	if err := w.client.Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	if err := change(3, []int32{0}, self, other); err != nil {
		w.t.Fatal(err)
	}
	inSync := func(count int) func(*metadata.Image) bool {
		return func(image *metadata.Image) bool { return len(image.Topic("orders").Partitions[0].ISR) == count }
	}
	b1.until("both are in sync", inSync(2))
	b0.until("both are in sync", inSync(2))
	w.get("orders-0", p)
	want := v1alpha1.InSyncReplica{Broker: 1, BrokerEpoch: 1, Directory: "disk-1"}
	if !slices.Contains(p.Status.ISR, want) || p.Annotations["note"] == "" {
		w.t.Errorf("partition is %+v", p)
	}
	for name, err := range map[string]error{
		"of another epoch": change(2, []int32{0, 1}, self),
		"from another ISR": change(3, []int32{0}, self),
		"to a dead incarnation": change(3, []int32{0, 1}, self,
			metadata.InSync{Broker: 1, Epoch: 7}),
	} {
		if !errors.Is(err, metadata.ErrISRConflict) {
			w.t.Errorf("a change %s: %v", name, err)
		}
	}
	if err := change(3, []int32{0, 1}, self); err != nil {
		w.t.Error(err)
	}
	// As the watch has it by then; else the change would be looked into with a request, which
	// fails, and nothing would be unknown.
	b0.until("it is alone", inSync(1))
	gone, stop := context.WithCancel(w.t.Context())
	stop()
	err := b0.changeISR(gone, metadata.ISRChange{Topic: topic, LeaderEpoch: 3, From: []int32{0},
		To: []metadata.InSync{self, other}})
	if err == nil || errors.Is(err, metadata.ErrISRConflict) {
		w.t.Errorf("a change whose outcome nobody knows: %v", err)
	}
}

// testLeave: the Lease says it at once, the others see it, and the next incarnation begins anew.
func testLeave(w *world) {
	b0, b1 := w.run(0, w.config), w.run(1, w.config)
	b0.until("both are up", up(0, 1))
	b1.until("both are up", up(0, 1))
	leaving := func(want bool) func(*metadata.Image) bool {
		return func(image *metadata.Image) bool {
			broker, there := image.Broker(0)
			return there && broker.Leaving == want
		}
	}
	if err := b0.AnnounceShutdown(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	b1.until("broker 0 leaves", leaving(true))
	b0.until("it leaves itself", leaving(true))
	lease := &coordinationv1.Lease{}
	w.get("demo-broker-0", lease)
	first := lease.Spec.RenewTime.Time
	eventually(w.t, "the lease is renewed, and says so still", func() bool {
		w.get("demo-broker-0", lease)
		return lease.Spec.RenewTime.After(first) &&
			lease.Annotations[v1alpha1.AnnotationLeaving] == "1"
	})
	b0.stop()
	if err := b0.AnnounceShutdown(w.t.Context()); err == nil {
		w.t.Error("a broker that has ended says that it leaves")
	}
	w.run(0, w.config).until("its next incarnation stays", leaving(false))
	b1.until("broker 0 is back", leaving(false))
}

// testOutageIsTold: by the metric's source and in words; an outage ends with the first renewal.
func testOutageIsTold(w *world) {
	var away atomic.Bool
	cut := rest.CopyConfig(w.config)
	cut.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			if away.Load() {
				return nil, errors.New("the API server is away")
			}
			return next.RoundTrip(request)
		})
	})
	b := w.run(0, cut)
	b.until("it is up", up(0))
	if b.Detail() != "" || b.Outage(time.Now()) != 0 {
		w.t.Errorf("an outage while there is none: %q", b.Detail())
	}
	away.Store(true)
	eventually(w.t, "the outage is seen", func() bool { return b.Outage(time.Now()) > 0 })
	if detail := b.Detail(); !strings.Contains(detail, "serving from the last image") {
		w.t.Errorf("it is told as %q", detail)
	}
	away.Store(false)
	eventually(w.t, "it is over", func() bool { return b.Detail() == "" })
}

// TestLeasesTellOfCleanStops, and of leaving only in the incarnation that said so.
func TestLeasesTellOfCleanStops(t *testing.T) {
	for _, c := range []struct {
		clean, leaving string
		want           int64
		leaves         bool
	}{{"", "", -1, false}, {"3", "4", 3, true}, {"x", "3", -1, false}, {"-2", "x", -1, false}} {
		lease := leaseOf(1, "a", 4, at(0))
		lease.Annotations[v1alpha1.AnnotationCleanEpoch],
			lease.Annotations[v1alpha1.AnnotationLeaving] = c.clean, c.leaving
		if got, _ := leaseBroker(lease); got.CleanEpoch != c.want || got.Leaving != c.leaves {
			t.Errorf("%+v: clean epoch %d, leaving %t", c, got.CleanEpoch, got.Leaving)
		}
	}
}

// TestAMoveIsInTheImage: where the replicas are and where they are to be.
func TestAMoveIsInTheImage(t *testing.T) {
	p := replicated()
	to := &metadata.Partition{}
	fill(to, p, nil)
	if !slices.Equal(to.Replicas, []int32{0, 1, 2}) || to.Target != nil {
		t.Errorf("at rest: %+v", to)
	}
	p.Spec.Replicas = []int32{1, 3}
	to = &metadata.Partition{}
	if fill(to, p, nil); !slices.Equal(to.Replicas, []int32{0, 1, 2}) ||
		!slices.Equal(to.Target, []int32{1, 3}) {
		t.Errorf("moving: %+v", to)
	}
	p.Status.Replicas = nil // of an operator that did not write them
	to = &metadata.Partition{}
	if fill(to, p, nil); !slices.Equal(to.Replicas, []int32{1, 3}) || to.Target != nil {
		t.Errorf("as it was written before: %+v", to)
	}
}
