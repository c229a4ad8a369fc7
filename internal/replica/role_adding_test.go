package replica

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestLeaderKnowsAddedReplicas checks that a leader distinguishes replicas that a reassignment adds
// from replicas that return, because different rate limits apply to them.
func TestLeaderKnowsAddedReplicas(t *testing.T) {
	image := metadata.NewImage("ours", metadata.CleanerBudget{},
		[]metadata.Broker{{ID: 0}, {ID: 1}, {ID: 2}}, nil)
	p := &metadata.Partition{Leader: 0, Replicas: []int32{0, 1, 2}, Target: []int32{2, 0}}
	for node, want := range [][]int32{{2}, nil, nil} {
		r := newRole(image, &metadata.Topic{}, p, int32(node))
		if !slices.Equal(r.adding, want) {
			t.Errorf("broker %d: got %v, want %v", node, r.adding, want)
		}
	}
}
