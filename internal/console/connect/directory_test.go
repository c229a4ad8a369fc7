package connect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/devcluster"
)

// secured is a cluster that accepts passwords and certificates. The ACLs of user console are those
// in docs/use/console.md.
const secured = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: demo}
spec:
  brokers: 1
  listeners:
    - {name: tls, port: 9093, tls: {}, authentication: [{type: ScramSha512}]}
    - {name: mtls, port: 9094, tls: {}, authentication: [{type: TLS}]}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: orders}
spec: {cluster: demo, partitions: 1, replicas: 1}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: secret}
spec: {cluster: demo, partitions: 1, replicas: 1}
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: console}
spec:
  cluster: demo
  authentication: {type: Scram}
  acls:
    - {resource: {type: Topic, name: orders}, operations: [Read, DescribeConfigs]}
    - {resource: {type: Group, name: "*"}, operations: [Describe]}
    - {resource: {type: Cluster, name: kafka-cluster}, operations: [Describe]}
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: app}
spec:
  cluster: demo
  authentication: {type: TLS}
  acls:
    - {resource: {type: Topic, name: "*"}, operations: [Read, Write, DescribeConfigs]}
    - {resource: {type: Group, name: "*"}, operations: [Read]}
`

// TestDirectoryConnects checks that the console can read messages, groups and settings of a secured
// cluster with a LogUser's files, with a password and with a certificate. The ACLs of the user must
// suffice.
func TestDirectoryConnects(t *testing.T) {
	cluster := devcluster.Start(t, 1, secured)
	users := filepath.Join(cluster.DataDir, "users")
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	bootstrap, options, err := Directory(filepath.Join(users, "app")).Connect()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap...),
		kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("hello")}).
		FirstErr(); err != nil {
		t.Fatal(err)
	}
	if fetches := client.PollRecords(ctx, 1); fetches.Err() != nil {
		t.Fatal(fetches.Err())
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"console", "app"} {
		bootstrap, options, err := Directory(filepath.Join(users, user)).Connect()
		if err != nil {
			t.Fatal(err)
		}
		reader, err := kafka.New(bootstrap, options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(reader.Close)
		page, err := reader.Browse(ctx, kafka.Query{Topic: "orders"})
		if err != nil || len(page.Records) != 1 || string(page.Records[0].Value) != "hello" {
			t.Errorf("%s: messages: %+v, %v", user, page, err)
		}
		settings, err := reader.Settings(ctx, "orders")
		if err != nil || len(settings) == 0 {
			t.Errorf("%s: settings: %v, %v", user, settings, err)
		}
		groups, _, err := reader.Groups(ctx)
		if err != nil || len(groups) != 1 || groups[0].Name != "readers" {
			t.Errorf("%s: groups: %+v, %v", user, groups, err)
		}
		checkUsers(ctx, t, reader, user == "console")
		if page, err := reader.Browse(ctx, kafka.Query{Topic: "secret"}); user == "console" &&
			(err == nil || len(page.Records) > 0) {
			t.Errorf("the ACLs do not limit the console: %+v, %v", page, err)
		}
	}
}

// checkUsers checks that only a client that may describe the cluster can read users and ACLs. A
// client without the right to write must not be able to produce or change a group.
func checkUsers(ctx context.Context, t *testing.T, reader *kafka.Client, may bool) {
	t.Helper()
	acls, err := reader.ACLs(ctx)
	users, failed := reader.Users(ctx)
	read := kafka.ACL{Principal: "User:console", Host: "*", Resource: "topic", Name: "orders",
		Pattern: "literal", Operation: "read"}
	if may && (err != nil || failed != nil || !slices.Contains(acls, read) || len(users) != 1 ||
		users[0].Name != "console" || len(users[0].Mechanisms) == 0) {
		t.Errorf("got ACLs %+v, %v, users %+v, %v", acls, err, users, failed)
	}
	if !may {
		if !kafka.Denied(err) || !kafka.Denied(failed) {
			t.Errorf("got errors %v and %v, want refusals", err, failed)
		}
		return
	}
	_, _, err = reader.Produce(ctx, "orders", kafka.Record{Partition: kafka.AnyPartition,
		Value: []byte("x")})
	if !kafka.Denied(err) {
		t.Errorf("produce: got %v, want a refusal", err)
	}
	if err := reader.DeleteGroup(ctx, "readers"); !kafka.Denied(err) {
		t.Errorf("delete group: got %v, want a refusal", err)
	}
	if err := reader.ChangeOffsets(ctx, "readers", []kafka.Change{{Topic: "orders"}}); !kafka.Denied(
		err) {
		t.Errorf("change offsets: got %v, want a refusal", err)
	}
}

// TestIncompleteDirectories checks that the error names the missing file or entry, and contains no
// password.
func TestIncompleteDirectories(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(want string) {
		t.Helper()
		_, _, err := Directory(dir).Connect()
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	fails("no file username")
	write("username", "console")
	write("password", "hunter2")
	fails("no listener accepts the LogUser")
	write("librdkafka.conf", "security.protocol=sasl_ssl\nsasl.mechanisms=SCRAM-SHA-512\n")
	if _, options, err := Directory(dir).Connect(); err != nil || len(options) != 2 {
		t.Errorf("got %d options, %v", len(options), err)
	}
	write("ca.crt", strings.Repeat("x", fileBytesMax+1))
	fails("ca.crt is too large")
}

// TestChosenListener checks that the first listener that accepts the credentials is chosen. A
// listener without authentication is chosen only if no listener accepts them.
func TestChosenListener(t *testing.T) {
	password := map[string][]byte{"username": []byte("u"), "password": []byte("p")}
	key := map[string][]byte{"username": []byte("u"), "user.key": []byte("k")}
	token := func(context.Context) (string, error) { return "", errors.New("not used") }
	way := func(kind v1alpha1.AuthenticationType) v1alpha1.Authentication {
		return v1alpha1.Authentication{Type: kind}
	}
	foreign, accounts := way(v1alpha1.AuthenticationOAuthBearer),
		way(v1alpha1.AuthenticationOAuthBearer)
	foreign.OAuth = &v1alpha1.OAuth{Issuer: "https://idp.example.com"}
	accounts.OAuth = &v1alpha1.OAuth{ServiceAccounts: true}
	listeners := []v1alpha1.Listener{
		{Name: "idp", Authentication: []v1alpha1.Authentication{foreign}},
		{Name: "mtls", Authentication: []v1alpha1.Authentication{
			way(v1alpha1.AuthenticationTLS)}},
		{Name: "scram", Authentication: []v1alpha1.Authentication{
			way(v1alpha1.AuthenticationScramSha256)}},
		{Name: "pods", Authentication: []v1alpha1.Authentication{accounts}},
	}
	plain := slices.Concat([]v1alpha1.Listener{{Name: "plain"}}, listeners)
	for _, test := range []struct {
		own       Credentials
		listeners []v1alpha1.Listener
		name      string
		want      string // "": no listener
	}{
		{Credentials{}, listeners, "", ""}, {Credentials{}, plain, "", "plain"},
		{Credentials{User: password}, listeners, "", "scram"},
		{Credentials{User: key}, listeners, "", "mtls"},
		{Credentials{User: key}, plain, "", "mtls"}, {Credentials{User: key}, plain, "plain", "plain"},
		{Credentials{Token: token}, listeners, "", "pods"},
		{Credentials{User: password, Token: token}, listeners, "pods", "pods"},
		{Credentials{User: password}, listeners, "mtls", ""},
		{Credentials{User: password}, listeners, "nothing", ""},
	} {
		got, err := test.own.Choose(test.listeners, test.name)
		name := ""
		if got != nil {
			name = got.Name
		}
		if name != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: got %q, %v", test, name, err)
		}
	}
}
