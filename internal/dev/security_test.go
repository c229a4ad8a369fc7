package dev

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"heartwood.dev/heartwood/test/kit/await"
)

const securedCluster = `listeners: [
  {name: tls, port: 9093, tls: {}, authentication: [{type: ScramSha512}]},
  {name: mtls, port: 9094, tls: {}, authentication: [{type: TLS}]}],
  authorization: {type: Simple, superUsers: [admin]}, brokers: 2`

func logUser(name, spec string) string {
	return "apiVersion: heartwood.dev/v1alpha1\nkind: LogUser\nmetadata: {name: " + name +
		"}\nspec: {cluster: demo, " + spec + "}\n"
}

// userFile reads one of a user's files.
func userFile(t *testing.T, opts Options, user, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(opts.DataDir, "users", user, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// connectAs returns a client that connects with a user's files.
func connectAs(t *testing.T, opts Options, user string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM([]byte(userFile(t, opts, user, "ca.crt")))
	more = append(more, lasting(userFile(t, opts, user, "bootstrap.servers"))...)
	more = append(more, kgo.DialTLSConfig(config))
	if _, err := os.Stat(filepath.Join(opts.DataDir, "users", user, "password")); err == nil {
		more = append(more, kgo.SASL(scram.Auth{User: userFile(t, opts, user, "username"),
			Pass: userFile(t, opts, user, "password")}.AsSha512Mechanism()))
	} else {
		pair, err := tls.X509KeyPair([]byte(userFile(t, opts, user, "user.crt")),
			[]byte(userFile(t, opts, user, "user.key")))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	client, err := kgo.NewClient(more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func produceOne(ctx context.Context, client *kgo.Client, topic string) error {
	return client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
}

// TestUsersConnectWithTheirFiles runs a cluster with TLS, SCRAM and client certificates. It checks
// that users can do what their ACLs allow, and that the ACLs change with the manifests.
func TestUsersConnectWithTheirFiles(t *testing.T) {
	opts := options(t, logCluster(securedCluster), topic("orders", "partitions: 2, replicas: 2"),
		logUser("admin", "authentication: {type: Scram}"),
		logUser("alice", "authentication: {type: Scram}, acls: [{resource: {type: Topic, name: "+
			"orders}, operations: [Write]}]"),
		logUser("bob", "authentication: {type: TLS}"))
	r := start(t, opts)
	if err := produceOne(t.Context(), connectAs(t, opts, "alice"), "orders"); err != nil {
		t.Fatalf("alice: %v", err)
	}
	bob := connectAs(t, opts, "bob")
	if err := produceOne(t.Context(), bob, "orders"); !errors.Is(err,
		kerr.TopicAuthorizationFailed) {
		t.Fatalf("bob without an ACL: %v", err)
	}
	put(t, opts, "all.yaml", logCluster(securedCluster),
		topic("orders", "partitions: 2, replicas: 2"),
		logUser("admin", "authentication: {type: Scram}"),
		logUser("bob", "authentication: {type: TLS}, acls: [{resource: {type: Topic, name: orders}, "+
			"operations: [Write]}]"))
	r.line("user bob authentication=TLS acls=1")
	// Each broker applies the change independently, and a client may connect to any of them.
	await.Until(t, "bob is allowed to write", func() bool {
		err := produceOne(t.Context(), connectAs(t, opts, "bob"), "orders")
		if err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Fatalf("bob with an ACL: %v", err)
		}
		return err == nil
	})
	await.Until(t, "alice, whose manifest was removed, is refused", func() bool {
		err := connectAs(t, opts, "alice").Ping(t.Context())
		if err != nil && !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Fatalf("alice, whose manifest was removed: %v", err)
		}
		return err != nil
	})
	admin := kadm.NewClient(connectAs(t, opts, "admin"))
	if _, err := admin.CreateTopic(t.Context(), 1, 2, nil, "bills"); err != nil {
		t.Errorf("the super user: %v", err)
	}
	info, err := os.Stat(filepath.Join(opts.DataDir, "users", "admin", "password"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the password is readable by others: %v, %v", info.Mode(), err)
	}
}

// TestSecurityIsKeptWithoutManifests restarts a cluster without manifests, and checks that CAs,
// users and ACLs remain.
func TestSecurityIsKeptWithoutManifests(t *testing.T) {
	opts := options(t, logCluster(securedCluster), topic("orders", "partitions: 1, replicas: 2"),
		logUser("alice", "authentication: {type: Scram}, acls: [{resource: {type: Topic, name: "+
			"orders}, operations: [Write]}]"))
	start(t, opts).stop()
	before := userFile(t, opts, "alice", "password") + userFile(t, opts, "alice", "ca.crt")
	opts.Manifests = nil
	start(t, opts)
	if after := userFile(t, opts, "alice", "password") + userFile(t, opts, "alice",
		"ca.crt"); after != before {
		t.Error("the password or the CA changed")
	}
	if err := produceOne(t.Context(), connectAs(t, opts, "alice"), "orders"); err != nil {
		t.Error(err)
	}
}

func TestListenersCannotChangeWhileTheClusterRuns(t *testing.T) {
	opts := options(t, logCluster("brokers: 1"))
	r := start(t, opts)
	put(t, opts, "all.yaml", logCluster("brokers: 1, authorization: {type: Simple}"))
	r.log.await("listeners and peers cannot change while heartwood dev runs")
}

func TestSecurityNeedsMutualTLSBetweenBrokers(t *testing.T) {
	opts := options(t, logCluster("brokers: 1, peers: Plain, authorization: {type: Simple}"))
	if err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "spec.peers") {
		t.Errorf("got %v", err)
	}
}

// TestKubernetesFieldsAreNamed checks that the log names fields that refer to Secrets and issuers
// on Kubernetes, because they have no effect here. The log also contains the alternative.
func TestKubernetesFieldsAreNamed(t *testing.T) {
	const spec = `brokers: 1, listeners: [{name: tls, port: 9093, tls: {secretName: corp},
  authentication: [{type: ScramSha512}]}]`
	user := func(annotations, more string) string {
		return strings.Replace(logUser("alice", "authentication: {type: Scram, passwordFrom: "+
			"{name: a, key: b}}"+more), "name: alice", "name: alice, annotations: {"+annotations+"}", 1)
	}
	opts := options(t, logCluster(spec), user("", ""))
	r := start(t, opts)
	r.log.await("tls.secretName and tls.issuerRef need Kubernetes")
	r.log.await("passwordFrom needs Kubernetes; write the password to " + opts.DataDir)
	before := userFile(t, opts, "alice", "password")
	acl := ", acls: [{resource: {type: Topic, name: orders}, operations: [Write]}]"
	put(t, opts, "all.yaml", logCluster(spec), user("heartwood.dev/rotate: '1'", acl))
	r.line("user alice authentication=Scram acls=1") // the users' files have been written
	password := filepath.Join(opts.DataDir, "users", "alice", "password")
	r.log.await("delete " + password)
	if err := os.Remove(password); err != nil {
		t.Fatal(err)
	}
	put(t, opts, "all.yaml", logCluster(spec), user("heartwood.dev/rotate: '2'", ""))
	await.For(t, func() string {
		content, err := os.ReadFile(password)
		if err == nil && len(content) > 0 && string(content) != before {
			return ""
		}
		return "there is a new password: " + r.log.String()
	})
}

// TestPasswordsAreNotLogged is trap 30 of docs/internals/attacks.md (CVE-2026-33558). At level
// debug, no log message may contain a password, a proof or a key, whether an authentication
// succeeds or fails.
func TestPasswordsAreNotLogged(t *testing.T) {
	opts := options(t, logCluster(securedCluster), topic("orders", "partitions: 1, replicas: 2"),
		logUser("admin", "authentication: {type: Scram}"),
		logUser("bob", "authentication: {type: TLS}"))
	r := startAt(t, opts, slog.LevelDebug)
	admin := kadm.NewClient(connectAs(t, opts, "admin"))
	const chosen = "chosen-password-of-carol"
	if _, err := admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "carol",
		Mechanism: kadm.ScramSha512, Iterations: 4096, Password: chosen}}); err != nil {
		t.Fatal(err)
	}
	secrets := []string{chosen, userFile(t, opts, "admin", "password"), "PRIVATE KEY", ",p="}
	if err := os.WriteFile(filepath.Join(opts.DataDir, "users", "admin", "password"),
		[]byte("wrong-password-of-admin"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := connectAs(t, opts, "admin").Ping(t.Context()); !errors.Is(err,
		kerr.SaslAuthenticationFailed) {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := connectAs(t, opts, "bob").Ping(t.Context()); err != nil {
		t.Error(err)
	}
	r.log.await("authentication failed")
	r.stop()
	log := r.log.String()
	for _, secret := range append(secrets, "wrong-password-of-admin") {
		if strings.Contains(log, secret) {
			t.Errorf("the log contains %q", secret)
		}
	}
}
