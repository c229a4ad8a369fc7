package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/test/kit/seed"
)

// incarnations gives each replica an incarnation id.
func incarnations(p Partition) Partition {
	p.ReplicaIncarnations = map[int32]string{}
	for _, id := range p.Replicas {
		p.ReplicaIncarnations[id] = "i"
	}
	return p
}

func TestDiscardLeavesEnoughReplicasInSync(t *testing.T) {
	type brokers = map[int32]BrokerState
	all := brokers{0: up(0), 1: up(1), 2: up(2)}
	for name, test := range map[string]struct {
		isr     string
		min     int
		brokers brokers
		want    bool
	}{
		"two others, two needed":         {"012", 2, all, true},
		"one other, two needed":          {"01", 2, all, false},
		"one other, one needed":          {"01", 1, all, true},
		"the only one":                   {"0", 1, all, false},
		"the only one, two needed":       {"0", 2, all, false},
		"two others, three needed":       {"012", 3, all, false},
		"not in sync, one needed":        {"12", 2, all, true},
		"not in sync, fewer than needed": {"1", 2, all, true},
		"another is down":                {"012", 2, brokers{0: up(0), 1: up(1)}, false},
		"another is leaving":             {"012", 2, brokers{1: up(1), 2: up(2, leaving)}, false},
		"another has restarted":          {"012", 2, brokers{1: up(1), 2: up(2, cleanRestart)}, false},
		"another may be down":            {"012", 2, brokers{1: up(1), 2: up(2, unknown)}, false},
	} {
		p := incarnations(led("012", test.isr))
		next := DiscardLog(p, Discard{Broker: 0, Incarnation: "i", Next: "j", MinInSync: test.min},
			test.brokers)
		discarded := next.ReplicaIncarnations[0] == "j"
		if discarded != test.want || discarded && slices.Contains(ids(next.ISR), 0) {
			t.Errorf("%s: got %+v, want discarded %v", name, next, test.want)
		}
	}
	p := incarnations(led("012", "012"))
	if next := DiscardLog(p, Discard{Broker: 0, Incarnation: "earlier", Next: "j"},
		all); next.ReplicaIncarnations[0] != "i" {
		t.Error("the log of an earlier incarnation was discarded")
	}
}

// TestSimultaneousDiscards makes all brokers request the discard of their logs, in random order. As
// many replicas as the partition needs must remain in sync.
func TestSimultaneousDiscards(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 1000 {
		p, brokers := Partition{Leader: NoLeader, LeaderEpoch: 5}, map[int32]BrokerState{}
		minInSync := 1 + random.IntN(4)
		for id := range int32(1 + random.IntN(5)) {
			p.Replicas = append(p.Replicas, id)
			brokers[id] = up(id)
			if random.IntN(4) > 0 {
				p.ISR = append(p.ISR, InSyncReplica{Broker: id, Epoch: 1, Directory: disk(id)})
			}
		}
		p = incarnations(p)
		want := min(minInSync, len(p.ISR))
		for _, id := range random.Perm(len(p.Replicas)) {
			p = DiscardLog(p, Discard{Broker: int32(id), Incarnation: "i", Next: fmt.Sprint(id),
				MinInSync: minInSync}, brokers)
		}
		if len(p.ISR) < want {
			t.Fatalf("%d replicas are in sync, want %d: %+v", len(p.ISR), want, p)
		}
	}
}

// TestRefusedLeaderHandsOver checks that a damaged leader that the partition needs does not block
// the copy of another replica.
func TestRefusedLeaderHandsOver(t *testing.T) {
	all := map[int32]BrokerState{0: up(0), 1: up(1), 2: up(2)}
	request := Discard{Broker: 0, Incarnation: "i", Next: "j", MinInSync: 2}
	p := incarnations(led("012", "01"))
	next := DiscardLog(p, request, all)
	want := p.clone()
	want.Leader, want.LeaderEpoch, want.LeaderDirectory = 1, p.LeaderEpoch+1, disk(1)
	if diff := cmp.Diff(want, next); diff != "" {
		t.Error(diff)
	}
	if again := DiscardLog(next, request, all); again.LeaderEpoch != next.LeaderEpoch {
		t.Errorf("the request of a follower changed %+v", again)
	}
	delete(all, 2)
	if next := DiscardLog(p, request, all); next.Leader != 0 || request.Changes(p, all) {
		t.Errorf("got %+v, but no replica is being copied", next)
	}
}
