package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/reachability"
)

// reportValidFor is the time for which the report in a Lease is valid, from the last observed
// renewal on. A live broker renews its Lease every lease.RenewInterval.
const reportValidFor = 2 * lease.RenewInterval

// isolation detects brokers that are cut off from the other brokers of their cluster, and marks
// them with an annotation on their Leases. Elections and all brokers read this annotation.
//
// The cached Leases can be outdated, for example after an interruption of the watch. So a mark is
// written only if the Leases read from the API server itself lead to the same decision. The write
// succeeds only if the Lease has not changed since that read.
type isolation struct {
	client.Client
	// live reads from the API server itself.
	live    client.Reader
	brokers *brokerstate.Tracker
	events  conditions.Recorder
	// decisions contains the state of each cluster in which a broker has reported another broker as
	// unreachable.
	decisions keyed.Map[*reachability.Isolation]
}

// evaluate decides which brokers of a cluster are isolated, and marks them. If no broker reports
// another as unreachable and no broker is marked, it reads only from the cache.
func (i *isolation) evaluate(ctx context.Context, cluster types.NamespacedName) error {
	leases, err := i.leases(ctx, i.Client, cluster)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(leases, concernsReachability) {
		i.decisions.Delete(cluster)
		return nil
	}
	decision, known := i.decisions.Get(cluster)
	if !known {
		decision = &reachability.Isolation{}
		i.decisions.Set(cluster, decision)
	}
	if len(i.changes(ctx, decision, leases)) == 0 {
		return nil
	}
	if leases, err = i.leases(ctx, i.live, cluster); err != nil {
		return err
	}
	for _, l := range i.changes(ctx, decision, leases) {
		if err := i.mark(ctx, cluster, l); err != nil {
			return err
		}
	}
	return nil
}

// concernsReachability reports whether a Lease contains a report or a mark.
func concernsReachability(l coordinationv1.Lease) bool {
	return v1alpha1.ReadRegistration(&l).Unreachable != "" ||
		l.Annotations[v1alpha1.AnnotationIsolated] != ""
}

// leases lists the Leases of a cluster's brokers.
func (i *isolation) leases(ctx context.Context, reader client.Reader,
	cluster types.NamespacedName) ([]coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerstate.ReadTimeout)
	defer cancel()
	list := &coordinationv1.LeaseList{}
	if err := reader.List(ctx, list, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list the leases of brokers: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(l coordinationv1.Lease) bool {
		_, _, ok := lease.Broker(&l)
		return !ok
	}), nil
}

// change is a Lease whose mark must change.
type change struct {
	lease    *coordinationv1.Lease
	isolated bool
	report   reachability.Report // live brokers with which this broker cannot exchange messages
}

// changes returns the Leases whose marks differ from the decision.
func (i *isolation) changes(ctx context.Context, decision *reachability.Isolation,
	leases []coordinationv1.Lease) (all []change) {
	now := time.Now()
	byPeer := map[reachability.Peer]*coordinationv1.Lease{}
	var brokers []reachability.Broker
	for n := range leases {
		b, ok := i.broker(ctx, &leases[n], now)
		if ok {
			byPeer[b.Peer] = &leases[n]
			brokers = append(brokers, b)
		}
	}
	isolated := decision.Decide(brokers, now)
	for _, b := range brokers {
		if is := slices.Contains(isolated, b.Peer); is != b.Isolated {
			all = append(all, change{byPeer[b.Peer], is, reachability.Disconnected(brokers, b)})
		}
	}
	return all
}

// broker returns the broker that holds a Lease. ok is false if the broker is not alive, or is in
// controlled shutdown.
func (i *isolation) broker(ctx context.Context, l *coordinationv1.Lease,
	now time.Time) (b reachability.Broker, ok bool) {
	state, until, err := i.brokers.State(ctx, client.ObjectKeyFromObject(l))
	_, id, _ := lease.Broker(l)
	if err != nil || state.Liveness != placement.Up || state.Epoch != lease.Epoch(l) ||
		lease.Leaving(l) {
		return reachability.Broker{}, false
	}
	b = reachability.Broker{Peer: reachability.Peer{Broker: id, Epoch: state.Epoch},
		Isolated: lease.Isolated(l)}
	if until.Sub(now) > lease.Duration-reportValidFor {
		b.Report = reachability.ParseReport(v1alpha1.ReadRegistration(l).Unreachable)
	}
	return b, true
}

// mark writes or removes a mark. After a conflict, the event of the write that caused it triggers
// another evaluation.
func (i *isolation) mark(ctx context.Context, cluster types.NamespacedName, c change) error {
	value := ""
	if c.isolated {
		value = strconv.FormatInt(lease.Epoch(c.lease), 10)
	}
	written, err := setAnnotation(ctx, i.Client, c.lease, v1alpha1.AnnotationIsolated, value)
	if err != nil || !written {
		return err
	}
	_, id, _ := lease.Broker(c.lease)
	logger := ctrl.LoggerFrom(ctx).WithValues("broker", id)
	owner := &v1alpha1.LogCluster{}
	if err := i.Get(ctx, cluster, owner); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !c.isolated {
		logger.Info("broker is no longer isolated")
		i.events.Normal(owner, v1alpha1.EventBrokerReconnected, "Elect",
			"Broker %d reaches the other brokers again. It may be in sync and lead again.", id)
		return nil
	}
	logger.Info("broker is isolated", "from", c.report.String())
	i.events.Warning(owner, v1alpha1.EventBrokerIsolated, "Elect",
		"Broker %d is cut off from brokers %s: other brokers lead its partitions until it reaches "+
			"them again. Check the network between the nodes.", id, c.report.IDs())
	return nil
}
