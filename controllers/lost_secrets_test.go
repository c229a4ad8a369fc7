package controllers

import (
	"context"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/pki"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// deleteSecrets deletes Secrets without a delay.
func (f *fixture) deleteSecrets(names ...string) {
	for _, name := range names {
		Expect(api.Delete(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: f.namespace}})).To(Succeed())
	}
}

// loadTrust plays brokers that have loaded the CAs in Secret main-brokers-tls.
func (f *fixture) loadTrust(brokers int32) {
	for id := range brokers {
		f.renew(id, "broker", 1, "disk", validThroughout)
		Eventually(func(g Gomega) {
			lease := f.lease(g, id)
			v1alpha1.ChangeRegistration(lease, func(r *v1alpha1.Registration) {
				r.Trust = v1alpha1.TrustFingerprint(f.secret(g, "main-brokers-tls"))
			})
			g.Expect(api.Update(context.Background(), lease)).To(Succeed())
		}).Should(Succeed())
	}
}

// certificatesIn returns the certificates in a bundle.
func certificatesIn(g Gomega, bundle []byte) []*x509.Certificate {
	certificates, err := pki.ParseCertificates(bundle)
	g.Expect(err).NotTo(HaveOccurred())
	return certificates
}

// anotherCA returns the data of a Secret with a CA that the operator did not create.
func anotherCA() map[string][]byte {
	authority, _, err := (&pki.Authority{}).Step(time.Now(), pki.Input{Name: "another"})
	Expect(err).NotTo(HaveOccurred())
	data, err := authority.Encode()
	Expect(err).NotTo(HaveOccurred())
	return data
}

