//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/ledger"
)

// changing is the name of the LogCluster in testdata/changing.yaml. changingBrokers is its number
// of brokers.
const (
	changing        = "changing"
	changingBrokers = 3
)

// securityChanges secures a LogCluster, replaces its CAs, and limits a user, while clients outside
// the pod network write 500 records a second with acks=all. No acknowledged record must be lost.
func (e *environment) securityChanges(t *testing.T) {
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/changing.yaml")
	defer e.kubectl(t, "delete", "-f", "test/e2e/testdata/changing-secured.yaml", "-f",
		"test/e2e/testdata/changing.yaml", "--wait=false", "--ignore-not-found")
	c := &changingCluster{environment: e, book: ledger.New()}
	c.waitChanging(t, 2)
	for _, phase := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"it becomes secured", c.becomesSecured},
		{"its CAs are replaced", c.replacesCAs},
		{"it is paused", c.paused},
		{"a user above its quota is throttled", c.throttles},
		{"a user that is created again has another password", c.userAgain},
	} {
		if !t.Run(phase.name, phase.run) {
			return
		}
	}
}

// changingCluster is the LogCluster in testdata/changing.yaml.
type changingCluster struct {
	*environment
	book  *ledger.Ledger // acknowledged records of topic loaded
	loads int            // number of loads that have begun
}

// waitChanging waits until the LogCluster matches its spec and its Topics are ready.
func (e *changingCluster) waitChanging(t *testing.T, topics int) {
	t.Helper()
	until(t, "LogCluster "+changing+" to be as requested", func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		if err := e.Get(ctx, client.ObjectKey{Name: changing}, &cluster); err != nil {
			return err.Error()
		}
		if why := notReady("LogCluster", &cluster, cluster.Status.ObservedGeneration,
			cluster.Status.Conditions); why != "" {
			return why
		}
		for kind, want := range map[string]bool{v1alpha1.ConditionApplied: true,
			v1alpha1.ConditionListenersReady: true, v1alpha1.ConditionRollingOut: false} {
			if found := meta.FindStatusCondition(cluster.Status.Conditions, kind); found == nil ||
				(found.Status == "True") != want {
				return fmt.Sprintf("condition %s: %+v", kind, found)
			}
		}
		var all v1alpha1.TopicList
		if err := e.List(ctx, &all); err != nil {
			return err.Error()
		}
		for i := range all.Items {
			if topic := &all.Items[i]; topic.Spec.Cluster == changing &&
				meta.IsStatusConditionTrue(topic.Status.Conditions, v1alpha1.ConditionReplicated) {
				topics--
			}
		}
		if topics > 0 {
			return fmt.Sprintf("%d Topics are not replicated", topics)
		}
		return ""
	})
}

// endpoints returns the brokers' addresses at a listener for clients outside the pod network.
func (e *changingCluster) endpoints(t *testing.T, listener string) (all []string) {
	t.Helper()
	for id := range int32(changingBrokers) {
		var lease coordinationv1.Lease
		if err := e.Get(t.Context(), client.ObjectKey{
			Name: v1alpha1.BrokerLeaseName(changing, id)}, &lease); err != nil {
			t.Fatal(err)
		}
		all = append(all, lease.Annotations[v1alpha1.AnnotationEndpointPrefix+listener])
	}
	return all
}

// userSecret returns the content of a LogUser's Secret, once this contains a bootstrap address.
func (e *changingCluster) userSecret(t *testing.T, user string) (data map[string][]byte) {
	t.Helper()
	until(t, "the Secret of LogUser "+user, func(ctx context.Context) string {
		var secret corev1.Secret
		err := e.Get(ctx, client.ObjectKey{Name: v1alpha1.UserSecretName(user)}, &secret)
		if err != nil {
			return err.Error()
		}
		if data = secret.Data; len(data["bootstrap.servers"]) == 0 {
			return "it has no bootstrap address"
		}
		return ""
	})
	return data
}

// as returns the options of a client with the password and the CAs in a Secret. Each connection
// uses the CAs that roots returns, like a client that re-reads its mounted Secret.
func as(secret map[string][]byte, roots func() []byte) []kgo.Opt {
	return []kgo.Opt{
		kgo.SASL(scram.Auth{User: string(secret["username"]),
			Pass: string(secret["password"])}.AsSha512Mechanism()),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(roots())
			return (&tls.Dialer{Config: &tls.Config{RootCAs: pool,
				MinVersion: tls.VersionTLS12}}).DialContext(ctx, network, address)
		}),
	}
}

// becomesSecured adds TLS, users, ACLs and mutual TLS between brokers, in a rolling update. The
// plain listener's client must continue.
func (e *changingCluster) becomesSecured(t *testing.T) {
	seeds := e.endpoints(t, "outside")
	load := e.startLoad(t, seeds)
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/changing-secured.yaml")
	until(t, "the rolling update to begin", func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		if err := e.Get(ctx, client.ObjectKey{Name: changing}, &cluster); err != nil {
			return err.Error()
		}
		if cluster.Status.ObservedGeneration != cluster.Generation {
			return "the spec is not applied"
		}
		return ""
	})
	e.waitChanging(t, 2)
	load.stop(t)
	load.verify(t, seeds)
	var lease coordinationv1.Lease
	for id := range int32(changingBrokers) {
		if err := e.Get(t.Context(), client.ObjectKey{
			Name: v1alpha1.BrokerLeaseName(changing, id)}, &lease); err != nil {
			t.Fatal(err)
		}
		if !v1alpha1.ReadRegistration(&lease).PeerTLS {
			t.Errorf("other brokers reach broker %d without TLS: %v", id, lease.Annotations)
		}
	}
}

