package kube

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// TestLeaseBoundsProducerIDs checks that the bound for producer ids in the Lease grows when the
// broker registers with another disk, and that an invalid registration has no bound.
func TestLeaseBoundsProducerIDs(t *testing.T) {
	const ahead = metadata.ProducerIDsAhead
	lease := &coordinationv1.Lease{}
	register := func(directory string, bound, want int64) {
		t.Helper()
		k := newKeeper(nil, Options{Cluster: "main"},
			metadata.Broker{Directory: directory, ProducerIDs: bound})
		k.fill(lease, 1)
		if got := v1alpha1.ReadRegistration(lease).ProducerIDs; got != want {
			t.Errorf("disk %s: got bound %d, want %d", directory, got, want)
		}
	}
	register("a", 100+ahead, 100+ahead)
	register("b", 50+ahead, 100+2*ahead)
	damage(lease)
	register("b", 50+ahead, 50+ahead)
}
