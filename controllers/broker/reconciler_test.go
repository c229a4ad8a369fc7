package broker

import (
	"bytes"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/peertls"
	"heartwood.dev/heartwood/internal/pki"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// TestCertificateIsForgottenWithTheLease checks that the operator stores its certificate for a
// LogCluster only while Leases of brokers exist. The garbage collector deletes the Leases with the
// LogCluster.
func TestCertificateIsForgottenWithTheLease(t *testing.T) {
	cluster := types.NamespacedName{Namespace: "space", Name: "main"}
	authority, _, err := (&pki.Authority{}).Step(time.Now(), pki.Input{Name: "peers", Loaded: true})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "space",
		Name: v1alpha1.PeerCASecretName("main")}}
	if secret.Data, err = authority.Encode(); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "space",
		Name:   v1alpha1.BrokerLeaseName("main", 0),
		Labels: map[string]string{v1alpha1.LabelCluster: "main"}},
		Spec: coordinationv1.LeaseSpec{LeaseTransitions: new(int32(1))}}
	c := fakeapi.Builder(t, secret, lease).Build()
	r := &Reconciler{Client: c, Live: c, TLS: peertls.New(c, nil),
		Brokers: brokerstate.NewTracker(c, c), racks: newRacks(c, c),
		isolation:   &isolation{Client: c, live: c, brokers: brokerstate.NewTracker(c, c)},
		endpoints:   &endpoints{Client: c, nodes: c},
		connections: newConnections(nil)}
	certificate := func() []byte {
		t.Helper()
		if _, err := r.Reconcile(t.Context(),
			ctrl.Request{NamespacedName: client.ObjectKeyFromObject(lease)}); err != nil {
			t.Fatal(err)
		}
		config, err := r.TLS.Config(t.Context(), cluster, 0)
		if err != nil {
			t.Fatal(err)
		}
		return config.Certificates[0].Certificate[0]
	}
	first := certificate()
	if !bytes.Equal(certificate(), first) {
		t.Error("the certificate was issued again while the Lease exists")
	}
	if err := c.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(certificate(), first) {
		t.Error("the certificate is still stored after the deletion of the Lease")
	}
}
