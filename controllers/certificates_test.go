package controllers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pki"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// secret returns the data of a Secret that LogCluster main owns.
func (f *fixture) secret(g Gomega, name string) map[string][]byte {
	secret := get(g, f, name, &corev1.Secret{})
	g.Expect(metav1.IsControlledBy(secret, get(g, f, "main", &v1alpha1.LogCluster{}))).To(BeTrue())
	return secret.Data
}

// leafIn returns a certificate in Secret main-brokers-tls.
func (f *fixture) leafIn(g Gomega, certificate, key string) *x509.Certificate {
	data := f.secret(g, "main-brokers-tls")
	leaf, err := pki.ParseLeaf(data[certificate], data[key])
	g.Expect(err).NotTo(HaveOccurred())
	return leaf.Certificate
}

// listenerLeaf returns the certificate of the listener named tls.
func (f *fixture) listenerLeaf(g Gomega) *x509.Certificate {
	return f.leafIn(g, "listener.tls.crt", "listener.tls.key")
}

// verify checks that a bundle verifies a certificate for a host.
func (f *fixture) verify(g Gomega, bundle []byte, leaf *x509.Certificate, host string) {
	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(bundle)).To(BeTrue())
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host,
		CurrentTime: ahead.now(f.namespace),
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	g.Expect(err).NotTo(HaveOccurred())
}

// secured creates LogCluster main with the given listeners and peers.
func (f *fixture) secured(peers v1alpha1.Peers, listeners ...v1alpha1.Listener) {
	f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
		Spec: v1alpha1.LogClusterSpec{Brokers: 2, Peers: peers, Listeners: listeners}})
}

// advance moves the namespace's certificate clock forward, and triggers a reconciliation of the
// LogCluster.
func (f *fixture) advance(by time.Duration) {
	ahead.advance(f.namespace, by)
	change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, "test", time.Now().String())
	})
}

// dropListeners replaces the listeners of LogCluster main by a single one without TLS and
// authentication.
func (f *fixture) dropListeners() {
	change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
		cluster.Spec.Listeners = v1alpha1.Listeners{{Name: "kafka", Port: 9092}}
	})
}

// expectNoCondition waits until LogCluster main does not have a condition.
func (f *fixture) expectNoCondition(kind string) {
	Eventually(func(g Gomega) {
		g.Expect(meta.FindStatusCondition(f.clusterConditions()(g), kind)).To(BeNil())
	}).Should(Succeed())
}

