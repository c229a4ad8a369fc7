package health

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// certificates returns the finding of a certificate that has expired. It is left out if a condition
// reports it. The operator decides the condition, so a condition is outdated if it does not run.
func certificates(in Input) []Finding {
	c, next := in.Cluster, in.Cluster.Status.NextCertificateExpiry
	if next == nil || in.Now.Before(next.Time.Time) {
		return nil
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionCertificatesReady)
	if ready != nil && ready.Reason == v1alpha1.ReasonCertificateExpired {
		return nil
	}
	return []Finding{{Critical, "LogCluster " + c.Name, v1alpha1.ReasonCertificateExpired,
		fmt.Sprintf("Certificate %s expired at %s, and connections that verify it fail. The operator "+
			"renews its own certificates before they expire, so it probably does not run. Renew a "+
			"certificate of your own in its Secret or with its issuer.", next.Certificate,
			next.Time.UTC().Format(time.RFC3339)), checkOperator}}
}
