package peertls

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pki"
)

var cluster = types.NamespacedName{Namespace: "logs", Name: "main"}

// authority returns a peer CA and the objects of a LogCluster with two brokers, of which broker 0
// has TLS.
func authority(t *testing.T) (*pki.Authority, []client.Object) {
	t.Helper()
	ca, _, err := (&pki.Authority{}).Step(time.Now(), pki.Input{Name: "peers", Loaded: true})
	if err != nil {
		t.Fatal(err)
	}
	data, err := ca.Encode()
	if err != nil {
		t.Fatal(err)
	}
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name}
	}
	secure := &coordinationv1.Lease{ObjectMeta: object(v1alpha1.BrokerLeaseName(cluster.Name, 0))}
	secure.Annotations = map[string]string{v1alpha1.AnnotationPeerTLS: "true"}
	return ca, []client.Object{secure,
		&coordinationv1.Lease{ObjectMeta: object(v1alpha1.BrokerLeaseName(cluster.Name, 1))},
		&corev1.Secret{ObjectMeta: object(v1alpha1.PeerCASecretName(cluster.Name)), Data: data}}
}

// serve serves HTTP as a broker with TLS, and responds with the URI of the client.
func serve(t *testing.T, ca *pki.Authority, broker int32) string {
	t.Helper()
	leaf, err := ca.Issue(pki.Request{CommonName: "broker", Server: true, Client: true,
		URIs: []string{v1alpha1.PeerURI(cluster.Namespace, cluster.Name, broker)}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(leaf.Chain, leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	for _, root := range ca.Certificates() {
		roots.AddCert(root)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if len(r.TLS.PeerCertificates) > 0 {
				w.Header().Set("Client", r.TLS.PeerCertificates[0].URIs[0].String())
			}
		}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		ClientCAs: roots, ClientAuth: tls.VerifyClientCertIfGiven}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// TestHTTPPresentsTheOperatorsCertificate: a broker with TLS gets the operator's certificate, and
// must be the broker that was meant. A broker that has not restarted yet has no TLS.
func TestHTTPPresentsTheOperatorsCertificate(t *testing.T) {
	ca, objects := authority(t)
	operator := New(fake.NewClientBuilder().WithObjects(objects...).Build(), nil)
	scheme, transport, err := operator.HTTP(t.Context(), cluster, 0, nil)
	if err != nil || scheme != "https" {
		t.Fatalf("got scheme %q, %v", scheme, err)
	}
	get := func(url string) (client string, err error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return "", err
		}
		return response.Header.Get("Client"), response.Body.Close()
	}
	if name, err := get(serve(t, ca, 0)); err != nil || name != "heartwood://logs/main/operator" {
		t.Errorf("got %q, %v", name, err)
	}
	if _, err := get(serve(t, ca, 1)); err == nil {
		t.Error("another broker was accepted")
	}
	other, _, err := (&pki.Authority{}).Step(time.Now(), pki.Input{Name: "x", Loaded: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(serve(t, other, 0)); err == nil {
		t.Error("a broker with a certificate of another CA was accepted")
	}
	for _, plain := range []int32{1, 2} { // broker 2 has no Lease yet
		scheme, transport, err = operator.HTTP(t.Context(), cluster, plain, http.DefaultTransport)
		if err != nil || scheme != "http" || transport != http.DefaultTransport {
			t.Errorf("broker %d: got %q, %v", plain, scheme, err)
		}
	}
}
