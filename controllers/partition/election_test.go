package partition

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

// brokerUp returns the state of a broker that is up, after its first start or after an unclean
// restart.
func brokerUp(epoch int64, directory string) placement.BrokerState {
	return placement.BrokerState{Liveness: placement.Up, Epoch: epoch, Directory: directory,
		CleanEpoch: -1}
}

// history is a partition with one replica, on broker 0. Each call of elect updates the partition's
// status.
type history struct{ partition v1alpha1.Partition }

func newHistory() *history {
	h := &history{}
	h.partition.Name, h.partition.Namespace = "orders-0", "logs"
	h.partition.Spec = v1alpha1.PartitionSpec{Cluster: "main", Topic: "orders",
		Replicas: []int32{0}}
	h.partition.Status.Leader = -1
	return h
}

// elect runs an election while broker 0 is in the given state and the Topic has the given number of
// partitions. It returns the reason of condition Ready.
func (h *history) elect(state placement.BrokerState, topicPartitions int32) string {
	e := electorate{partition: &h.partition, brokers: map[int32]placement.BrokerState{0: state},
		topicPartitions: topicPartitions}
	h.partition.Status = e.elect().status
	return h.partition.Status.Conditions[0].Reason
}

func (h *history) serve() { h.partition.Status.ServingEpoch = new(h.partition.Status.LeaderEpoch) }

// TestPreferredElectionIsRequestedOnce: an annotation takes effect only if its value is the current
// leader epoch.
func TestPreferredElectionIsRequestedOnce(t *testing.T) {
	h := newHistory()
	h.partition.Status.LeaderEpoch = 5
	for value, want := range map[string]bool{"": false, "4": false, "5": true, "6": false} {
		h.partition.Annotations = map[string]string{v1alpha1.AnnotationElectPreferred: value}
		if got := (electorate{partition: &h.partition}).preferredRequested(); got != want {
			t.Errorf("annotation %q in epoch 5: got requested %t, want %t", value, got, want)
		}
	}
}

// expect checks the leader, the leader epoch and the broker epoch of the only in-sync replica.
func (h *history) expect(t *testing.T, leader, epoch int32, brokerEpoch int64) {
	t.Helper()
	status := h.partition.Status
	if status.Leader != leader || status.LeaderEpoch != epoch {
		t.Errorf("got leader %d, leader epoch %d; want %d, %d", status.Leader, status.LeaderEpoch,
			leader,
			epoch)
	}
	if len(status.ISR) != 1 || status.ISR[0].Broker != 0 ||
		status.ISR[0].BrokerEpoch != brokerEpoch {
		t.Errorf("got isr %+v, want broker 0 with broker epoch %d", status.ISR, brokerEpoch)
	}
}

func reason(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got reason %s, want %s", got, want)
	}
}

