package health

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// unobserved returns the finding that the spec has not been applied. It is a warning if the
// operator has not even observed the spec, and the LogCluster has not changed for longer than
// statusDelay.
func unobserved(in Input) []Finding {
	c := in.Cluster
	if len(c.Status.Conditions) == 0 || c.Status.ObservedGeneration >= c.Generation || c.Paused() {
		return nil
	}
	f := newFinding(Info, "LogCluster "+c.Name, "NotObserved",
		"The operator has not applied the latest spec yet.", "")
	observed := slices.ContainsFunc(c.Status.Conditions,
		func(condition metav1.Condition) bool { return condition.ObservedGeneration >= c.Generation })
	if !observed && in.Now.Sub(changed(c)) > statusDelay {
		f.Severity, f.Next = Warning, checkOperator
		f.Message = "The operator has not observed the latest spec for more than a minute. It " +
			"probably does not run, or does not watch this namespace."
	}
	return []Finding{f}
}

// changed returns the time of the last known change of a LogCluster or its status.
func changed(c *v1alpha1.LogCluster) time.Time {
	last := c.CreationTimestamp.Time
	for _, condition := range c.Status.Conditions {
		if moment := condition.LastTransitionTime.Time; moment.After(last) {
			last = moment
		}
	}
	for _, entry := range c.ManagedFields { // the writes of each client
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// certificates returns the finding that a certificate has expired, unless a condition already
// reports it. The condition alone is not sufficient, because it is outdated while the operator does
// not run.
func certificates(in Input) []Finding {
	c, next := in.Cluster, in.Cluster.Status.NextCertificateExpiry
	if next == nil || in.Now.Before(next.Time.Time) {
		return nil
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionCertificatesReady)
	if ready != nil && ready.Reason == v1alpha1.ReasonCertificateExpired {
		return nil
	}
	return []Finding{newFinding(Critical, "LogCluster "+c.Name, v1alpha1.ReasonCertificateExpired,
		fmt.Sprintf("Certificate %s expired at %s, and connections that verify it fail. The operator "+
			"renews its own certificates before they expire, so it probably does not run. Renew a "+
			"certificate of your own in its Secret or with its issuer.", next.Certificate,
			next.Time.UTC().Format(time.RFC3339)), checkOperator)}
}
