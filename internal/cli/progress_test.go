package cli

import (
	"bytes"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestProgressOfRebalanceAndCertificates(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ago := func(after time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(after)} }
	expiry := func(after time.Duration) *v1alpha1.CertificateExpiry {
		return &v1alpha1.CertificateExpiry{Certificate: "peer.1", Time: *ago(after)}
	}
	run := func(phase v1alpha1.RebalancePhase, message string) *v1alpha1.RebalanceStatus {
		return &v1alpha1.RebalanceStatus{Phase: phase, Message: message,
			Trigger: v1alpha1.TriggerOnScale, Moves: 12, MovesDone: 3, BytesDone: 1 << 30,
			BytesTotal: 4 << 30, EstimatedCompletionTime: ago(5 * time.Minute),
			CompletionTime: ago(-3 * time.Hour)}
	}
	const half = " (OnScale), 3 of 12 moves done, 1 GiB of 4 GiB copied"
	for want, st := range map[string]status{
		"": {Rebalance: &v1alpha1.RebalanceStatus{Phase: v1alpha1.RebalanceIdle}},
		"Rebalance: Moving" + half + ", ends in 5m: Copies orders/1.\n": {
			Rebalance: run(v1alpha1.RebalanceMoving, "Copies orders/1.")},
		"Rebalance: Cancelled" + half + ", ended 3h ago\n": {
			Rebalance: run(v1alpha1.RebalanceCancelled, "")},
		"Rebalance: Blocked, 0 of 0 moves done, 0 B of 0 B copied: Too few racks.\n": {
			Rebalance: &v1alpha1.RebalanceStatus{Phase: v1alpha1.RebalanceBlocked,
				Message: "Too few racks."}},
		"Certificates: the first to expire is peer.1, in 60d (2026-12-31)\n": {
			NextCertificateExpiry: expiry(60 * 24 * time.Hour)},
		"Certificates: peer.1 expired 2d ago (2026-10-30)\n": {
			NextCertificateExpiry: expiry(-48 * time.Hour)},
	} {
		var got bytes.Buffer
		if printProgress(&got, &st, now); got.String() != want {
			t.Errorf("got %q, want %q", got.String(), want)
		}
	}
}
