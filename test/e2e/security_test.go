//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// securedCluster is the name of the LogCluster in testdata/secured.yaml.
const securedCluster = "secured"

// secured runs a LogCluster with TLS, passwords and ACLs. A client outside the pod network uses the
// Secret of a LogUser and can do only what the ACLs allow. It must be refused without TLS, with a
// wrong password, or with a request that only followers send.
func (e *environment) secured(t *testing.T) {
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/secured.yaml")
	defer e.kubectl(t, "delete", "-f", "test/e2e/testdata/secured.yaml", "--wait=false")
	e.waitSecured(t)
	var secret corev1.Secret
	if err := e.Get(t.Context(), client.ObjectKey{Name: "writer-logcluster"}, &secret); err != nil {
		t.Fatal(err)
	}
	seeds := e.outsideEndpoints(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	encrypted := kgo.DialTLSConfig(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	login := func(password string) kgo.Opt {
		return kgo.SASL(scram.Auth{User: string(secret.Data["username"]),
			Pass: password}.AsSha512Mechanism())
	}
	connect := func(options ...kgo.Opt) *kgo.Client {
		connected, err := kgo.NewClient(append(options, kgo.SeedBrokers(seeds...),
			kgo.RetryTimeout(20*time.Second), kgo.RecordDeliveryTimeout(30*time.Second))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(connected.Close)
		return connected
	}
	writer := connect(encrypted, login(string(secret.Data["password"])))
	produce := func(topic string) error {
		return writer.ProduceSync(t.Context(),
			&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr()
	}
	if err := produce("allowed"); err != nil {
		t.Errorf("produce to a topic with an ACL: %v", err)
	}
	if err := produce("forbidden"); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("produce to a topic without an ACL: %v", err)
	}
	if _, err := kadm.NewClient(writer).CreateTopic(t.Context(), 1, 2, nil, "made"); !errors.Is(err,
		kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("create a topic without an ACL: %v", err)
	}
	if err := connect(encrypted, login("wrong")).Ping(t.Context()); !errors.Is(err,
		kerr.SaslAuthenticationFailed) {
		t.Errorf("wrong password: %v", err)
	}
	for name, refused := range map[string]*kgo.Client{
		"without TLS":            connect(login(string(secret.Data["password"]))),
		"without authentication": connect(encrypted),
	} {
		if err := refused.Ping(t.Context()); err == nil {
			t.Errorf("a client %s is not refused", name)
		}
	}
	e.accountClient(t, func(token string) *kgo.Client {
		return connect(encrypted, kgo.SASL(oauth.Auth{Token: token}.AsMechanism()))
	})
	e.anonymousClient(t, writer)
	e.httpNeedsRights(t)
	e.brokerRights(t)
	e.userCommands(t, func(password string) *kgo.Client {
		return connect(encrypted, login(password))
	})
}

// waitSecured waits until the LogCluster's Topics and LogUser are ready and its listeners have
// addresses.
func (e *environment) waitSecured(t *testing.T) {
	t.Helper()
	until(t, "the secured LogCluster to be ready", func(ctx context.Context) string {
		var cluster v1alpha1.LogCluster
		var user v1alpha1.LogUser
		for name, object := range map[string]client.Object{securedCluster: &cluster,
			"writer": &user} {
			if err := e.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
				return err.Error()
			}
		}
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionApplied,
			v1alpha1.ConditionListenersReady, v1alpha1.ConditionCertificatesReady} {
			if !meta.IsStatusConditionTrue(cluster.Status.Conditions, kind) {
				return fmt.Sprintf("%s is not True: %+v", kind, cluster.Status.Conditions)
			}
		}
		if !meta.IsStatusConditionTrue(user.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Sprintf("the LogUser is not ready: %+v", user.Status.Conditions)
		}
		for _, name := range []string{"allowed", "forbidden"} {
			var topic v1alpha1.Topic
			if err := e.Get(ctx, client.ObjectKey{Name: name}, &topic); err != nil {
				return err.Error()
			}
			if !meta.IsStatusConditionTrue(topic.Status.Conditions, v1alpha1.ConditionReady) {
				return "topic " + name + " is not ready"
			}
		}
		return ""
	})
}

// outsideEndpoints returns the brokers' addresses for clients outside the pod network.
func (e *environment) outsideEndpoints(t *testing.T) (endpoints []string) {
	t.Helper()
	for id := range int32(2) {
		var lease coordinationv1.Lease
		if err := e.Get(t.Context(), client.ObjectKey{
			Name: v1alpha1.BrokerLeaseName(securedCluster, id)}, &lease); err != nil {
			t.Fatal(err)
		}
		endpoints = append(endpoints,
			lease.Annotations[v1alpha1.AnnotationEndpointPrefix+"outside"])
	}
	return endpoints
}
