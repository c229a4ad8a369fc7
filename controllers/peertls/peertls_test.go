package peertls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pki"
)

var demo = types.NamespacedName{Namespace: "ns", Name: "demo"}

// secrets is a reader of one Secret, which contains a peer CA.
type secrets struct {
	client.Reader
	secret corev1.Secret
}

func (s *secrets) Get(_ context.Context, key client.ObjectKey, into client.Object,
	_ ...client.GetOption) error {
	secret, ok := into.(*corev1.Secret)
	if !ok || key.Name != v1alpha1.PeerCASecretName(demo.Name) || key.Namespace != demo.Namespace {
		return errors.New("another object was read")
	}
	*secret = *s.secret.DeepCopy()
	return nil
}

// authority creates a CA and stores it in the Secret.
func (s *secrets) authority(t *testing.T, version string, now time.Time) *pki.Authority {
	t.Helper()
	a, _, err := (&pki.Authority{}).Step(now, pki.Input{Name: "peers", Loaded: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.secret.Data, err = a.Encode(); err != nil {
		t.Fatal(err)
	}
	s.secret.ResourceVersion = version
	return a
}

// leaf issues a certificate with a URI.
func leaf(t *testing.T, a *pki.Authority, uri string, server bool) tls.Certificate {
	t.Helper()
	issued, err := a.Issue(pki.Request{CommonName: "broker", URIs: []string{uri}, Server: server,
		Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(issued.Chain, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// connect performs a handshake with a server that uses the given certificate. It returns the
// client's certificate and the client's error.
func connect(t *testing.T, config *tls.Config, server tls.Certificate) (*x509.Certificate, error) {
	t.Helper()
	// A net.Pipe has no buffer: a client that refuses the certificate sends an alert while the server
	// still writes, so each would wait for the other.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var seen *x509.Certificate
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		accepted := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{server},
			ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12})
		if accepted.Handshake() == nil {
			seen = accepted.ConnectionState().PeerCertificates[0]
		}
	}()
	err = tls.Client(near, config).Handshake()
	_ = near.Close()
	<-done
	return seen, err
}

// TestOperatorVerifiesTheBroker checks that only a server certificate of the peer CA with this
// broker's id is accepted, because a pod's address may belong to another pod by now.
func TestOperatorVerifiesTheBroker(t *testing.T) {
	reader := &secrets{}
	own := reader.authority(t, "1", time.Now())
	config, err := New(reader, nil).Config(t.Context(), demo, 2)
	if err != nil {
		t.Fatal(err)
	}
	uri := v1alpha1.PeerURI("ns", "demo", 2)
	seen, err := connect(t, config, leaf(t, own, uri, true))
	if err != nil {
		t.Fatalf("the broker: %v", err)
	}
	if len(seen.URIs) != 1 || seen.URIs[0].String() != v1alpha1.OperatorURI("ns", "demo") {
		t.Errorf("the operator's certificate has the URIs %v", seen.URIs)
	}
	foreign := (&secrets{}).authority(t, "1", time.Now())
	for name, certificate := range map[string]tls.Certificate{
		"another broker":     leaf(t, own, v1alpha1.PeerURI("ns", "demo", 3), true),
		"another LogCluster": leaf(t, own, v1alpha1.PeerURI("ns", "other", 2), true),
		"another CA":         leaf(t, foreign, uri, true),
		"not a server":       leaf(t, own, uri, false),
	} {
		if _, err := connect(t, config, certificate); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestOperatorCertificateFollowsTheCA checks that the operator issues a new certificate only if the
// CA has changed, or if two thirds of the certificate's lifetime have passed.
func TestOperatorCertificateFollowsTheCA(t *testing.T) {
	reader, now := &secrets{}, time.Now()
	reader.authority(t, "1", now)
	c := New(reader, func(string) time.Time { return now })
	issue := func() string {
		config, err := c.Config(t.Context(), demo, 0)
		if err != nil {
			t.Fatal(err)
		}
		return string(config.Certificates[0].Certificate[0])
	}
	first := issue()
	if now = now.Add(59 * 24 * time.Hour); issue() != first {
		t.Error("the certificate was issued again too early")
	}
	now = now.Add(2 * 24 * time.Hour)
	second := issue()
	if second == first {
		t.Error("the certificate was not renewed after 61 of 90 days")
	}
	reader.authority(t, "2", now)
	if issue() == second {
		t.Error("the certificate is still one of the previous CA")
	}
}

func TestInvalidCAIsReported(t *testing.T) {
	reader := &secrets{secret: corev1.Secret{Data: map[string][]byte{"x": nil}}}
	if _, err := New(reader, nil).Config(t.Context(), demo, 0); err == nil ||
		!strings.Contains(err.Error(), "peer CA") {
		t.Errorf("got %v", err)
	}
}
