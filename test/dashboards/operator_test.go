//go:build dashboards

package dashboards

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"heartwood.dev/heartwood/controllers"
)

// TestOperatorAbsentConcernsActiveOperators checks alert HeartwoodOperatorAbsent. An operator
// without any LogCluster counts as active. An operator that waits for the Lease does not, although
// Prometheus scrapes both.
func TestOperatorAbsentConcernsActiveOperators(t *testing.T) {
	require(t)
	const alert = "HeartwoodOperatorAbsent"
	w := newWorld(t)
	rules, _ := shortRules(t)
	p := w.startPrometheus(rules)
	began := time.Now()
	pause(t.Context(), 10*scrapeInterval) // the alert waits for 4 s
	if p.value(`up{job="operator"}`) != 1 {
		t.Fatal("Prometheus does not scrape the operator")
	}
	// Before the first scrape the series is absent.
	checkHealthy(t, p, span{began.Add(5 * scrapeInterval), time.Now()})
	p.forget(alert)
	w.operator.Stop(t, syscall.SIGTERM)
	w.holdLease()
	w.startOperator(fmt.Sprintf("mount -t tmpfs tmpfs /run\n"+
		"mkdir -p /run/secrets/kubernetes.io/serviceaccount\n"+
		"printf %%s %q > /run/secrets/kubernetes.io/serviceaccount/namespace", w.namespace),
		"--identity=waiting")
	p.until(time.Minute, "", alert)
	const waits = `leader_election_master_status{name="heartwood-operator"} == bool 0`
	if p.value(waits) != 1 {
		t.Error("the alert fired, but Prometheus does not scrape the operator that waits")
	}
}

// holdLease acts as another operator that holds the operators' Lease.
func (w *world) holdLease() {
	w.t.Helper()
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: controllers.OperatorLease},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("another"), AcquireTime: &now,
			RenewTime: &now, LeaseDurationSeconds: ptr.To[int32](3600)},
	}
	if err := w.api.Create(w.t.Context(), lease); err != nil {
		w.t.Fatal(err)
	}
}
