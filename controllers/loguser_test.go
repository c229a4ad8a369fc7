package controllers

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/pki"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// user creates a LogUser of cluster main.
func (f *fixture) user(name string, kind v1alpha1.UserAuthenticationType) *v1alpha1.LogUser {
	user := &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.LogUserSpec{Cluster: "main",
			Authentication: v1alpha1.UserAuthentication{Type: kind}}}
	f.create(user)
	return user
}

func (f *fixture) userConditions(name string) func(Gomega) []metav1.Condition {
	return func(g Gomega) []metav1.Condition {
		return get(g, f, name, &v1alpha1.LogUser{}).Status.Conditions
	}
}

// verifiers returns a LogUser's verifiers in the shards that brokers read.
func (f *fixture) verifiers(g Gomega, user string) []v1alpha1.ScramVerifier {
	data, ok := f.secret(g, "main-scram-0")[user]
	g.Expect(ok).To(BeTrue(), "the shard does not contain the user")
	decoded, err := v1alpha1.DecodeScramVerifiers(data)
	g.Expect(err).NotTo(HaveOccurred())
	return decoded.Verifiers
}

// credentials returns the data of a LogUser's Secret.
func (f *fixture) credentials(g Gomega, user string) map[string][]byte {
	return get(g, f, user+"-logcluster", &corev1.Secret{}).Data
}

func (f *fixture) annotateUser(user, key, value string) {
	change(f, user, &v1alpha1.LogUser{}, func(u *v1alpha1.LogUser) {
		metav1.SetMetaDataAnnotation(&u.ObjectMeta, key, value)
	})
}

