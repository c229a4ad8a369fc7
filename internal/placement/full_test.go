package placement

import (
	"errors"
	"slices"
	"testing"
)

// full returns n brokers, of which those with the given ids have volumes that are almost full.
func full(n int, ids ...int32) []Broker {
	brokers := make([]Broker, n)
	for i := range brokers {
		brokers[i].ID = int32(i)
		brokers[i].Full = slices.Contains(ids, int32(i))
	}
	return brokers
}

func TestFullBrokersGetNoNewReplicas(t *testing.T) {
	assigned, err := Assign(full(4, 1), nil, 0, 100, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, replicas := range assigned {
		if slices.Contains(replicas, 1) {
			t.Fatalf("replicas %v contain the full broker 1", replicas)
		}
	}
	if _, err := Assign(full(4, 1, 2), nil, 0, 1, 3); !errors.Is(err, ErrNotEnoughBrokers) {
		t.Errorf("3 replicas on 2 brokers with space: error %v, want ErrNotEnoughBrokers", err)
	}
}

func TestFitKeepsReplicasOnFullBrokers(t *testing.T) {
	targets, err := Fit(full(4, 0, 1), nil, [][]int32{{0, 1}, {1, 2}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]int32{{0, 1}, {1, 2}}
	for i := range targets {
		for _, id := range want[i] {
			if !slices.Contains(targets[i], id) {
				t.Errorf("partition %d: replicas %v, want those of %v kept", i, targets[i], want[i])
			}
		}
	}
	if slices.Contains(targets[1], 0) {
		t.Errorf("partition 1: replicas %v contain the full broker 0", targets[1])
	}
	if _, err := Fit(full(3, 2), nil, [][]int32{{0, 1}}, 3); !errors.Is(err, ErrNotEnoughBrokers) {
		t.Errorf("a third replica on a full broker: error %v, want ErrNotEnoughBrokers", err)
	}
}
