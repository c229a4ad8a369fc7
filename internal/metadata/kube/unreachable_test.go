package kube

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// TestReportOfUnreachablePeersIsWrittenOnlyWhenItChanges checks that the Lease is renewed at once
// for a new report, and only then. The next incarnation must remove the report and the mark of the
// previous one.
func TestReportOfUnreachablePeersIsWrittenOnlyWhenItChanges(t *testing.T) {
	store := &Store{renew: make(chan struct{}, 1)}
	k := newKeeper(nil, Options{Cluster: "main"}, metadata.Broker{})
	k.unreachable = store.reportedUnreachable
	for _, step := range []struct {
		report string
		renews int
	}{{"", 0}, {"2:1", 1}, {"2:1", 0}, {"1:4,2:1", 1}, {"", 1}, {"", 0}, {"1:4", 1}} {
		store.ReportUnreachable(step.report)
		if got := len(store.renew); got != step.renews {
			t.Errorf("report %q: %d renewals, want %d", step.report, got, step.renews)
		}
		for len(store.renew) > 0 {
			<-store.renew
		}
	}
	lease := &coordinationv1.Lease{}
	k.fill(lease, 1)
	if got := v1alpha1.ReadRegistration(lease).Unreachable; got != "1:4" {
		t.Errorf("report in the lease: %q", got)
	}
	lease.Labels[v1alpha1.LabelCluster], lease.Name = "main", v1alpha1.BrokerLeaseName("main", 0)
	advertise("host:9092")(lease)
	lease.Annotations[v1alpha1.AnnotationIsolated] = "1"
	if b, ok := leaseBroker(lease); !ok || !b.Isolated || !b.Leaving {
		t.Errorf("broker of a marked lease: %+v, %t", b, ok)
	}
	newKeeper(nil, Options{Cluster: "main"}, metadata.Broker{}).fill(lease, 2)
	if got := v1alpha1.ReadRegistration(lease).Unreachable; got != "" {
		t.Errorf("the next incarnation has the report %s", got)
	}
	if value, found := lease.Annotations[v1alpha1.AnnotationIsolated]; found {
		t.Errorf("the next incarnation has the mark %s", value)
	}
}
