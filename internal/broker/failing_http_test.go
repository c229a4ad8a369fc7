package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
)

// TestFailingClientIsReportedAndBlockedAlone checks that if two users connect from the same
// address, and one uses an old password, only that user is reported as failing and blocked at the
// LogCluster's limit.
func TestFailingClientIsReportedAndBlockedAlone(t *testing.T) {
	c := newStoppedCluster(t, 1, "admin")
	limit := int32(3)
	c.brokers = Brokers{c.run(&Options{NodeID: 0, DataDir: t.TempDir(), Namespace: "ns",
		Cluster: "demo", Certificates: c.certificates(0), PeerListen: "127.0.0.1:0",
		PeerHost: "127.0.0.1",
		Listeners: []Listener{ListenerOf(&v1alpha1.Listener{Name: "tls", TLS: &v1alpha1.ListenerTLS{},
			MaxAuthenticationFailures: &limit, Authentication: []v1alpha1.Authentication{
				{Type: v1alpha1.AuthenticationScramSha512}}}, "127.0.0.1:0", "")}})}
	c.await()
	fetch := func() (answer report.FailingClients) {
		r := get(t, handlerOf(c.brokers...), "GET", "/api/v1/failing-clients")
		if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if got := fetch(); got.Clients == nil || len(got.Clients) != 0 {
		t.Fatalf("before the first failure: %+v", got)
	}
	await.Until(t, "alice is blocked", func() bool {
		if err := c.client("alice", "old").Ping(t.Context()); !errors.Is(err,
			kerr.SaslAuthenticationFailed) {
			t.Fatalf("alice with an old password: %v", err)
		}
		return len(fetch().Clients) == 1 && fetch().Clients[0].Blocked
	})
	if err := c.client("admin", "admin-secret").Ping(t.Context()); err != nil {
		t.Errorf("admin at the same address: %v", err)
	}
	if err := c.client("alice", "alice-secret").Ping(t.Context()); !errors.Is(err,
		kerr.SaslAuthenticationFailed) {
		t.Errorf("alice while she is blocked: %v", err)
	}
	want := report.FailingClient{Listener: "tls", Address: "127.0.0.1", User: "alice", Blocked: true}
	if got := fetch(); fmt.Sprint(got.Clients) != fmt.Sprint([]report.FailingClient{want}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