var _ = Describe("A LogUser", func() {
	var f *fixture
	BeforeEach(func(t *testing.T) { f = newFixture(t) })

	scram := v1alpha1.Listener{Name: "tls", Port: 9093, TLS: &v1alpha1.ListenerTLS{},
		Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}}
	certificates := v1alpha1.Listener{Name: "mtls", Port: 9094, TLS: &v1alpha1.ListenerTLS{},
		Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationTLS}}}

	It("has a password and configurations of clients in its Secret", func(t *testing.T) {
		f.secured("", scram)
		f.user("alice", v1alpha1.UserScram)
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		Eventually(func(g Gomega) {
			data := f.credentials(g, "alice")
			g.Expect(data).To(HaveLen(8))
			g.Expect(string(data["bootstrap.servers"])).To(Equal(
				"main-bootstrap." + f.namespace + ".svc:9093"))
			g.Expect(data["ca.crt"]).To(Equal(f.secret(g, "main-ca-cert")["ca.crt"]))
			g.Expect(string(data["client.properties"])).To(ContainSubstring("SASL_SSL"))
			g.Expect(credentials.Verify(f.verifiers(g, "alice"),
				string(data["password"]))).To(BeTrue())
		}).Should(Succeed())
		Expect(get(Default, f, "alice", &v1alpha1.LogUser{}).Status.SecretName).
			To(Equal("alice-logcluster"))
		Expect(f.secret(Default, "main-scram-admin")).To(BeEmpty())
	})

	It("has a certificate of the users CA", func(t *testing.T) {
		f.secured("", certificates)
		f.user("bob", v1alpha1.UserTLS)
		expectReason(f.userConditions("bob"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		data := f.credentials(Default, "bob")
		leaf, err := pki.ParseLeaf(data["user.crt"], data["user.key"])
		Expect(err).NotTo(HaveOccurred())
		Expect(leaf.Certificate.Subject.CommonName).To(Equal("bob"))
		Expect(leaf.Certificate.ExtKeyUsage).To(Equal([]x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth}))
		Eventually(func(g Gomega) {
			f.verify(g, f.secret(g, "main-brokers-tls")["users-ca.crt"], leaf.Certificate, "")
		}).Should(Succeed())
		Expect(get(Default, f, "bob", &v1alpha1.LogUser{}).Status.ExpiryTime.Time).
			To(BeTemporally("==", leaf.Certificate.NotAfter))
		Expect(data).NotTo(HaveKey("password"))
	})

	It("gets a new password on request, and the previous one counts for an hour", func(t *testing.T) {
		f.secured("", scram)
		f.user("alice", v1alpha1.UserScram)
		var first string
		Eventually(func(g Gomega) {
			first = string(f.credentials(g, "alice")["password"])
			g.Expect(f.verifiers(g, "alice")).To(HaveLen(2))
		}).Should(Succeed())
		f.annotateUser("alice", v1alpha1.AnnotationRotate, "1")
		Eventually(func(g Gomega) {
			verifiers, password := f.verifiers(g, "alice"), f.credentials(g, "alice")["password"]
			g.Expect(string(password)).NotTo(Equal(first))
			g.Expect(credentials.Verify(verifiers, string(password))).To(BeTrue())
			g.Expect(verifiers).To(HaveLen(4))
			g.Expect(get(g, f, "alice", &v1alpha1.LogUser{}).Status.Rotated).To(Equal("1"))
		}).Should(Succeed())
		f.advance(time.Hour + time.Minute)
		f.annotateUser("alice", "test", "1")
		Eventually(func(g Gomega) {
			g.Expect(f.verifiers(g, "alice")).To(HaveLen(2))
		}).Should(Succeed())
	})

	It("has the password of another Secret", func(t *testing.T) {
		f.secured("", scram)
		user := &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "carol"},
			Spec: v1alpha1.LogUserSpec{Cluster: "main", UserName: "CN=Carol",
				Authentication: v1alpha1.UserAuthentication{Type: v1alpha1.UserScram,
					PasswordFrom: &v1alpha1.SecretKey{Name: "given", Key: "pw"}}}}
		f.create(user)
		expectReason(f.userConditions("carol"), v1alpha1.ConditionReady,
			v1alpha1.ReasonPasswordNotFound, "Secret given with the key pw")
		f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "given"},
			Data: map[string][]byte{"pw": []byte("hunter2\n")}})
		f.annotateUser("carol", "test", "1")
		expectReason(f.userConditions("carol"), v1alpha1.ConditionReady,
			v1alpha1.ReasonInvalidPassword, "line break")
		Expect(fmt.Sprint(f.userConditions("carol")(Default))).NotTo(ContainSubstring("hunter2"))
		change(f, "given", &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data["pw"] = []byte("hunter2")
		})
		f.annotateUser("carol", "test", "2")
		Eventually(func(g Gomega) {
			g.Expect(credentials.Verify(f.verifiers(g, "carol"), "hunter2")).To(BeTrue())
			g.Expect(string(f.credentials(g, "carol")["username"])).To(Equal("CN=Carol"))
		}).Should(Succeed())
	})

	It("has the addresses of brokers as they become known", func(t *testing.T) {
		listener := scram
		listener.Type = v1alpha1.ListenerNodePort
		f.secured("", listener)
		f.user("alice", v1alpha1.UserScram)
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady,
			v1alpha1.ReasonAddressPending)
		bootstrap := func(g Gomega) []string {
			return strings.Split(string(f.credentials(g, "alice")["bootstrap.servers"]), ",")
		}
		f.runsOn(0, "203.0.113.7")
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		Expect(bootstrap(Default)).To(ConsistOf(HavePrefix("203.0.113.7:")))
		f.runsOn(1, "203.0.113.8")
		Eventually(bootstrap).Should(ConsistOf(HavePrefix("203.0.113.7:"),
			HavePrefix("203.0.113.8:")))
	})

	It("has the CA of a certificate that cert-manager issues later", func(t *testing.T) {
		listener := scram
		listener.TLS = &v1alpha1.ListenerTLS{IssuerRef: &v1alpha1.IssuerRef{Name: "corp"}}
		f.secured("", listener)
		f.user("alice", v1alpha1.UserScram)
		name := render.ListenerCertificateName("main", "tls")
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady,
			v1alpha1.ReasonCertificatePending, "Secret "+name+" does not exist")
		ca := func(g Gomega) string { return string(f.credentials(g, "alice")["ca.crt"]) }
		Expect(ca(Default)).To(BeEmpty())
		// The operator does not watch this Secret, so no event follows.
		f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name},
			Data: map[string][]byte{"ca.crt": []byte("first")}})
		Eventually(ca).Should(Equal("first"))
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		change(f, name, &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data["ca.crt"] = []byte("second")
		})
		Eventually(ca).Should(Equal("second"))

		t.Log("keeping it while the Secret is issued again")
		Expect(api.Delete(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: f.namespace}})).To(Succeed())
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady,
			v1alpha1.ReasonCertificatePending)
		Expect(ca(Default)).To(Equal("second"))
	})

	It("does not overwrite the Secret of others", func(t *testing.T) {
		f.secured("", scram)
		f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "alice-logcluster"},
			Data: map[string][]byte{"password": []byte("theirs")}})
		f.user("alice", v1alpha1.UserScram)
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady,
			v1alpha1.ReasonSecretNameTaken)
		Expect(string(f.credentials(Default, "alice")["password"])).To(Equal("theirs"))
		Eventually(func(g Gomega) {
			g.Expect(f.secret(g, "main-scram-0")).To(BeEmpty())
		}).Should(Succeed())
	})

	It("is not reported by its LogCluster when no listener authenticates by passwords",
		func(t *testing.T) {
			for _, name := range []string{"main-scram-admin", "main-scram-0"} {
				f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			f.secured("", scram)
			expectReason(f.clusterConditions(), v1alpha1.ConditionUsersReady,
				v1alpha1.ReasonSecretNameTaken)
			f.dropListeners()
			f.expectNoCondition(v1alpha1.ConditionUsersReady)
		})

	It("that is created again does not inherit the password", func(t *testing.T) {
		f.secured("", scram)
		user := f.user("alice", v1alpha1.UserScram)
		var first string
		Eventually(func(g Gomega) {
			first = string(f.credentials(g, "alice")["password"])
			g.Expect(f.verifiers(g, "alice")).To(HaveLen(2))
		}).Should(Succeed())
		Expect(api.Delete(context.Background(), user)).To(Succeed())
		Eventually(func(g Gomega) { // the test acts as the garbage collector, which does not run here
			g.Expect(f.secret(g, "main-scram-0")).To(BeEmpty())
		}).Should(Succeed())
		f.user("alice", v1alpha1.UserScram)
		Eventually(func(g Gomega) {
			password := string(f.credentials(g, "alice")["password"])
			g.Expect(password).NotTo(Equal(first))
			g.Expect(credentials.Verify(f.verifiers(g, "alice"), password)).To(BeTrue())
		}).Should(Succeed())
	})

	It("loses its credentials with another type", func(t *testing.T) {
		f.secured("", scram)
		f.user("alice", v1alpha1.UserScram)
		Eventually(func(g Gomega) { f.verifiers(g, "alice") }).Should(Succeed())
		change(f, "alice", &v1alpha1.LogUser{}, func(u *v1alpha1.LogUser) {
			u.Spec.Authentication.Type = v1alpha1.UserExternal
		})
		Eventually(func(g Gomega) {
			g.Expect(f.secret(g, "main-scram-0")).To(BeEmpty())
			err := api.Get(context.Background(), client.ObjectKey{Namespace: f.namespace,
				Name: "alice-logcluster"}, &corev1.Secret{})
			g.Expect(client.IgnoreNotFound(err)).To(Succeed())
			g.Expect(err).To(HaveOccurred())
		}).Should(Succeed())
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	It("has a principal of its own", func(t *testing.T) {
		f.secured("", scram)
		f.user("alice", v1alpha1.UserScram)
		Eventually(func(g Gomega) { f.verifiers(g, "alice") }).Should(Succeed())
		second := &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "bob"},
			Spec: v1alpha1.LogUserSpec{Cluster: "main", UserName: "alice",
				Authentication: v1alpha1.UserAuthentication{Type: v1alpha1.UserScram}}}
		f.create(second)
		expectReason(f.userConditions("bob"), v1alpha1.ConditionReady,
			v1alpha1.ReasonUserNameTaken, "LogUser alice")
		Expect(f.secret(Default, "main-scram-0")).To(HaveLen(1))
	})

	It("of a LogCluster without a suitable listener is not ready", func(t *testing.T) {
		f.secured("", certificates)
		f.user("alice", v1alpha1.UserScram)
		expectReason(f.userConditions("alice"), v1alpha1.ConditionReady,
			v1alpha1.ReasonNoListener, "type Scram")
		missing := &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "bob"},
			Spec: v1alpha1.LogUserSpec{Cluster: "other"}}
		f.create(missing)
		expectReason(f.userConditions("bob"), v1alpha1.ConditionReady,
			v1alpha1.ReasonClusterNotFound)
	})
})
