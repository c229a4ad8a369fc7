package reports

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// failingMax is the maximum number of clients in the message of condition ClientsFailing.
const failingMax = 20

// reportFailing sets condition ClientsFailing if a cluster authenticates clients; otherwise it
// removes the condition. If no broker responds, the condition does not change. reportFailing
// returns an error only if ctx ends.
func (c *Collector) reportFailing(ctx context.Context, cluster *v1alpha1.LogCluster) error {
	if c.status == nil {
		return nil
	}
	if !cluster.Spec.Listeners.Authenticate() {
		return c.status.Remove(ctx, cluster, v1alpha1.ConditionClientsFailing)
	}
	responses := make([]*report.FailingClients, cluster.Spec.Brokers)
	var group errgroup.Group
	group.SetLimit(concurrentRequests)
	for id := range cluster.Spec.Brokers {
		group.Go(func() error {
			var err error
			responses[id], err = get[report.FailingClients](ctx, c, cluster, id,
				"/api/v1/failing-clients")
			if err != nil { // the broker is down
				ctrl.LoggerFrom(ctx).V(1).Info("failed to read a broker's failing clients", "cluster",
					cluster.Name, "broker", id, "error", err.Error())
			}
			return nil
		})
	}
	_ = group.Wait() // no function of the group returns an error
	responses = slices.DeleteFunc(responses, func(r *report.FailingClients) bool { return r == nil })
	if len(responses) == 0 {
		return nil
	}
	return c.status.Set(ctx, cluster, failingCondition(responses))
}

// failingClient is a client in the message of condition ClientsFailing. It contains neither brokers
// nor times, so the message does not change while a client tries one broker after the other.
type failingClient struct{ user, address, listener string }

func (f failingClient) describe(blocked bool) string {
	user := "unknown users or invalid credentials"
	if f.user != "" {
		user = fmt.Sprintf("user %q", f.user)
	}
	text := fmt.Sprintf("%s from %s at listener %s", user, f.address, f.listener)
	if blocked {
		text += " (blocked)"
	}
	return text
}

// failingCondition returns condition ClientsFailing.
func failingCondition(responses []*report.FailingClients) metav1.Condition {
	clients, more := map[failingClient]bool{}, 0
	for _, r := range responses {
		more += r.More
		for _, c := range r.Clients {
			key := failingClient{c.User, c.Address, c.Listener}
			clients[key] = clients[key] || c.Blocked
		}
	}
	if len(clients) == 0 {
		return metav1.Condition{Type: v1alpha1.ConditionClientsFailing,
			Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoFailures,
			Message: "No client fails to authenticate again and again."}
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionClientsFailing,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAuthenticationFailing}
	var texts []string
	for _, key := range slices.SortedFunc(maps.Keys(clients), compareFailing(clients)) {
		if clients[key] {
			condition.Reason = v1alpha1.ReasonClientsBlocked
		}
		texts = append(texts, key.describe(clients[key]))
	}
	if excess := len(texts) - failingMax; excess > 0 {
		texts, more = texts[:failingMax], more+excess
	}
	if more > 0 {
		texts = append(texts, "further clients")
	}
	condition.Message = "Clients fail to authenticate: " + strings.Join(texts, "; ") + ". Give them " +
		"the present password of their LogUser, or stop them; raise maxAuthenticationFailures of the " +
		"listener if blocked clients of a user should be admitted."
	return condition
}

// compareFailing compares clients. Blocked clients come first.
func compareFailing(blocked map[failingClient]bool) func(a, b failingClient) int {
	rank := func(c failingClient) int {
		if blocked[c] {
			return 0
		}
		return 1
	}
	return func(a, b failingClient) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.user, b.user),
			cmp.Compare(a.address, b.address), cmp.Compare(a.listener, b.listener))
	}
}
