package controllers

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/seed"
)

func living(epoch int64, directory string) placement.BrokerState {
	return placement.BrokerState{Liveness: placement.Up, Epoch: epoch, Directory: directory,
		CleanEpoch: -1}
}

// history is a partition of broker 0 and what was elected so far.
type history struct{ partition v1alpha1.Partition }

func newHistory() *history {
	h := &history{}
	h.partition.Name, h.partition.Namespace = "orders-0", "logs"
	h.partition.Spec = v1alpha1.PartitionSpec{Cluster: "main", Topic: "orders",
		Replicas: []int32{0}}
	h.partition.Status.Leader = -1
	return h
}

// elect elects with broker 0 in a state, as long as the Topic has so many partitions, and returns
// the reason of condition Ready.
func (h *history) elect(state placement.BrokerState, topicPartitions int32) string {
	e := electorate{partition: &h.partition, brokers: map[int32]placement.BrokerState{0: state},
		topicPartitions: topicPartitions}
	h.partition.Status = e.elect().status
	return h.partition.Status.Conditions[0].Reason
}

func (h *history) serve() { h.partition.Status.ServingEpoch = new(h.partition.Status.LeaderEpoch) }

// TestElectPreferredIsAskedOnce: the annotation counts in the leader epoch that it names.
func TestElectPreferredIsAskedOnce(t *testing.T) {
	h := newHistory()
	h.partition.Status.LeaderEpoch = 5
	for value, want := range map[string]bool{"": false, "4": false, "5": true, "6": false} {
		h.partition.Annotations = map[string]string{v1alpha1.AnnotationElectPreferred: value}
		if got := (electorate{partition: &h.partition}).askedHome(); got != want {
			t.Errorf("annotation %q in epoch 5: %v", value, got)
		}
	}
}

// expect compares leader, leader epoch and the incarnation of the only in-sync replica.
func (h *history) expect(t *testing.T, leader, epoch int32, incarnation int64) {
	t.Helper()
	status := h.partition.Status
	if status.Leader != leader || status.LeaderEpoch != epoch {
		t.Errorf("leader %d epoch %d, want %d and %d", status.Leader, status.LeaderEpoch, leader,
			epoch)
	}
	if len(status.ISR) != 1 || status.ISR[0].Broker != 0 ||
		status.ISR[0].BrokerEpoch != incarnation {
		t.Errorf("isr %+v, want broker 0 in incarnation %d", status.ISR, incarnation)
	}
}

func reason(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("reason %s, want %s", got, want)
	}
}