// replacesCAs replaces the CAs of listeners, users and brokers. A client with the old CA can
// connect until the new CA issues certificates. The client under load re-reads its Secret and has
// no failed connection. No broker restarts.
func (e *changingCluster) replacesCAs(t *testing.T) {
	secret := e.userSecret(t, "steady")
	old := slices.Clone(secret["ca.crt"])
	bundle := &current{}
	bundle.set(old)
	seeds := e.endpoints(t, "tls")
	pods, peerCA := e.podUIDs(t), e.peerCAs(t)
	load := e.startLoad(t, seeds, as(secret, bundle.get)...)
	e.kubectl(t, "annotate", "logcluster", changing, v1alpha1.AnnotationReplaceCA+"=1",
		v1alpha1.AnnotationReplaceCAOverlap+"=60s")
	until(t, "the new CA in the user's Secret", func(context.Context) string {
		now := e.userSecret(t, "steady")["ca.crt"]
		if strings.Count(string(now), "BEGIN CERTIFICATE") != 2 {
			return "it has one CA"
		}
		bundle.set(now)
		return ""
	})
	withOld := func() error { return ping(t, seeds, as(secret, func() []byte { return old })...) }
	if err := withOld(); err != nil {
		t.Errorf("with the old CA, while both are published: %v", err)
	}
	added := strings.TrimPrefix(string(bundle.get()), string(old))
	until(t, "certificates of the new CA on all brokers", func(context.Context) string {
		for _, seed := range seeds {
			if err := ping(t, []string{seed}, as(secret,
				func() []byte { return []byte(added) })...); err != nil {
				return err.Error()
			}
		}
		return ""
	})
	if err := withOld(); err == nil {
		t.Error("the old CA verifies certificates of the new one")
	}
	until(t, "certificates of the new CA between brokers", func(ctx context.Context) string {
		return e.newPeerLeaves(ctx, peerCA)
	})
	load.stop(t)
	if failed := load.failedConnections(); len(failed) > 0 {
		t.Errorf("failed connections: %v", failed)
	}
	load.verify(t, seeds, as(secret, bundle.get)...)
	if now := e.podUIDs(t); !slices.Equal(pods, now) {
		t.Errorf("pods were restarted: %v, before %v", now, pods)
	}
}

// peerCAs returns the peer CA's bundle.
func (e *changingCluster) peerCAs(t *testing.T) string {
	t.Helper()
	var secret corev1.Secret
	if err := e.Get(t.Context(), client.ObjectKey{
		Name: v1alpha1.BrokersTLSSecretName(changing)}, &secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[v1alpha1.KeyPeerCA])
}

// newPeerLeaves returns "" if two conditions hold: the first CA in the peer CA's bundle, which is
// the CA that issues, has issued all brokers' certificates, and this CA is not the old one.
func (e *changingCluster) newPeerLeaves(ctx context.Context, old string) string {
	var secret corev1.Secret
	if err := e.Get(ctx, client.ObjectKey{Name: v1alpha1.BrokersTLSSecretName(changing)},
		&secret); err != nil {
		return err.Error()
	}
	bundle := strings.SplitAfter(string(secret.Data[v1alpha1.KeyPeerCA]),
		"-----END CERTIFICATE-----\n")
	if bundle[0] == old {
		return "the old CA issues"
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle[0]))
	for id := range int32(changingBrokers) {
		certificate, key := v1alpha1.PeerCertificateKeys(id)
		pair, err := tls.X509KeyPair(secret.Data[certificate], secret.Data[key])
		if err == nil {
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots,
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		}
		if err != nil {
			return fmt.Sprintf("certificate of broker %d: %v", id, err)
		}
	}
	return ""
}

// podUIDs returns the UIDs of the brokers' pods, sorted.
func (e *changingCluster) podUIDs(t *testing.T) (uids []types.UID) {
	t.Helper()
	pods, err := e.pods(t.Context(), client.MatchingLabels{v1alpha1.LabelCluster: changing})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		uids = append(uids, pods[i].UID)
	}
	slices.Sort(uids)
	return uids
}

// userAgain covers trap 31 of docs/internals/attacks.md: a LogUser that is created again has
// another password, and the old password is not valid.
func (e *changingCluster) userAgain(t *testing.T) {
	before := e.userSecret(t, "limited")
	seeds := e.endpoints(t, "tls")
	roots := func() []byte { return e.userSecret(t, "limited")["ca.crt"] }
	if err := ping(t, seeds, as(before, roots)...); err != nil {
		t.Fatalf("with the first password: %v", err)
	}
	e.kubectl(t, "delete", "loguser", "limited", "--timeout=60s")
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/changing-secured.yaml")
	until(t, "a new password that brokers accept", func(context.Context) string {
		now := e.userSecret(t, "limited")
		if bytes.Equal(now["password"], before["password"]) {
			return "the password is the old one"
		}
		if err := ping(t, seeds, as(now, roots)...); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := ping(t, seeds, as(before, roots)...); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("with the password of the deleted LogUser: %v", err)
	}
}

// ping sends a request on new connections.
func ping(t *testing.T, seeds []string, options ...kgo.Opt) error {
	t.Helper()
	pinged, err := kgo.NewClient(append(options, kgo.SeedBrokers(seeds...),
		kgo.RetryTimeout(10*time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	defer pinged.Close()
	return pinged.Ping(t.Context())
}