var _ = Describe("The certificates of a LogCluster", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	tlsListener := v1alpha1.Listener{Name: "tls", Port: 9093, TLS: &v1alpha1.ListenerTLS{}}

	It("are issued by its own CAs", func(t *testing.T) {
		f.secured(v1alpha1.PeersMutualTLS, tlsListener)
		Eventually(func(g Gomega) {
			bundle := f.secret(g, "main-ca-cert")
			g.Expect(slices.Sorted(maps.Keys(bundle))).To(Equal([]string{"ca.crt", "peer-ca.crt"}),
				"the bundle contains no key")
			for _, content := range bundle {
				g.Expect(string(content)).NotTo(ContainSubstring("PRIVATE KEY"))
			}
			f.verify(g, bundle["ca.crt"], f.listenerLeaf(g),
				"main-bootstrap."+f.namespace+".svc")
			f.verify(g, bundle["ca.crt"], f.listenerLeaf(g),
				"main-broker-1.main-brokers."+f.namespace+".svc")
			peers := f.secret(g, "main-brokers-tls")["peer-ca.crt"]
			leaf := f.leafIn(g, "peer.1.crt", "peer.1.key")
			g.Expect(bundle["peer-ca.crt"]).To(Equal(peers))
			f.verify(g, peers, leaf, "main-broker-1.main-brokers."+f.namespace+".svc")
			f.verify(g, peers, leaf, "main-brokers."+f.namespace+".svc")
			g.Expect(leaf.URIs[0].String()).To(Equal(
				v1alpha1.PeerURI(f.namespace, "main", 1)))
		}).Should(Succeed())
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCertificatesReady)
		Expect(f.secret(Default, "main-brokers-tls")).NotTo(HaveKey("peer.2.crt"))
		Eventually(func(g Gomega) {
			expiries := series(g, "heartwood_certificate_expiry_timestamp_seconds", "namespace",
				f.namespace)
			g.Expect(expiries).To(HaveLen(5), "ca, peer-ca, listener.tls, peer.0 and peer.1")
			next := get(g, f, "main", &v1alpha1.LogCluster{}).Status.NextCertificateExpiry
			g.Expect(next).NotTo(BeNil())
			g.Expect(next.Certificate).To(HavePrefix("listener.tls"))
			g.Expect(float64(next.Time.Unix())).To(Equal(slices.Min(expiries)))
		}).Should(Succeed())
	})

	It("contain the CA of the server with the keys of tokens", func(t *testing.T) {
		listener := tlsListener
		listener.Authentication = []v1alpha1.Authentication{{
			Type: v1alpha1.AuthenticationOAuthBearer, OAuth: &v1alpha1.OAuth{Issuer: "https://idp",
				JWKSURL: "https://idp/keys", Audience: "kafka",
				CA: &v1alpha1.SecretKey{Name: "idp-ca", Key: "ca.crt"}}}}
		f.secured("", listener)
		key := v1alpha1.ListenerOAuthCAKey("tls")
		Eventually(func(g Gomega) {
			// A key without a certificate verifies no server. Without the key, brokers would use the public
			// CAs.
			g.Expect(string(f.secret(g, "main-brokers-tls")[key])).To(Equal("# none\n"))
		}).Should(Succeed())
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonInvalidCertificate, "CA of jwksURL")
		var ca []byte
		Eventually(func(g Gomega) { ca = f.secret(g, "main-ca-cert")["ca.crt"] }).Should(Succeed())
		f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "idp-ca"},
			Data: map[string][]byte{"ca.crt": ca}})
		f.advance(time.Minute)
		Eventually(func(g Gomega) {
			g.Expect(string(f.secret(g, "main-brokers-tls")[key])).To(Equal(string(ca) + "\n"))
		}).Should(Succeed())
	})

	It("are renewed when two thirds of their lifetime have passed", func(t *testing.T) {
		f.secured("", tlsListener)
		var first, ca []byte
		Eventually(func(g Gomega) {
			first, ca = f.listenerLeaf(g).Raw, f.secret(g, "main-ca-cert")["ca.crt"]
		}).Should(Succeed())
		f.advance(50 * 24 * time.Hour)
		Consistently(func(g Gomega) {
			g.Expect(f.listenerLeaf(g).Raw).To(Equal(first))
		}, time.Second).Should(Succeed())
		f.advance(11 * 24 * time.Hour)
		Eventually(func(g Gomega) {
			g.Expect(f.listenerLeaf(g).Raw).NotTo(Equal(first))
		}).Should(Succeed())
		Expect(f.secret(Default, "main-ca-cert")["ca.crt"]).To(Equal(ca))
	})

	It("certify the advertised addresses", func(t *testing.T) {
		listener := tlsListener
		listener.Type = v1alpha1.ListenerNodePort
		listener.Advertised = &v1alpha1.Advertised{Host: "b{id}.example.com"}
		f.secured("", listener)
		Eventually(func(g Gomega) {
			f.verify(g, f.secret(g, "main-ca-cert")["ca.crt"], f.listenerLeaf(g),
				"b1.example.com")
		}).Should(Succeed())
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			cluster.Spec.Listeners[0].Advertised = nil
		})
		f.runsOn(0, "203.0.113.7")
		f.eventuallyRenewing(func(g Gomega) {
			g.Expect(f.listenerLeaf(g).VerifyHostname("203.0.113.7")).To(Succeed())
		}, 0)
	})

	It("change their CA with overlap, after all brokers have loaded the new one", func(t *testing.T) {
		f.secured(v1alpha1.PeersMutualTLS)
		peer := func(g Gomega) *x509.Certificate { return f.leafIn(g, "peer.0.crt", "peer.0.key") }
		bundle := func(g Gomega) []byte { return f.secret(g, "main-brokers-tls")["peer-ca.crt"] }
		var first []byte
		Eventually(func(g Gomega) { first = peer(g).Raw }).Should(Succeed())
		change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AnnotationReplaceCA, "1")
		})
		Eventually(func(g Gomega) {
			certificates, err := pki.ParseCertificates(bundle(g))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(certificates).To(HaveLen(2), "both CAs are published")
		}).Should(Succeed())
		f.advance(25 * time.Hour)
		Consistently(func(g Gomega) { g.Expect(peer(g).Raw).To(Equal(first)) },
			time.Second).Should(Succeed(), "the brokers have not loaded the new CA")
		for id := range int32(2) {
			f.renew(id, "broker", 1, "disk", validThroughout)
			Eventually(func(g Gomega) {
				lease := f.lease(g, id)
				v1alpha1.ChangeRegistration(lease, func(r *v1alpha1.Registration) {
					r.Trust = v1alpha1.TrustFingerprint(f.secret(g, "main-brokers-tls"))
				})
				g.Expect(api.Update(context.Background(), lease)).To(Succeed())
			}).Should(Succeed())
		}
		Eventually(func(g Gomega) {
			g.Expect(peer(g).Raw).NotTo(Equal(first))
			f.verify(g, bundle(g), peer(g), "")
			old, err := x509.ParseCertificate(first)
			g.Expect(err).NotTo(HaveOccurred())
			f.verify(g, bundle(g), old, "")
		}).Should(Succeed())
	})

	It("change with a shorter overlap on request", func(t *testing.T) {
		f.secured("", tlsListener)
		var first *x509.Certificate
		Eventually(func(g Gomega) { first = f.listenerLeaf(g) }).Should(Succeed())
		replace := func(value, overlap string) {
			change(f, "main", &v1alpha1.LogCluster{}, func(cluster *v1alpha1.LogCluster) {
				metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AnnotationReplaceCA, value)
				metav1.SetMetaDataAnnotation(&cluster.ObjectMeta,
					v1alpha1.AnnotationReplaceCAOverlap, overlap)
			})
		}
		replace("1", "48h")
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonInvalidOverlap, `"48h"`, "up to 24h")
		Expect(f.listenerLeaf(Default).Raw).To(Equal(first.Raw))
		replace("1", "1s")
		Eventually(func(g Gomega) {
			leaf, bundle := f.listenerLeaf(g), f.secret(g, "main-ca-cert")["ca.crt"]
			g.Expect(leaf.Raw).NotTo(Equal(first.Raw))
			f.verify(g, bundle, leaf, "")
			f.verify(g, bundle, first, "")
		}).Should(Succeed())
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCertificatesReady)
	})

	It("of a Secret are used, and kept while the Secret is invalid", func(t *testing.T) {
		authority, _, err := (&pki.Authority{}).Step(time.Now(), pki.Input{Name: "corp"})
		Expect(err).NotTo(HaveOccurred())
		leaf, err := authority.Issue(pki.Request{CommonName: "a", Server: true}, time.Now())
		Expect(err).NotTo(HaveOccurred())
		listener := tlsListener
		listener.TLS = &v1alpha1.ListenerTLS{SecretName: "corp"}
		f.secured("", listener)
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonInvalidCertificate, "Secret corp: the Secret does not exist")
		f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "corp"},
			Data: map[string][]byte{"tls.crt": leaf.Chain, "tls.key": leaf.Key}})
		f.advance(0)
		Eventually(func(g Gomega) {
			g.Expect(f.listenerLeaf(g).Raw).To(Equal(leaf.Certificate.Raw))
		}).Should(Succeed())
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCertificatesReady)
		change(f, "corp", &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data["tls.key"] = []byte("no key")
		})
		f.advance(0)
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonInvalidCertificate, "Brokers keep the previous certificate.")
		Expect(f.listenerLeaf(Default).Raw).To(Equal(leaf.Certificate.Raw))
	})

	It("of cert-manager need cert-manager", func(t *testing.T) {
		listener := tlsListener
		listener.TLS = &v1alpha1.ListenerTLS{IssuerRef: &v1alpha1.IssuerRef{Name: "corp"}}
		f.secured("", listener)
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCertificatePending, "cert-manager is not installed")
	})

	It("are not issued by a CA that cannot be read", func(t *testing.T) {
		f.secured("", tlsListener)
		var ca []byte
		Eventually(func(g Gomega) { ca = f.secret(g, "main-ca-cert")["ca.crt"] }).Should(Succeed())
		change(f, "main-ca", &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data["ca.key"] = []byte("no key")
		})
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonInvalidCertificate, "Restore the Secret, or delete it")
		Expect(f.secret(Default, "main-ca-cert")["ca.crt"]).To(Equal(ca))
	})

	It("are not written over the Secrets of others", func(t *testing.T) {
		f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "main-ca"},
			Data: map[string][]byte{"a": []byte("b")}})
		f.secured("", tlsListener)
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonSecretNameTaken, "was not made for this LogCluster")
		Expect(get(Default, f, "main-ca", &corev1.Secret{}).Data).To(HaveLen(1))
	})

	It("are not reported any more when no listener needs them", func(t *testing.T) {
		provided := tlsListener
		provided.Name, provided.Port = "provided", 9094
		provided.TLS = &v1alpha1.ListenerTLS{SecretName: "missing"}
		f.secured("", tlsListener, provided)
		expiries := func(g Gomega) []float64 {
			return series(g, "heartwood_certificate_expiry_timestamp_seconds", "namespace", f.namespace)
		}
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonInvalidCertificate)
		Eventually(expiries).ShouldNot(BeEmpty())
		f.dropListeners()
		f.expectNoCondition(v1alpha1.ConditionCertificatesReady)
		Eventually(expiries).Should(BeEmpty())
	})

	It("serve a TLS connection", func(t *testing.T) {
		f.secured("", tlsListener)
		var data, bundle map[string][]byte
		Eventually(func(g Gomega) {
			data, bundle = f.secret(g, "main-brokers-tls"), f.secret(g, "main-ca-cert")
			g.Expect(data).To(HaveKey("listener.tls.key"))
		}).Should(Succeed())
		pair, err := tls.X509KeyPair(data["listener.tls.crt"], data["listener.tls.key"])
		Expect(err).NotTo(HaveOccurred())
		roots := x509.NewCertPool()
		Expect(roots.AppendCertsFromPEM(bundle["ca.crt"])).To(BeTrue())
		near, far := net.Pipe()
		server := tls.Server(near, &tls.Config{Certificates: []tls.Certificate{pair},
			// The client does not read session tickets, and a pipe has no buffer for them.
			MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true})
		client := tls.Client(far, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12,
			ServerName: "main-bootstrap." + f.namespace + ".svc"})
		served := make(chan error, 1)
		go func() { served <- server.HandshakeContext(context.Background()) }()
		Expect(client.HandshakeContext(context.Background())).To(Succeed())
		Expect(<-served).To(Succeed())
	})
})
