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

// brokerUp returns a broker that is up after an unclean restart, or its first start.
func brokerUp(epoch int64, directory string) placement.BrokerState {
	return placement.BrokerState{Liveness: placement.Up, Epoch: epoch, Directory: directory,
		CleanEpoch: -1}
}

// history is a partition with one replica, on broker 0, and its elections so far.
type history struct{ partition v1alpha1.Partition }

func newHistory() *history {
	h := &history{}
	h.partition.Name, h.partition.Namespace = "orders-0", "logs"
	h.partition.Spec = v1alpha1.PartitionSpec{Cluster: "main", Topic: "orders",
		Replicas: []int32{0}}
	h.partition.Status.Leader = -1
	return h
}

// elect elects with broker 0 in a state and a Topic of a number of partitions, and returns the
// reason of condition Ready.
func (h *history) elect(state placement.BrokerState, topicPartitions int32) string {
	e := electorate{partition: &h.partition, brokers: map[int32]placement.BrokerState{0: state},
		topicPartitions: topicPartitions}
	h.partition.Status = e.elect().status
	return h.partition.Status.Conditions[0].Reason
}

func (h *history) serve() { h.partition.Status.ServingEpoch = new(h.partition.Status.LeaderEpoch) }

// TestPreferredElectionIsRequestedOnce: the annotation takes effect only in the leader epoch that
// it names.
func TestPreferredElectionIsRequestedOnce(t *testing.T) {
	h := newHistory()
	h.partition.Status.LeaderEpoch = 5
	for value, want := range map[string]bool{"": false, "4": false, "5": true, "6": false} {
		h.partition.Annotations = map[string]string{v1alpha1.AnnotationElectPreferred: value}
		if got := (electorate{partition: &h.partition}).preferredRequested(); got != want {
			t.Errorf("annotation %q in epoch 5: requested %t, want %t", value, got, want)
		}
	}
}

// expect checks the leader, the leader epoch and the broker epoch of the only in-sync replica.
func (h *history) expect(t *testing.T, leader, epoch int32, brokerEpoch int64) {
	t.Helper()
	status := h.partition.Status
	if status.Leader != leader || status.LeaderEpoch != epoch {
		t.Errorf("leader %d, leader epoch %d; want %d, %d", status.Leader, status.LeaderEpoch,
			leader,
			epoch)
	}
	if len(status.ISR) != 1 || status.ISR[0].Broker != 0 ||
		status.ISR[0].BrokerEpoch != brokerEpoch {
		t.Errorf("isr %+v, want broker 0 with broker epoch %d", status.ISR, brokerEpoch)
	}
}

func reason(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("reason %s, want %s", got, want)
	}
}

func TestElectionsOverThePartitionsLifetime(t *testing.T) {
	h := newHistory()
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	if h.partition.Status.LeaderEpoch != 0 {
		t.Errorf("leader epoch %d before any election", h.partition.Status.LeaderEpoch)
	}
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 1, 1)
	h.serve()
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 1, 1)

	// The broker fails: a write with the old epoch is rejected.
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)
	reason(t, h.elect(placement.BrokerState{}, 1), v1alpha1.ReasonLeaderOffline)
	h.expect(t, -1, 2, 1)

	// It returns with the next broker epoch and the same disk.
	reason(t, h.elect(brokerUp(2, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 3, 2)

	// It restarts so fast that it was never observed as down.
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
	// A later broker epoch than the leader's.
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

	// Once it does not name its disk; the known one is kept.
	h.elect(brokerUp(3, ""), 1)

	// The replica is lost again, without its broker having been observed as down. Only a consent to
	// the present disk takes effect.
	reason(t, h.elect(brokerUp(4, "new"), 1), v1alpha1.ReasonReplicaLost)
	h.partition.Annotations = map[string]string{v1alpha1.AnnotationAcceptDataLoss: "another"}
	reason(t, h.elect(brokerUp(4, "new"), 1), v1alpha1.ReasonReplicaLost)
	h.partition.Annotations[v1alpha1.AnnotationAcceptDataLoss] = "new"
	reason(t, h.elect(brokerUp(4, "new"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 5, 4)
}

// TestElectionInvariants runs random sequences: the leader epoch never decreases and grows with
// each change of the leader or its broker epoch; the leader is up and has the records; a repeated
// election changes nothing.
func TestElectionInvariants(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 200 {
		h := newHistory()
		epoch, disk := int64(1), "a"
		for range 50 {
			state := placement.BrokerState{}
			if random.IntN(3) > 0 {
				if random.IntN(2) == 0 { // a restart, sometimes with another disk
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
			h.elect(state, 1) // elects if the Topic did not exist before
			again := *h.partition.Status.DeepCopy()
			h.elect(state, 1)
			if !equality.Semantic.DeepEqual(again, h.partition.Status) {
				t.Fatalf("a repeated election changed the status: %s",
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
		t.Fatalf("new leader epoch, same leader: %+v to %+v", before, after)
	case !sameLeader && after.LeaderEpoch != before.LeaderEpoch+1:
		t.Fatalf("another leader without the next leader epoch: %+v to %+v", before, after)
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

// TestLeaderWithAFailedLogIsNotReady: a leader whose disk fails clears servingEpoch. No other
// broker is elected, as none has the records, and the Partition is not Ready until the leader
// serves again.
func TestLeaderWithAFailedLogIsNotReady(t *testing.T) {
	h := newHistory()
	h.elect(brokerUp(1, "disk"), 1)
	h.serve()
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonReady)
	h.partition.Status.ServingEpoch = nil
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonLeaderStarting)
	h.expect(t, 0, 1, 1)
	if h.partition.Ready() {
		t.Error("the Partition is Ready")
	}
	h.serve()
	reason(t, h.elect(brokerUp(1, "disk"), 1), v1alpha1.ReasonReady)
	h.expect(t, 0, 1, 1)
}

// TestNewReplicaGetsAnIncarnationID: also one that was a replica before. A replica that remains
// keeps its id, and a repeated election changes nothing.
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
			t.Errorf("replicas %v: incarnation ids%s, want%s", step.replicas, got, step.want)
		}
	}
	// a Partition that was created before there were incarnation ids
	h.partition.Status.Assignments = nil
	if got := decide(0, 1, 2); got != "" {
		t.Errorf("incarnation ids were invented:%s", got)
	}
}
