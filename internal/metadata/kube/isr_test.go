package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/await"
)

// replicated returns a set with one partition, which broker 0 leads in leader epoch 7. Brokers 0
// and 1 are in sync; broker 2 is not.
func replicated(t *testing.T) *partitionset.Set {
	t.Helper()
	resource := setOf("0,1,2 abcdefgh", "0@7 0:1,1:1,2 i 1")
	resource.Status.Directories = map[string]string{"0:1": "disk-0", "1:1": "disk-1"}
	set, faults := partitionset.Decode(resource, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return set
}

// TestProposalIsCheckedBeforeItIsWritten checks that a rejected proposal results in a conflict and
// changes nothing, and that a valid proposal changes only the ISR.
func TestProposalIsCheckedBeforeItIsWritten(t *testing.T) {
	up := map[int32]placement.BrokerState{
		0: {Liveness: placement.Up, Epoch: 1, Directory: "disk-0"},
		1: {Liveness: placement.Up, Epoch: 1, Directory: "disk-1"},
		2: {Liveness: placement.Up, Epoch: 4, Directory: "disk-2"},
	}
	change := func(epoch int32, from []int32, to ...metadata.InSync) metadata.ISRChange {
		return metadata.ISRChange{LeaderEpoch: epoch, From: from, To: to}
	}
	self, other, third := metadata.InSync{Broker: 0, Epoch: 1, ReplicaIncarnation: "i"},
		metadata.InSync{Broker: 1, Epoch: 1, ReplicaIncarnation: "i"},
		metadata.InSync{Broker: 2, Epoch: 4, ReplicaIncarnation: "i"}
	const tag = "abcdefgh"
	for name, c := range map[string]struct {
		change  metadata.ISRChange
		tag     string
		leaving int32
		want    []int32 // ISR after the proposal; nil if it is rejected
	}{
		"ISR grows": {change(7, []int32{1, 0}, self, other, third), tag, -1,
			[]int32{0, 1, 2}},
		"ISR shrinks":          {change(7, []int32{0, 1}, self), tag, -1, []int32{0}},
		"ISR stays":            {change(7, []int32{0, 1}, other, self), tag, -1, []int32{0, 1}},
		"another leader epoch": {change(6, []int32{0, 1}, self), tag, -1, nil},
		"another ISR":          {change(7, []int32{0}, self), tag, -1, nil},
		"an earlier broker epoch": {change(7, []int32{0, 1}, self,
			metadata.InSync{Broker: 2, Epoch: 3, ReplicaIncarnation: "i"}), tag, -1, nil},
		"not a replica": {change(7, []int32{0, 1}, self,
			metadata.InSync{Broker: 9, Epoch: 1, ReplicaIncarnation: "i"}), tag, -1, nil},
		"another replica incarnation": {change(7, []int32{0, 1}, self, metadata.InSync{Broker: 1,
			Epoch: 1, ReplicaIncarnation: "earlier"}), tag, -1, nil},
		"without the leader":        {change(7, []int32{0, 1}, other), tag, -1, nil},
		"an earlier topic":          {change(7, []int32{0, 1}, self), "earliest", -1, nil},
		"a leaving member may stay": {change(7, []int32{0, 1}, self, other), tag, 1, []int32{0, 1}},
		"a leaving broker cannot join": {change(7, []int32{0, 1}, self, other, third), tag, 2,
			nil},
	} {
		brokers := map[int32]placement.BrokerState{}
		for id, broker := range up {
			broker.Leaving = id == c.leaving
			brokers[id] = broker
		}
		s := &Store{}
		s.states.Store(&brokers)
		set := replicated(t)
		err := s.changeISR(place{"demo-0", orders(0), c.tag}, c.change, &atomic.Int64{})(set)
		entry, _ := set.Get(orders(0))
		if c.want == nil {
			if !errors.Is(err, metadata.ErrISRConflict) || set.StatusChanged() {
				t.Errorf("%s: got error %v, state %+v, want ErrISRConflict", name, err, entry.State)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []int32
		for _, replica := range entry.State.ISR {
			got = append(got, replica.Broker)
			if replica.Directory != up[replica.Broker].Directory ||
				replica.Epoch != up[replica.Broker].Epoch {
				t.Errorf("%s: ISR member %+v differs from the broker that is up", name, replica)
			}
		}
		if !slices.Equal(got, c.want) || entry.State.LeaderEpoch != 7 || !entry.State.Serving ||
			set.SpecChanged() {
			t.Errorf("%s: got state %+v", name, entry.State)
		}
	}
}

// TestLeaderWithAFailedLogLeavesTheISR checks that a leader whose log has failed leaves the ISR
// only if another in-sync replica can lead.
func TestLeaderWithAFailedLogLeavesTheISR(t *testing.T) {
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
		set := replicated(t)
		stopped := report{location: place{"demo-0", orders(0), "abcdefgh"}, epoch: 7, stopped: true}
		stopped.apply(set, placement.InSyncReplica{Broker: 0, Epoch: 1}, c.up)
		entry, _ := set.Get(orders(0))
		if len(entry.State.ISR) != c.want || entry.State.Serving {
			t.Errorf("%s: got state %+v", name, entry.State)
		}
	}
}

// TestUrgentChanges checks that two kinds of changes are urgent, because producers with acks=all
// wait for them: the removal of a replica, and the addition of a replica to an ISR below
// minInSyncReplicas.
func TestUrgentChanges(t *testing.T) {
	topic := &metadata.Topic{Name: "orders", ID: metadata.ID{1}}
	topic.Settings.MinInSyncReplicas = 2
	d := &directory{image: metadata.NewImage("demo", metadata.CleanerBudget{}, nil,
		[]*metadata.Topic{topic})}
	ids := func(n int32) (all []int32, members []metadata.InSync) {
		for id := range n {
			all, members = append(all, id), append(members, metadata.InSync{Broker: id})
		}
		return all, members
	}
	for _, c := range []struct {
		from, to int32
		want     bool
	}{{1, 2, true}, {2, 3, false}, {3, 2, true}, {2, 1, true}, {2, 2, false}, {1, 1, true}} {
		from, _ := ids(c.from)
		_, to := ids(c.to)
		if got := d.isUrgent(metadata.ISRChange{Topic: topic.ID, From: from, To: to}); got != c.want {
			t.Errorf("from %d to %d members: got urgent %t, want %t", c.from, c.to, got, c.want)
		}
	}
	if d.isUrgent(metadata.ISRChange{Topic: metadata.ID{2}, From: []int32{0}}) != true {
		t.Error("the removal of a replica of an unknown topic is not urgent")
	}
}

// testChangeISR checks that a leader can add a follower to the ISR and remove it again.
func testChangeISR(f *fixture) {
	f.topic("orders", 1)
	f.assign(orders(0), 0, 1)
	b0, b1 := f.run(0, f.config), f.run(1, f.config)
	b1.until("both up", up(0, 1))
	b0.until("both up", up(0, 1))
	f.elect(orders(0), 0, 3, 1)
	image := b0.until("leads", leads("orders", 0, 3))
	topic := image.Topic("orders").ID
	change := func(epoch int32, from []int32, to ...metadata.InSync) error {
		return b0.changeOne(metadata.ISRChange{Topic: topic, LeaderEpoch: epoch, From: from, To: to})
	}
	self, other := metadata.InSync{Broker: 0, Epoch: 1, ReplicaIncarnation: "i"},
		metadata.InSync{Broker: 1, Epoch: 1, ReplicaIncarnation: "i"}
	// Another client changes another part of the set. This must not be reported as a conflict.
	f.note(orders(0))
	if err := change(3, []int32{0}, self, other); err != nil {
		f.t.Fatal(err)
	}
	inSync := func(count int) func(*metadata.Image) bool {
		return func(image *metadata.Image) bool { return len(image.Topic("orders").Partitions[0].ISR) == count }
	}
	b1.until("both in sync", inSync(2))
	b0.until("both in sync", inSync(2))
	resource := &v1alpha1.PartitionSet{}
	f.get(setName(orders(0)), resource)
	want := placement.InSyncReplica{Broker: 1, Epoch: 1, Directory: "disk-1"}
	if state := f.state(orders(0)); !slices.Contains(state.ISR, want) ||
		resource.Annotations["note"] == "" {
		f.t.Errorf("got state %+v, annotations %v", state, resource.Annotations)
	}
	for name, err := range map[string]error{
		"from another leader epoch": change(2, []int32{0, 1}, self),
		"from another ISR":          change(3, []int32{0}, self),
		"to an earlier broker epoch": change(3, []int32{0, 1}, self,
			metadata.InSync{Broker: 1, Epoch: 7, ReplicaIncarnation: "i"}),
		"of an unknown topic": b0.changeOne(metadata.ISRChange{Topic: metadata.ID{1}}),
	} {
		if !errors.Is(err, metadata.ErrISRConflict) {
			f.t.Errorf("a change %s: got error %v, want ErrISRConflict", name, err)
		}
	}
	if err := change(3, []int32{0, 1}, self); err != nil {
		f.t.Error(err)
	}
	ended, stop := context.WithCancel(f.t.Context())
	stop()
	var err error
	b0.ChangeISR(ended, []metadata.ISRChange{{Topic: topic, LeaderEpoch: 3, From: []int32{0},
		To: []metadata.InSync{self, other}}}, func(_ int, _ int64, result error) { err = result })
	if err == nil || errors.Is(err, metadata.ErrISRConflict) {
		f.t.Errorf(
			"change with a cancelled context: got error %v, want one other than ErrISRConflict",
			err,
		)
	}
}

// testISRChangesShareWrites checks that the ISR changes for all partitions of a set are made in one
// write, and that each of them has its own outcome.
func testISRChangesShareWrites(f *fixture) {
	const partitions = 20
	f.topic("orders", partitions)
	b0, b1 := f.run(0, f.config), f.run(1, f.config)
	b1.until("both up", up(0, 1))
	b0.until("both up", up(0, 1))
	for index := range int32(partitions) {
		f.assign(orders(index), 0, 1)
		f.lead(orders(index), 0, 3, 1)
	}
	topic := b0.until("leads all", func(i *metadata.Image) bool {
		return !slices.ContainsFunc(i.Topic("orders").Partitions, func(p *metadata.Partition) bool {
			return p.Leader != 0 || len(p.Replicas) != 2
		})
	}).Topic("orders").ID
	var changes []metadata.ISRChange
	for index := range int32(partitions) {
		changes = append(changes, metadata.ISRChange{Topic: topic, Partition: index,
			LeaderEpoch: 3 - index%2, From: []int32{0},
			To: []metadata.InSync{{Broker: 0, Epoch: 1, ReplicaIncarnation: "i"},
				{Broker: 1, Epoch: 1, ReplicaIncarnation: "i"}}})
	}
	before, results := b0.writes(), make([]error, partitions)
	b0.ChangeISR(f.t.Context(), changes, func(i int, _ int64, err error) { results[i] = err })
	for i, err := range results {
		members := len(f.state(orders(int32(i))).ISR)
		if i%2 == 0 && (err != nil || members != 2) ||
			i%2 == 1 && (!errors.Is(err, metadata.ErrISRConflict) || members != 1) {
			f.t.Errorf("partition %d: got error %v, %d in-sync replicas", i, err, members)
		}
	}
	if made := b0.writes() - before; made > testSets {
		f.t.Errorf("%d writes, want one for each set", made)
	}
}

// testAnnounceShutdown checks that the Lease contains the announcement at once, that later renewals
// repeat it, and that other brokers observe it. It must not apply to the next broker epoch.
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
	await.Until(f.t, "lease renewed with the announcement", func() bool {
		f.get("demo-broker-0", lease)
		return lease.Spec.RenewTime.After(first) &&
			v1alpha1.ReadRegistration(lease).Leaving == 1
	})
	b0.stop()
	if err := b0.AnnounceShutdown(f.t.Context()); err == nil {
		f.t.Error("a stopped broker announced its shutdown")
	}
	f.run(0, f.config).until("next epoch not leaving", leaving(false))
	b1.until("broker 0 not leaving", leaving(false))
}

// testOutageIsReported checks that an outage is reported while the API server is unavailable, and
// no longer after the Lease's next renewal.
func testOutageIsReported(f *fixture) {
	interrupted, unavailable := f.interruptible()
	b := f.run(0, interrupted)
	b.until("up", up(0))
	// On a slow machine, the first renewal may be late.
	await.Until(f.t, "no outage", func() bool {
		return b.Outage(time.Now()) == 0 && b.Detail() == ""
	})
	unavailable.Store(true)
	await.Until(f.t, "outage detected", func() bool { return b.Outage(time.Now()) > 0 })
	if detail := b.Detail(); !strings.Contains(detail, "serving from the last metadata image") {
		f.t.Errorf("got Detail %q", detail)
	}
	unavailable.Store(false)
	await.Until(f.t, "outage over", func() bool { return b.Detail() == "" })
}

// TestCleanEpochAndLeavingOfALease checks that the announcement of a controlled shutdown applies
// only if it names the current broker epoch, which is 4 here.
func TestCleanEpochAndLeavingOfALease(t *testing.T) {
	for _, c := range []struct {
		clean, leaving int64
		wantLeaving    bool
	}{{-1, -1, false}, {3, 4, true}, {0, 3, false}} {
		lease := leaseOf(1, "a", 4, at(0))
		v1alpha1.ChangeRegistration(lease, func(r *v1alpha1.Registration) {
			r.CleanEpoch, r.Leaving = c.clean, c.leaving
		})
		if got, _ := leaseBroker(lease); got.CleanEpoch != c.clean || got.Leaving != c.wantLeaving {
			t.Errorf("%+v: got clean epoch %d, leaving %t", c, got.CleanEpoch, got.Leaving)
		}
	}
}

// TestReassignmentIsInTheImage checks that, during a reassignment, the image contains the current
// replicas and the target.
func TestReassignmentIsInTheImage(t *testing.T) {
	fill := func(assignment, state string) *metadata.Partition {
		set, faults := partitionset.Decode(setOf(assignment, state), nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		entry, _ := set.Get(orders(0))
		to := &metadata.Partition{}
		fillPartition(to, entry, nil)
		return to
	}
	const state = "0@7 0:1,1:1,2 i 1"
	if to := fill("0,1,2 abcdefgh", state); !slices.Equal(to.Replicas, []int32{0, 1, 2}) ||
		to.Target != nil {
		t.Errorf("no reassignment: %+v", to)
	}
	if to := fill("1,3 abcdefgh", state); !slices.Equal(to.Replicas, []int32{0, 1, 2}) ||
		!slices.Equal(to.Target, []int32{1, 3}) {
		t.Errorf("reassignment: %+v", to)
	}
	// The operator has not decided about the new partition yet.
	if to := fill("1,3 abcdefgh", ""); !slices.Equal(to.Replicas, []int32{1, 3}) ||
		to.Target != nil {
		t.Errorf("without a state: %+v", to)
	}
}
