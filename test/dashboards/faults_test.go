//go:build dashboards

package dashboards

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expiring creates a LogCluster whose listeners have certificates from users that expire soon. The
// LogCluster has no broker, because no controller observes its StatefulSet. So the operator reports
// its rollout as stuck after 10 minutes.
func (w *world) expiring(p *prometheus) {
	for name, left := range map[string]time.Duration{"soon": 10 * 24 * time.Hour,
		"now": 24 * time.Hour} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace},
			Data: serverSecret(w.t, left)}
		if err := w.api.Create(w.t.Context(), secret); err != nil {
			w.t.Error(err)
		}
	}
	w.apply(`
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: expiring}
spec:
  brokers: 1
  listeners:
    - {name: soon, port: 9092, tls: {secretName: soon}}
    - {name: now, port: 9093, tls: {secretName: now}}
`)
	p.until(2*time.Minute, "expiring", "HeartwoodCertificateExpiresSoon",
		"HeartwoodCertificateExpiring", "HeartwoodBrokerNotReady")
	p.until(12*time.Minute, "expiring", "HeartwoodRolloutStuck")
}

// invalid creates a LogCluster whose StatefulSet the API server refuses.
func (w *world) invalid(p *prometheus) {
	w.apply(`
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: invalid}
spec:
  brokers: 1
  resources: {requests: {no resource: "1"}}
`)
	p.until(time.Minute, "invalid", "HeartwoodSpecNotApplied")
}
