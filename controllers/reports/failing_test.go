package reports

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestFailingConditionNamesUsersAndAddresses(t *testing.T) {
	client := func(user, address string, blocked bool) report.FailingClient {
		return report.FailingClient{Listener: "kafka", Address: address, User: user, Blocked: blocked}
	}
	many := &report.FailingClients{More: 3}
	for i := range 30 {
		many.Clients = append(many.Clients, client(fmt.Sprintf("user%02d", i), "10.0.0.1", false))
	}
	for name, c := range map[string]struct {
		brokers []*report.FailingClients
		reason  string
		has     []string
		lacks   string
	}{
		"none": {[]*report.FailingClients{{}, {}}, v1alpha1.ReasonNoFailures, nil, "alice"},
		"of an unknown user": {[]*report.FailingClients{{Clients: []report.FailingClient{
			client("", "10.0.0.1", false)}}}, v1alpha1.ReasonAuthenticationFailing,
			[]string{"unknown users or invalid credentials from 10.0.0.1 at listener kafka"},
			"(blocked)"},
		"at two brokers": {[]*report.FailingClients{
			{Clients: []report.FailingClient{client("bob", "10.0.0.1", false),
				client("zoe", "10.0.0.1", false)}},
			{Clients: []report.FailingClient{client("zoe", "10.0.0.1", true)}}},
			v1alpha1.ReasonClientsBlocked,
			[]string{`: user "zoe" from 10.0.0.1 at listener kafka (blocked); user "bob" from 10.0.0.1 ` +
				`at listener kafka. Give`}, "further"},
		"too many": {[]*report.FailingClients{many}, v1alpha1.ReasonAuthenticationFailing,
			[]string{`"user19"`, "; further clients. Give"}, `"user20"`},
	} {
		got := failingCondition(c.brokers)
		if got.Reason != c.reason ||
			(got.Status == metav1.ConditionTrue) != (c.reason != v1alpha1.ReasonNoFailures) {
			t.Errorf("%s: %+v, want reason %s", name, got, c.reason)
		}
		for _, text := range c.has {
			if !strings.Contains(got.Message, text) {
				t.Errorf("%s: message %q does not contain %q", name, got.Message, text)
			}
		}
		if strings.Contains(got.Message, c.lacks) {
			t.Errorf("%s: message %q contains %q", name, got.Message, c.lacks)
		}
	}
}
