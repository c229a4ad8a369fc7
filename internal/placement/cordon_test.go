package placement

import (
	"slices"
	"testing"
)

// TestCordonedBrokersGetNoReplicas checks that cordoned brokers keep their replicas, and get none
// when partitions are added or the number of replicas is increased, unless there are too few other
// brokers.
func TestCordonedBrokersGetNoReplicas(t *testing.T) {
	brokers := []Broker{{ID: 0}, {ID: 1, Cordoned: true}, {ID: 2}, {ID: 3}}
	assigned, err := Assign(brokers, nil, 0, 20, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, replicas := range assigned {
		if slices.Contains(replicas, 1) {
			t.Fatalf("broker 1 gets a replica: %v", assigned)
		}
	}
	if assigned, err = Assign(brokers, nil, 0, 1, 4); err != nil || len(assigned[0]) != 4 {
		t.Errorf("4 replicas: got %v, %v", assigned, err)
	}
	fitted, err := Fit(brokers, nil, [][]int32{{0, 2}, {1, 0}}, 3)
	if err != nil || slices.Contains(fitted[0], 1) || fitted[1][0] != 1 {
		t.Errorf("fit: got %v, %v", fitted, err)
	}
	if fitted, err = Fit(brokers, nil, [][]int32{{0, 2, 3}}, 4); err != nil ||
		!slices.Contains(fitted[0], 1) {
		t.Errorf("fit with 4 replicas: got %v, %v", fitted, err)
	}
}

// TestCordonedBrokersGetOnlyTheRest checks that, if there are too few brokers that are not
// cordoned, each of them gets a replica of each partition, as far as racks permit.
func TestCordonedBrokersGetOnlyTheRest(t *testing.T) {
	for name, racks := range map[string][]string{
		"no racks":         {"", "", "", "", "", ""},
		"three racks":      {"a", "b", "c", "a", "b", "c"},
		"others in a rack": {"a", "b", "c", "b", "c", "a"}, // brokers 0 and 5 are in this rack
	} {
		var brokers []Broker
		for id, rack := range racks {
			brokers = append(brokers, Broker{ID: int32(id), Rack: rack,
				Cordoned: id != 0 && id != 5})
		}
		want := 2 // the replicas on brokers 0 and 5
		if racks[0] == "a" && racks[5] == "a" {
			want = 1
		}
		assigned, err := Assign(brokers, map[int32]int{0: 90, 5: 90}, 0, 20, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, replicas := range assigned {
			others := 0
			for _, id := range replicas {
				if id == 0 || id == 5 {
					others++
				}
			}
			if others != want {
				t.Errorf("%s: replicas %v, want %d on brokers 0 and 5", name, replicas, want)
			}
		}
	}
}
