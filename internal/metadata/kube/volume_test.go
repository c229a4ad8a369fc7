package kube

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// TestLeaseContainsTheReportedVolume checks that the Lease contains a report that the store
// received before it registered. An incarnation that has not measured its volume must remove the
// previous incarnation's report.
func TestLeaseContainsTheReportedVolume(t *testing.T) {
	store := &Store{}
	k := newKeeper(nil, Options{Cluster: "main"}, metadata.Broker{})
	k.volume = store.reportedVolume
	want := v1alpha1.BrokerVolume{Pressure: "Reject", UsedPercent: 93, TotalBytes: 10 << 30}
	store.ReportVolume(want)
	lease := &coordinationv1.Lease{}
	k.fill(lease, 1)
	got := v1alpha1.ReadRegistration(lease).MeasuredVolume()
	if got == nil || *got != want || !got.Full() {
		t.Errorf("volume in the lease: %+v, want %+v", got, want)
	}
	newKeeper(nil, Options{Cluster: "main"}, metadata.Broker{}).fill(lease, 2)
	if got = v1alpha1.ReadRegistration(lease).MeasuredVolume(); got != nil || got.Full() {
		t.Errorf("volume in the lease of a broker that has not measured it: %+v", got)
	}
}