func TestLifeOfAPartition(t *testing.T) {
	h := newHistory()
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	if h.partition.Status.LeaderEpoch != 0 {
		t.Errorf("epoch %d before any election", h.partition.Status.LeaderEpoch)
	}
	reason(t, h.elect(living(1, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 1, 1)
	h.serve()
	reason(t, h.elect(living(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 1, 1)

	// It goes: who writes on under the old epoch is told so.
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)

	// It is back, as another incarnation with the same disk.
	reason(t, h.elect(living(2, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 3, 2)

	// It was restarted so fast that nobody saw it down.
	h.serve()
	reason(t, h.elect(living(3, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 4, 3)

	// The Topic goes and comes back.
	reason(t, h.elect(living(3, "disk"), 0), v1alpha1.ReasonRetained)
	h.expect(t, -1, 5, 3)
	reason(t, h.elect(living(3, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 6, 3)
}

func TestDoubtTakesNothingAndGivesNothing(t *testing.T) {
	doubt := func(epoch int64, directory string) placement.BrokerState {
		standing := living(epoch, directory)
		standing.Liveness = placement.Unknown
		return standing
	}
	h := newHistory()
	reason(t, h.elect(doubt(1, "disk"), 1), v1alpha1.ReasonLeaderOffline)
	h.elect(living(1, "disk"), 1)
	h.serve()
	reason(t, h.elect(doubt(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 1, 1)
	// another incarnation than the one that leads
	reason(t, h.elect(doubt(2, "disk"), 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)
	reason(t, h.elect(doubt(1, "disk"), 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)
}

func TestAnEmptyDiskIsNotElected(t *testing.T) {
	h := newHistory()
	h.elect(living(1, "old"), 1)
	h.elect(placement.BrokerState{}, 1)
	reason(t, h.elect(living(2, "new"), 1), v1alpha1.ReasonReplicaLost)
	h.expect(t, -1, 2, 1)

	// The old disk returns.
	reason(t, h.elect(living(3, "old"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 3, 3)

	// It says nothing of its disk for once; what was known is not forgotten.
	h.elect(living(3, ""), 1)

	// Lost again, also without having been seen down; a consent to another disk does not count, one
	// to this does.
	reason(t, h.elect(living(4, "new"), 1), v1alpha1.ReasonReplicaLost)
	h.partition.Annotations = map[string]string{v1alpha1.AnnotationAcceptDataLoss: "another"}
	reason(t, h.elect(living(4, "new"), 1), v1alpha1.ReasonReplicaLost)
	h.partition.Annotations[v1alpha1.AnnotationAcceptDataLoss] = "new"
	reason(t, h.elect(living(4, "new"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 5, 4)
}

// TestElectionsKeepTheirPromises plays random lives: the epoch never goes back and grows with each
// change of who leads in which incarnation; who leads is up and has the records; deciding again
// changes nothing.
func TestElectionsKeepTheirPromises(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 200 {
		h := newHistory()
		incarnation, disk := int64(1), "a"
		for range 50 {
			state := placement.BrokerState{}
			if random.IntN(3) > 0 {
				if random.IntN(2) == 0 { // another start, perhaps with another disk
					incarnation, disk = incarnation+1, []string{"a", "b"}[random.IntN(10)/9]
				}
				state = living(incarnation, disk)
				if random.IntN(5) == 0 {
					state.Liveness = placement.Unknown
				}
			}
			before := *h.partition.Status.DeepCopy()
			h.elect(state, int32(random.IntN(5)))
			after := h.partition.Status
			checkPromises(t, before, after, state)
			h.elect(state, 1) // may elect, if the Topic was gone
			again := *h.partition.Status.DeepCopy()
			h.elect(state, 1)
			if !equality.Semantic.DeepEqual(again, h.partition.Status) {
				t.Fatalf("deciding again changes the status: %s",
					cmp.Diff(again, h.partition.Status))
			}
			if random.IntN(2) == 0 {
				h.serve()
			}
		}
	}
}

func checkPromises(t *testing.T, before, after v1alpha1.PartitionStatus,
	state placement.BrokerState) {
	t.Helper()
	sameLeader := before.Leader == after.Leader &&
		equality.Semantic.DeepEqual(before.ISR, after.ISR)
	switch {
	case sameLeader && before.LeaderEpoch != after.LeaderEpoch:
		t.Fatalf("a new epoch for nothing: %+v to %+v", before, after)
	case !sameLeader && after.LeaderEpoch != before.LeaderEpoch+1:
		t.Fatalf("another leader without the next epoch: %+v to %+v", before, after)
	case after.Leader >= 0 && state.Liveness == placement.Down:
		t.Fatalf("a dead broker leads: %+v", after)
	case after.LeaderEpoch > before.LeaderEpoch && after.Leader >= 0 && state.Liveness != placement.Up:
		t.Fatalf("a broker whose life is in doubt was elected: %+v to %+v", before, after)
	case after.Leader >= 0 && (after.ISR[0].BrokerEpoch != state.Epoch || after.LeaderDirectory != state.Directory):
		t.Fatalf("another incarnation or disk leads than is up: %+v, up %+v", after, state)
	case before.LeaderDirectory != "" && before.LeaderDirectory != after.LeaderDirectory:
		t.Fatalf("a leader without the records: %+v to %+v", before, after)
	}
}

// A leader whose disk fails takes its word back: nobody is elected in its place, for nobody else
// has the records, and the Partition, and with it the Topic, is not Ready until it serves again.
func TestALeaderWhoseLogFailed(t *testing.T) {
	h := newHistory()
	h.elect(living(1, "disk"), 1)
	h.serve()
	reason(t, h.elect(living(1, "disk"), 1), v1alpha1.ReasonReady)
	h.partition.Status.ServingEpoch = nil
	reason(t, h.elect(living(1, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 1, 1)
	if partitionReady(&h.partition) {
		t.Error("the Partition is Ready, and the Topic with it")
	}
	h.serve()
	reason(t, h.elect(living(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 1, 1)
}

// TestWhoBecomesAReplicaIsAssigned: also who was one before; who stays one keeps its assignment,
// and the next look changes nothing.
func TestWhoBecomesAReplicaIsAssigned(t *testing.T) {
	h := newHistory()
	elections := 0
	decide := func(replicas ...int32) string {
		t.Helper()
		h.partition.Spec.Replicas = replicas
		brokers := map[int32]placement.BrokerState{}
		for _, id := range named(&h.partition) {
			brokers[id] = living(1, "disk")
		}
		for range 2 {
			elections++
			e := electorate{partition: &h.partition, brokers: brokers, topicPartitions: 1,
				assignment: strconv.Itoa(elections)}
			h.partition.Status = e.elect().status
		}
		text := ""
		for _, a := range h.partition.Status.Assignments {
			text += fmt.Sprintf(" %d:%s", a.Broker, a.ID)
		}
		return text
	}
	for _, step := range []struct {
		replicas []int32
		want     string
	}{
		{[]int32{0, 1}, " 0:1 1:1"},
		{[]int32{0, 1, 2}, " 0:1 1:1 2:3"},
		{[]int32{0, 1}, " 0:1 1:1"},
		{[]int32{0, 1, 2}, " 0:1 1:1 2:7"},
	} {
		if got := decide(step.replicas...); got != step.want {
			t.Errorf("replicas %v: assignments%s, want%s", step.replicas, got, step.want)
		}
	}
	h.partition.Status.Assignments = nil // one from before there were names
	if got := decide(0, 1, 2); got != "" {
		t.Errorf("names were made up:%s", got)
	}
}
