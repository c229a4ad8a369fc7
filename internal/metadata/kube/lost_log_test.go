package kube

import (
	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// ledBy0 makes broker 0 the leader of partition orders/0, with the given in-sync replicas. It
// returns the topic's id.
func (f *fixture) ledBy0(b *broker, isr ...int32) metadata.ID {
	f.t.Helper()
	f.change(orders(0), func(set *partitionset.Set) {
		state := partitionset.State{Serving: true, Partition: placement.Partition{
			Replicas: []int32{0, 1}, Leader: 0, LeaderEpoch: 3,
			ReplicaIncarnations: map[int32]string{0: "first", 1: "other"}}}
		for _, id := range isr {
			state.ISR = append(state.ISR, placement.InSyncReplica{Broker: id, Epoch: 1,
				Directory: registration(id).Directory})
		}
		set.PutState(orders(0), state)
	})
	return b.until("led", leads("orders", 0, 3)).Topic("orders").ID
}

// reportLost makes a broker report, twice, that it has lost the log of its replica of partition
// orders/0, which was in its first incarnation. It returns the state after the first report, and
// checks that the second report changes nothing.
func (f *fixture) reportLost(b *broker, topic metadata.ID) partitionset.State {
	f.t.Helper()
	lost := []metadata.Served{{Topic: topic, Lost: true, ReplicaIncarnation: "first"}}
	var states []partitionset.State
	for range 2 {
		if err := b.ReportServing(f.t.Context(), 0, lost); err != nil {
			f.t.Fatal(err)
		}
		states = append(states, f.state(orders(0)))
	}
	if diff := cmp.Diff(states[0], states[1]); diff != "" {
		f.t.Errorf("the second report changed the state: %s", diff)
	}
	return states[0]
}

// waitForNewIncarnation waits until a broker's metadata contain the new incarnation id of broker
// 0's replica of partition orders/0, as in state.
func (f *fixture) waitForNewIncarnation(b *broker, state partitionset.State) *metadata.Image {
	f.t.Helper()
	next := state.ReplicaIncarnations[0]
	if next == "" || next == "first" || state.ReplicaIncarnations[1] != "other" {
		f.t.Fatalf("got incarnation ids %v", state.ReplicaIncarnations)
	}
	return b.until("another incarnation", func(image *metadata.Image) bool {
		return image.Topic("orders").Partitions[0].ReplicaIncarnation(0) == next
	})
}

// testLostLog checks that a leader that reports the loss of its log is no longer the leader or in
// sync, and that its replica gets a new incarnation id, so that it copies the log again. The other
// in-sync replica must remain.
func testLostLog(f *fixture) {
	f.topic("orders", 1)
	f.assign(orders(0), 0, 1)
	b := f.run(0, f.config)
	b.until("up", up(0))
	state := f.reportLost(b, f.ledBy0(b, 0, 1))
	want := []placement.InSyncReplica{{Broker: 1, Epoch: 1, Directory: "disk-1"}}
	if state.Leader != placement.NoLeader || state.LeaderEpoch != 4 || state.Serving ||
		!cmp.Equal(state.ISR, want) {
		f.t.Errorf("got state %+v, want no leader in epoch 4, and ISR %v", state, want)
	}
	image := f.waitForNewIncarnation(b, state)
	if p := image.Topic("orders").Partitions[0]; p.Leader != placement.NoLeader ||
		p.LeaderEpoch != 4 {
		f.t.Errorf("got partition %+v in the metadata", p)
	}
}

// testLastLostLog checks that the only in-sync replica, after it has lost its log, remains in the
// ISR as a member that no clean election elects.
func testLastLostLog(f *fixture) {
	f.topic("orders", 1)
	f.assign(orders(0), 0, 1)
	b := f.run(0, f.config)
	b.until("up", up(0))
	state := f.reportLost(b, f.ledBy0(b, 0))
	if state.Leader != placement.NoLeader || state.LeaderEpoch != 4 {
		f.t.Errorf("got leader %d in epoch %d, want none in epoch 4", state.Leader, state.LeaderEpoch)
	}
	if state.Serving {
		f.t.Errorf("got state %+v, want a partition that is not served", state)
	}
	if len(state.ISR) != 1 {
		f.t.Fatalf("got ISR %+v, want one member", state.ISR)
	}
	if member := state.ISR[0]; !member.LostLog() || member.Broker != 0 {
		f.t.Errorf("got ISR member %+v, want the lost log of broker 0", member)
	}
	f.waitForNewIncarnation(b, state)
	decision := placement.Decide(f.entry(orders(0)).Placed(), b.brokerStates(),
		placement.Options{})
	if decision.Leader != placement.NoLeader || !cmp.Equal(decision.Lost, []int32{0}) {
		f.t.Errorf("got decision %+v, want no leader", decision)
	}
}