var _ = Describe("The Secret of a CA", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	listeners := []v1alpha1.Listener{
		{Name: "tls", Port: 9093, TLS: &v1alpha1.ListenerTLS{},
			Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}},
		{Name: "mtls", Port: 9094, TLS: &v1alpha1.ListenerTLS{},
			Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationTLS}}}}
	listenerLeaf := func(g Gomega) *x509.Certificate { return f.listenerLeaf(g) }
	listenerBundle := func(g Gomega) []byte { return f.secret(g, "main-ca-cert")["ca.crt"] }
	usersBundle := func(g Gomega) []byte { return f.secret(g, "main-brokers-tls")["users-ca.crt"] }
	peersBundle := func(g Gomega) []byte { return f.secret(g, "main-brokers-tls")["peer-ca.crt"] }
	userLeaf := func(g Gomega) *x509.Certificate {
		data := f.credentials(g, "bob")
		leaf, err := pki.ParseLeaf(data["user.crt"], data["user.key"])
		g.Expect(err).NotTo(HaveOccurred())
		return leaf.Certificate
	}
	peerLeaf := func(g Gomega) *x509.Certificate {
		return f.leafIn(g, "peer.0.crt", "peer.0.key")
	}
	// start creates a LogCluster in which every CA has issued certificates.
	start := func() {
		f.secured(v1alpha1.PeersMutualTLS, listeners...)
		f.user("alice", v1alpha1.UserScram)
		f.user("bob", v1alpha1.UserTLS)
		for _, name := range []string{"alice", "bob"} {
			expectReason(f.userConditions(name), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		}
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCertificatesReady)
	}
	destroy := map[string]func(name string){
		"deleted": func(name string) { f.deleteSecrets(name) },
		"emptied": func(name string) {
			change(f, name, &corev1.Secret{}, func(s *corev1.Secret) { s.Data = nil })
		},
		"replaced by another CA": func(name string) {
			change(f, name, &corev1.Secret{}, func(s *corev1.Secret) { s.Data = anotherCA() })
		},
	}

	DescribeTable("may be lost without cutting off clients and brokers",
		func(name, how string, leaf func(Gomega) *x509.Certificate, bundle func(Gomega) []byte) {
			start()
			first, published := leaf(Default), certificatesIn(Default, bundle(Default))
			Expect(published).To(HaveLen(1))
			destroy[how](name)
			expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
				v1alpha1.ReasonCALost, "All certificates are valid.", "Secret "+name+" was lost",
				"stays in the bundles")
			f.expectEvent("main", corev1.EventTypeWarning, v1alpha1.ReasonCALost)
			Eventually(func(g Gomega) {
				now := certificatesIn(g, bundle(g))
				g.Expect(now).To(HaveLen(2))
				g.Expect(now[0].Raw).To(Equal(published[0].Raw))
				f.verify(g, bundle(g), leaf(g), "")
				g.Expect(f.credentials(g, "alice")["ca.crt"]).To(Equal(listenerBundle(g)))
				g.Expect(f.credentials(g, "bob")["ca.crt"]).To(Equal(listenerBundle(g)))
			}).Should(Succeed())
			Consistently(func(g Gomega) { g.Expect(leaf(g).Raw).To(Equal(first.Raw)) },
				time.Second).Should(Succeed(), "the certificate in use is replaced too early")
			f.loadTrust(2)
			f.advance(25 * time.Hour)
			Eventually(func(g Gomega) {
				g.Expect(leaf(g).Raw).NotTo(Equal(first.Raw))
				f.verify(g, bundle(g), leaf(g), "")
				f.verify(g, bundle(g), first, "")
			}).Should(Succeed())
			expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
				v1alpha1.ReasonCertificatesReady)
		},
		Entry("the CA of listeners, deleted", "main-ca", "deleted",
			listenerLeaf, listenerBundle),
		Entry("the CA of listeners, emptied", "main-ca", "emptied", listenerLeaf, listenerBundle),
		Entry("the CA of listeners, replaced", "main-ca", "replaced by another CA",
			listenerLeaf, listenerBundle),
		Entry("the CA of users, deleted", "main-users-ca", "deleted", userLeaf, usersBundle),
		Entry("the CA of users, replaced", "main-users-ca", "replaced by another CA", userLeaf,
			usersBundle),
		Entry("the CA of brokers, deleted", "main-peer-ca", "deleted", peerLeaf, peersBundle),
		Entry("the CA of brokers, replaced", "main-peer-ca", "replaced by another CA", peerLeaf,
			peersBundle))

	It("may be lost together with its published certificate", func(t *testing.T) {
		start()
		first := f.listenerLeaf(Default)
		f.deleteSecrets("main-ca", "main-ca-cert")
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCALost, "stays in the bundles")
		Eventually(func(g Gomega) { // LogUsers' Secrets contain copies
			f.verify(g, listenerBundle(g), first, "")
			g.Expect(f.listenerLeaf(g).Raw).To(Equal(first.Raw))
		}).Should(Succeed())
	})

	It("is made again with the certificates that it has issued", func(t *testing.T) {
		start()
		var names []string
		for _, name := range []string{"ca", "ca-cert", "users-ca", "peer-ca", "brokers-tls"} {
			names = append(names, "main-"+name)
		}
		f.deleteSecrets(slices.Concat(names, []string{"alice-logcluster", "bob-logcluster"})...)
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCALost, "All certificates are valid.")
		Eventually(func(g Gomega) {
			f.verify(g, listenerBundle(g), f.listenerLeaf(g), "")
			f.verify(g, usersBundle(g), userLeaf(g), "")
			f.verify(g, peersBundle(g), peerLeaf(g), "")
		}).Should(Succeed())
		f.advance(25 * time.Hour)
		f.loadTrust(2)
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCertificatesReady)
	})

	It("may be damaged without effect on the other CAs", func(t *testing.T) {
		start()
		first, peer := f.listenerLeaf(Default), peerLeaf(Default)
		change(f, "main-ca", &corev1.Secret{}, func(s *corev1.Secret) { delete(s.Data, "ca.key") })
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonInvalidCertificate, "Secret main-ca cannot be decoded", "or delete it")
		f.advance(61 * 24 * time.Hour)
		Eventually(func(g Gomega) {
			g.Expect(peerLeaf(g).Raw).NotTo(Equal(peer.Raw), "renewed by its own CA")
		}).Should(Succeed())
		Expect(f.listenerLeaf(Default).Raw).To(Equal(first.Raw))
		f.deleteSecrets("main-ca")
		expectReason(f.clusterConditions(), v1alpha1.ConditionCertificatesReady,
			v1alpha1.ReasonCALost, "stays in the bundles")
		f.verify(Default, listenerBundle(Default), first, "")
	})

	It("of brokers continues with the certificates of a Secret that was restored", func(t *testing.T) {
		start()
		first := f.listenerLeaf(Default)
		other := anotherCA()
		change(f, "main-ca-cert", &corev1.Secret{}, func(s *corev1.Secret) {
			s.Data["ca.crt"] = other["ca.crt"]
		})
		Eventually(func(g Gomega) {
			g.Expect(certificatesIn(g, listenerBundle(g))).To(HaveLen(1))
			f.verify(g, listenerBundle(g), first, "")
		}).Should(Succeed())
		Expect(f.listenerLeaf(Default).Raw).To(Equal(first.Raw))
	})
})

