package kube

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

func TestLeaseContainsTheReportedScrub(t *testing.T) {
	store := &Store{}
	k := newKeeper(nil, Options{Cluster: "main"}, metadata.Broker{})
	k.scrub = store.reportedScrub
	lease := &coordinationv1.Lease{}
	k.fill(lease, 1)
	if got := v1alpha1.ReadRegistration(lease).ReadScrub(); got != nil {
		t.Errorf("scrub in the lease of a broker that has not reported it: %+v", got)
	}
	store.ReportScrub(v1alpha1.BrokerScrub{State: v1alpha1.ScrubStateRunning, Damaged: 3,
		Findings: []v1alpha1.ScrubFinding{{File: "cleaner-history", Problem: "line 3"}}})
	k.fill(lease, 2)
	got := v1alpha1.ReadRegistration(lease).ReadScrub()
	if got == nil || got.Damaged != 3 || len(got.Findings) != 1 {
		t.Errorf("scrub in the lease: %+v", got)
	}
}
