package reports

import (
	"context"
	"net/url"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
)

// identify adds missing transactional ids to the rows. If a transaction blocks the cleaner and its
// transactional id is unknown, identify asks all brokers of the cluster for their transactions. A
// partition's leader reports the id itself only if it also coordinates the transaction.
func (c *Collector) identify(ctx context.Context, cluster *v1alpha1.LogCluster,
	responses []*report.Partitions) {
	if !unidentified(responses) {
		return
	}
	path := "/api/v1/transactions?" + url.Values{"state": report.OpenStates}.Encode()
	known := make([]*report.Transactions, len(responses))
	var group errgroup.Group
	group.SetLimit(concurrentRequests)
	for id := range cluster.Spec.Brokers {
		if responses[id] == nil {
			continue // no response to the first request either
		}
		group.Go(func() error {
			var err error
			known[id], err = get[report.Transactions](ctx, c, cluster, id, path)
			if err != nil { // the broker is loading
				ctrl.LoggerFrom(ctx).V(1).Info("failed to read a broker's transactions", "cluster",
					cluster.Name, "broker", id, "error", err.Error())
			}
			return nil
		})
	}
	_ = group.Wait() // no function of the group returns an error
	addIDs(responses, known)
}

// unidentified reports whether a transaction without a transactional id blocks the cleaner.
func unidentified(responses []*report.Partitions) bool {
	for _, response := range responses {
		if response == nil {
			continue
		}
		for i := range response.Partitions {
			row := &response.Partitions[i]
			if row.Leader && row.OldestTransaction != nil && row.Compaction != nil &&
				row.Compaction.Reason == v1alpha1.ReasonBlockedByOpenTransaction &&
				row.OldestTransaction.TransactionalID == "" {
				return true
			}
		}
	}
	return false
}

// addIDs adds the transactional ids known to all coordinators to the rows. It ignores missing
// responses.
func addIDs(responses []*report.Partitions, known []*report.Transactions) {
	all := report.Transactions{}
	for _, response := range known {
		if response != nil {
			all.TransactionalIDs = append(all.TransactionalIDs, response.TransactionalIDs...)
		}
	}
	for _, response := range responses {
		if response != nil {
			all.Identify(response.Partitions)
		}
	}
}