func TestElectionsOverThePartitionsLifetime(t *testing.T) {
	h := newHistory()
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	if h.partition.Status.LeaderEpoch != 0 {
		t.Errorf("before any election: got leader epoch %d, want 0", h.partition.Status.LeaderEpoch)
	}
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 1, 1)
	h.serve()
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 1, 1)

	// The broker fails: the leader epoch grows, so that writes of the failed leader are rejected.
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)

	// The broker returns with the next broker epoch and the same disk.
	reason(t, h.elect(brokerUp(2, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 3, 2)

	// The broker restarts so fast that the operator never observes it as down.
	h.serve()
	reason(t, h.elect(brokerUp(3, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 4, 3)

	// The Topic is deleted and created again.
	reason(t, h.elect(brokerUp(3, "disk"), 0), v1alpha1.ReasonRetained)
	h.expect(t, -1, 5, 3)
	reason(t, h.elect(brokerUp(3, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 6, 3)
}

func TestBrokerOfUnknownLivenessKeepsLeadershipAndGainsNone(t *testing.T) {
	unknown := func(epoch int64, directory string) placement.BrokerState {
		broker := brokerUp(epoch, directory)
		broker.Liveness = placement.Unknown
		return broker
	}
	h := newHistory()
	reason(t, h.elect(unknown(1, "disk"), 1), v1alpha1.ReasonLeaderOffline)
	h.elect(brokerUp(1, "disk"), 1)
	h.serve()
	reason(t, h.elect(unknown(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 1, 1)
	// The broker has a later broker epoch than the one that was elected.
	reason(t, h.elect(unknown(2, "disk"), 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)
	reason(t, h.elect(unknown(1, "disk"), 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)
}

func TestBrokerWithAReplacedDiskIsNotElected(t *testing.T) {
	h := newHistory()
	h.elect(brokerUp(1, "old"), 1)
	h.elect(placement.BrokerState{}, 1)
	reason(t, h.elect(brokerUp(2, "new"), 1), v1alpha1.ReasonReplicaLost)
	h.expect(t, -1, 2, 1)

	// The old disk returns.
	reason(t, h.elect(brokerUp(3, "old"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 3, 3)

	// The broker's Lease does not name its disk once. The known disk is kept.
	h.elect(brokerUp(3, ""), 1)

	// The disk is replaced again, and the operator did not observe the broker as down. Only an
	// annotation with the id of the present disk takes effect.
	reason(t, h.elect(brokerUp(4, "new"), 1), v1alpha1.ReasonReplicaLost)
	h.partition.Annotations = map[string]string{v1alpha1.AnnotationAcceptDataLoss: "another"}
	reason(t, h.elect(brokerUp(4, "new"), 1), v1alpha1.ReasonReplicaLost)
	h.partition.Annotations[v1alpha1.AnnotationAcceptDataLoss] = "new"
	reason(t, h.elect(brokerUp(4, "new"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 5, 4)
}

// TestElectionInvariants runs random sequences of broker states. The leader epoch must never
// decrease, and must grow with each change of the leader or of its broker epoch. The leader must be
// up and have the records. A repeated election must change nothing.
func TestElectionInvariants(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 200 {
		h := newHistory()
		epoch, disk := int64(1), "a"
		for range 50 {
			state := placement.BrokerState{}
			if random.IntN(3) > 0 {
				if random.IntN(2) == 0 { // the broker restarts, sometimes with another disk
					epoch, disk = epoch+1, []string{"a", "b"}[random.IntN(10)/9]
				}
				state = brokerUp(epoch, disk)
				if random.IntN(5) == 0 {
					state.Liveness = placement.Unknown
				}
			}
			before := *h.partition.Status.DeepCopy()
			h.elect(state, int32(random.IntN(5)))
			after := h.partition.Status
			checkInvariants(t, before, after, state)
			h.elect(state, 1) // elects a leader if the previous call had no Topic
			again := *h.partition.Status.DeepCopy()
			h.elect(state, 1)
			if !equality.Semantic.DeepEqual(again, h.partition.Status) {
				t.Fatalf("a repeated election changed the status (-first +repeated): %s",
					cmp.Diff(again, h.partition.Status))
			}
			if random.IntN(2) == 0 {
				h.serve()
			}
		}
	}
}

func checkInvariants(t *testing.T, before, after v1alpha1.PartitionStatus,
	state placement.BrokerState) {
	t.Helper()
	sameLeader := before.Leader == after.Leader &&
		equality.Semantic.DeepEqual(before.ISR, after.ISR)
	switch {
	case sameLeader && before.LeaderEpoch != after.LeaderEpoch:
		t.Fatalf("the leader epoch changed without a change of leader or ISR: %+v to %+v", before, after)
	case !sameLeader && after.LeaderEpoch != before.LeaderEpoch+1:
		t.Fatalf("leader or ISR changed, but the leader epoch did not grow by one: %+v to %+v", before, after)
	case after.Leader >= 0 && state.Liveness == placement.Down:
		t.Fatalf("the leader is down: %+v", after)
	case after.LeaderEpoch > before.LeaderEpoch && after.Leader >= 0 && state.Liveness != placement.Up:
		t.Fatalf("a broker of unknown liveness was elected: %+v to %+v", before, after)
	case after.Leader >= 0 && (after.ISR[0].BrokerEpoch != state.Epoch ||
		after.LeaderDirectory != state.Directory):
		t.Fatalf("the leader has another broker epoch or disk than the broker that is up: %+v, broker %+v", after, state)
	case before.LeaderDirectory != "" && before.LeaderDirectory != after.LeaderDirectory:
		t.Fatalf("the leader lacks the records: %+v to %+v", before, after)
	}
}

// TestLeaderWithAFailedLogIsNotReady: a leader whose disk has failed clears servingEpoch. It
// remains the leader, as no other broker has the records. The Partition must not be Ready until the
// leader serves again.
func TestLeaderWithAFailedLogIsNotReady(t *testing.T) {
	h := newHistory()
	h.elect(brokerUp(1, "disk"), 1)
	h.serve()
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonReady)
	h.partition.Status.ServingEpoch = nil
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 1, 1)
	if h.partition.Ready() {
		t.Error("the Partition is Ready while its leader does not serve")
	}
	h.serve()
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 1, 1)
}

// TestNewReplicaGetsAnIncarnationID: each added replica gets a new incarnation id, even if its
// broker was a replica before. A replica that remains keeps its id. A repeated election changes no
// id.
func TestNewReplicaGetsAnIncarnationID(t *testing.T) {
	h := newHistory()
	elections := 0
	decide := func(replicas ...int32) string {
		t.Helper()
		h.partition.Spec.Replicas = replicas
		brokers := map[int32]placement.BrokerState{}
		for _, id := range h.partition.Brokers() {
			brokers[id] = brokerUp(1, "disk")
		}
		for range 2 {
			elections++
			e := electorate{partition: &h.partition, brokers: brokers, topicPartitions: 1,
				replicaIncarnation: strconv.Itoa(elections)}
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
			t.Errorf("replicas %v: got incarnation ids%s, want%s", step.replicas, got, step.want)
		}
	}
	// The Partition was created by a version without incarnation ids: the remaining replicas must
	// get none.
	h.partition.Status.Assignments = nil
	if got := decide(0, 1, 2); got != "" {
		t.Errorf("got incarnation ids%s for existing replicas, want none", got)
	}
}
