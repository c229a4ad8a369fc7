//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
)

var update = flag.Bool("update", false, "rewrite golden files in testdata")

// token returns a token of ServiceAccount cleaner.
func (e *environment) token(t *testing.T, audience string) string {
	t.Helper()
	return strings.TrimSpace(e.kubectl(t, "create", "token", "cleaner", "--audience="+audience))
}

func (e *environment) audience() string {
	return v1alpha1.ServiceAccountAudience(e.namespace, securedCluster)
}

// forward forwards a port of broker 0 of the secured LogCluster, and returns the local address.
func (e *environment) forward(t *testing.T, port int) string {
	t.Helper()
	return e.forwardTo(t, "pod/"+securedCluster+"-broker-0", strconv.Itoa(port))
}

// forwardTo forwards a port of a pod or of a Service, and returns the local address.
func (e *environment) forwardTo(t *testing.T, target, port string) string {
	t.Helper()
	forwarder := exec.CommandContext(t.Context(), "kubectl", "--namespace", e.namespace,
		"port-forward", target, ":"+port)
	out, err := forwarder.StdoutPipe()
	if err == nil {
		err = forwarder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forwarder.Process.Kill(); _ = forwarder.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:40000 -> 9644
	fields := strings.Fields(line)
	if err != nil || len(fields) < 3 {
		t.Fatalf("forward port %s: %q, %v", port, line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return fields[2]
}

// accountClient connects with the token of a ServiceAccount, like a pod. It checks that the client
// can do only what its LogUser's ACLs allow.
func (e *environment) accountClient(t *testing.T, connect func(token string) *kgo.Client) {
	t.Helper()
	user := &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "cleaner"},
		Spec: v1alpha1.LogUserSpec{Cluster: securedCluster,
			UserName:       "system:serviceaccount:" + e.namespace + ":cleaner",
			Authentication: v1alpha1.UserAuthentication{Type: v1alpha1.UserExternal},
			ACLs: []v1alpha1.ACL{{Resource: v1alpha1.ACLResource{Type: "Topic", Name: "allowed"},
				Operations: []v1alpha1.ACLOperation{"Write"}}}}}
	if err := e.Create(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Delete(t.Context(), user) }()
	account := connect(e.token(t, e.audience()))
	write := func(topic string) error {
		return account.ProduceSync(t.Context(), &kgo.Record{Topic: topic,
			Value: []byte("v")}).FirstErr()
	}
	await.For(t, func() string { // until the brokers have received the LogUser
		if err := write("allowed"); err != nil {
			return fmt.Sprint("produce with the token of a ServiceAccount: ", err)
		}
		return ""
	})
	if err := write("forbidden"); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("produce to a topic without an ACL: %v", err)
	}
	if err := connect(e.token(t, "other")).Ping(t.Context()); err == nil {
		t.Error("a token for another audience was accepted")
	}
}