var _ = Describe("The Secret of a LogUser", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	// start creates a LogUser. It returns the LogUser's password, and a function that waits for the
	// next password.
	start := func() (first string, next func(Gomega) string) {
		f.secured("", v1alpha1.Listener{Name: "tls", Port: 9093, TLS: &v1alpha1.ListenerTLS{},
			Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}})
		f.user("alice", v1alpha1.UserScram)
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		Eventually(func(g Gomega) {
			first = string(f.credentials(g, "alice")["password"])
			g.Expect(credentials.Verify(f.verifiers(g, "alice"), first)).To(BeTrue())
		}).Should(Succeed())
		return first, func(g Gomega) string {
			password := string(f.credentials(g, "alice")["password"])
			g.Expect(password).NotTo(Or(Equal(first), BeEmpty()))
			g.Expect(credentials.Verify(f.verifiers(g, "alice"), password)).To(BeTrue())
			return password
		}
	}

	DescribeTable("may be lost without cutting off clients at once", func(destroy func()) {
		_, next := start()
		before := f.verifiers(Default, "alice")
		destroy()
		Eventually(func(g Gomega) {
			next(g)
			now := f.verifiers(g, "alice")
			g.Expect(now).To(HaveLen(4), "the previous password remains valid")
			for _, old := range before {
				g.Expect(slices.ContainsFunc(now, func(v v1alpha1.ScramVerifier) bool {
					return slices.Equal(v.StoredKey, old.StoredKey) && v.NotAfter != nil
				})).To(BeTrue())
			}
		}).Should(Succeed())
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady, v1alpha1.ReasonReady,
			"was lost", "the previous password remains valid until")
		f.expectEvent("alice", corev1.EventTypeWarning, v1alpha1.ReasonSecretLost)
		f.advance(time.Hour + time.Minute)
		f.annotateUser("alice", "test", "1")
		Eventually(func(g Gomega) {
			g.Expect(f.verifiers(g, "alice")).To(HaveLen(2))
			g.Expect(f.userConditions("alice")(g)[0].Message).NotTo(ContainSubstring("lost"))
		}).Should(Succeed())
	},
		Entry("deleted", func() { f.deleteSecrets("alice-logcluster") }),
		Entry("emptied", func() {
			change(f, "alice-logcluster", &corev1.Secret{}, func(s *corev1.Secret) { s.Data = nil })
		}))

	It("says that nothing is left of it if the verifiers are lost too", func(t *testing.T) {
		_, next := start()
		f.deleteSecrets("main-scram-0", "alice-logcluster")
		Eventually(func(g Gomega) {
			next(g)
			g.Expect(f.userConditions("alice")(g)[0].Message).To(ContainSubstring("was lost"))
		}).Should(Succeed())
		f.expectEvent("alice", corev1.EventTypeWarning, v1alpha1.ReasonSecretLost)
	})
})
