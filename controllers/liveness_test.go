package controllers

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// leaseAt is a Lease of 6 s, renewed at the time that the broker's clock shows.
func leaseAt(holder string, renewed time.Time, transitions int32) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationDirectory: "disk-a"}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: new(int32(6)),
			RenewTime: &metav1.MicroTime{Time: renewed}, LeaseTransitions: &transitions,
		},
	}
}

func TestABrokerLivesForALeaseAfterItWasSeenToRenew(t *testing.T) {
	type look struct {
		at      time.Duration // after noon, our clock
		holder  string
		renewed time.Duration // after noon, the broker's clock
		alive   bool
	}
	for name, looks := range map[string][]look{
		"renewed, then silent":        {{0, "a", 0, true}, {5 * time.Second, "a", 0, true}, {6 * time.Second, "a", 0, false}},
		"renewed in time":             {{0, "a", 0, true}, {4 * time.Second, "a", 4 * time.Second, true}, {9 * time.Second, "a", 4 * time.Second, true}},
		"silent, then back":           {{0, "a", 0, true}, {9 * time.Second, "a", 0, false}, {20 * time.Second, "a", 20 * time.Second, true}},
		"stopped in order":            {{0, "a", 0, true}, {time.Second, "", 0, false}},
		"long dead at the first look": {{0, "a", -time.Hour, false}, {time.Second, "a", -time.Hour, false}},
		// The clocks differ by a minute: only the first look, which has nothing else to go by, may be wrong.
		"its clock lags": {{0, "a", -time.Minute, false}, {2 * time.Second, "a", -58 * time.Second, true},
			{7 * time.Second, "a", -58 * time.Second, true}, {8 * time.Second, "a", -58 * time.Second, false}},
		"its clock leads": {{0, "a", time.Minute, true}, {5 * time.Second, "a", time.Minute, true}, {6 * time.Second, "a", time.Minute, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen sighting
			for _, look := range looks {
				seen = observe(seen, leaseAt(look.holder, noon.Add(look.renewed), 3), noon.Add(look.at))
				if seen.state.alive != look.alive {
					t.Errorf("%s after noon: alive %v, want %v", look.at, seen.state.alive, look.alive)
				}
			}
		})
	}
}

func TestASightingTellsIncarnationAndDisk(t *testing.T) {
	seen := observe(sighting{}, leaseAt("a", noon, 7), noon)
	if want := (brokerState{alive: true, epoch: 7, directory: "disk-a"}); seen.state != want {
		t.Errorf("state %+v, want %+v", seen.state, want)
	}
}

func TestALeaseThatSaysNothingIsNoBroker(t *testing.T) {
	if seen := observe(sighting{}, &coordinationv1.Lease{}, noon); seen.state != (brokerState{}) {
		t.Errorf("state %+v of an empty lease", seen.state)
	}
}

func TestLeaseNamesAreReadAsTheyAreWritten(t *testing.T) {
	for _, cluster := range []string{"main", "a-broker-7", "broker"} {
		for _, broker := range []int32{0, 7, 999} {
			gotCluster, gotBroker, ok := parseLeaseName(v1alpha1.BrokerLeaseName(cluster, broker))
			if !ok || gotCluster != cluster || gotBroker != broker {
				t.Errorf("%s %d: read as %s %d, %v", cluster, broker, gotCluster, gotBroker, ok)
			}
		}
	}
	for _, name := range []string{"", "main", "main-broker-", "main-broker-x", "main-broker-+1", "main-broker--1", "main-broker-01", "main-broker-99999999999"} {
		if cluster, broker, ok := parseLeaseName(name); ok {
			t.Errorf("%q is no broker's, and was read as %s %d", name, cluster, broker)
		}
	}
}