// anonymousClient sends requests to the listener without authentication, port 9092: the creation of
// a topic, and a follower's fetch. It sends them to the broker itself, because the advertised name
// does not resolve outside the pod network. It also checks that the port for brokers requires a
// certificate. Client writer has the permission to describe topic allowed.
func (e *environment) anonymousClient(t *testing.T, writer *kgo.Client) {
	t.Helper()
	known, err := kadm.NewClient(writer).ListTopics(t.Context(), "allowed")
	if err == nil {
		err = known.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	anonymous, err := kgo.NewClient(kgo.SeedBrokers(e.forward(t, 9092)))
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	broker := anonymous.SeedBrokers()[0]
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "anonymous", 1, 1
	create.Topics = append(create.Topics, topic)
	response, err := broker.Request(t.Context(), create)
	if err != nil {
		t.Fatal(err)
	}
	created := response.(*kmsg.CreateTopicsResponse)
	if code := created.Topics[0].ErrorCode; code != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("a client without authentication creates a topic: %v", kerr.ErrorForCode(code))
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.SessionEpoch, fetch.ReplicaState.ID, fetch.ReplicaState.Epoch = -1, 1, 1
	forged := kmsg.NewFetchRequestTopic()
	forged.Topic, forged.TopicID = "allowed", known["allowed"].ID
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 1 << 20
	forged.Partitions = append(forged.Partitions, partition)
	fetch.Topics = append(fetch.Topics, forged)
	if response, err = broker.Request(t.Context(), fetch); err != nil {
		t.Fatal(err)
	}
	fetched := response.(*kmsg.FetchResponse)
	if code := forgedCode(fetched); code != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("a client without authentication fetches as a follower: %v", kerr.ErrorForCode(code))
	}
	conn, err := tls.Dial("tcp", e.forward(t, v1alpha1.PeerPort),
		&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	if err == nil { // in TLS 1.3, the server's refusal arrives with the first bytes
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the port of brokers accepts a client without a certificate: %v", err)
	}
}

// forgedCode returns the error in the response to the fetch of one partition.
func forgedCode(response *kmsg.FetchResponse) int16 {
	if response.ErrorCode != 0 || len(response.Topics) == 0 {
		return response.ErrorCode
	}
	return response.Topics[0].Partitions[0].ErrorCode
}

// httpNeedsRights sends requests to the HTTP port. It checks that cleaning and reading metrics
// require the token of a ServiceAccount with the permission to do so.
func (e *environment) httpNeedsRights(t *testing.T) {
	t.Helper()
	var bundle corev1.Secret
	if err := e.Get(t.Context(), client.ObjectKey{
		Name: v1alpha1.CACertSecretName(securedCluster)}, &bundle); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle.Data[v1alpha1.KeyPeerCA])
	address := e.forward(t, v1alpha1.HTTPPort)
	server := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12,
			ServerName: securedCluster + "-brokers." + e.namespace + ".svc"}}}
	send := func(method, path, token string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+path,
			http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := server.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	const clean = "/api/v1/topics/forbidden/clean"
	right := e.token(t, e.audience())
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", "/healthz", "", http.StatusOK},
		{"POST", clean, "", http.StatusUnauthorized},
		{"GET", "/metrics", "", http.StatusUnauthorized},
		{"GET", "/api/v1/partitions", "", http.StatusUnauthorized},
		{"POST", clean, e.token(t, "other"), http.StatusUnauthorized},
		{"GET", "/metrics", right, http.StatusForbidden},
		{"POST", clean, right, http.StatusAccepted},
	} {
		if status, body := send(c.method, c.path, c.token); status != c.status {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, status, body, c.status)
		}
	}
	// In a broker's pod, the command uses the broker's certificate.
	e.kubectl(t, "exec", securedCluster+"-broker-1", "--", "/heartwood", "clean", "forbidden",
		"--wait")
	e.kubectl(t, "exec", securedCluster+"-broker-0", "--", "/heartwood", "partitions")
	until(t, "the operator to read the reports of brokers", func(ctx context.Context) string {
		var topic v1alpha1.Topic
		if err := e.Get(ctx, client.ObjectKey{Name: "forbidden"}, &topic); err != nil {
			return err.Error()
		}
		reported := meta.FindStatusCondition(topic.Status.Conditions, v1alpha1.ConditionCompacting)
		if reported == nil || reported.Reason == v1alpha1.ReasonUnknown {
			return fmt.Sprintf("condition Compacting is %+v", reported)
		}
		return ""
	})
}

// brokerRights compares the permissions of a broker's ServiceAccount with testdata.
func (e *environment) brokerRights(t *testing.T) {
	t.Helper()
	account := "system:serviceaccount:" + e.namespace + ":" + securedCluster + "-broker"
	out := e.kubectl(t, "auth", "can-i", "--list", "--as="+account,
		"--as-group=system:serviceaccounts", "--as-group=system:serviceaccounts:"+e.namespace,
		"--as-group=system:authenticated")
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		fields := strings.Fields(line)
		// The permissions that every account has depend on the version of Kubernetes.
		if len(fields) == 0 || strings.HasPrefix(line, "self") || fields[0][0] == '[' {
			continue
		}
		lines = append(lines, strings.Join(fields, " "))
	}
	slices.Sort(lines[1:])
	got := strings.Join(lines, "\n") + "\n"
	const path = "testdata/broker-rights.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the permissions of a broker differ from %s (-want +got):\n%s", path, diff)
	}
}
