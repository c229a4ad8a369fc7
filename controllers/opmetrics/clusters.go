package opmetrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// clusters exports the status of LogClusters as metrics. It reads the operator's cache when the
// metrics are scraped, so every operator exports the same current values.
type clusters struct{ reader client.Reader }

// readTimeout limits the time of a scrape, because the cache may not be filled yet.
const readTimeout = 5 * time.Second

var (
	clusterLabels = []string{"namespace", "logcluster"}
	conditionDesc = prometheus.NewDesc("heartwood_logcluster_condition",
		"1 for the present status and reason of each condition of a LogCluster.",
		[]string{"namespace", "logcluster", "type", "status", "reason"}, nil)
	brokersDesc = prometheus.NewDesc("heartwood_logcluster_brokers",
		"Number of brokers in the spec of a LogCluster.", clusterLabels, nil)
	readyBrokersDesc = prometheus.NewDesc("heartwood_logcluster_ready_brokers",
		"Number of available brokers of a LogCluster.", clusterLabels, nil)
	underReplicatedDesc = prometheus.NewDesc("heartwood_logcluster_under_replicated_partitions",
		"Number of partitions of a LogCluster without a leader or with a replica that is not in "+
			"sync.", clusterLabels, nil)
	leaderlessDesc = prometheus.NewDesc("heartwood_logcluster_leaderless_partitions",
		"Number of partitions of a LogCluster without a leader.", clusterLabels, nil)
	pausedDesc = prometheus.NewDesc("heartwood_logcluster_paused",
		"1 if the annotation heartwood.dev/paused pauses the changes of a LogCluster, else 0.",
		clusterLabels, nil)
	rebalanceActiveDesc = prometheus.NewDesc("heartwood_logcluster_rebalance_active",
		"1 while a run of moves of replicas has not ended, unless it waits for its window or for the "+
			"removal of the annotation heartwood.dev/paused, else 0.", clusterLabels, nil)
	rebalanceMovesDesc = prometheus.NewDesc("heartwood_logcluster_rebalance_completed_moves",
		"Number of completed moves of the present or last run.", clusterLabels, nil)
	rebalanceBytesDesc = prometheus.NewDesc("heartwood_logcluster_rebalance_copied_bytes",
		"Bytes that the present or last run has copied.", clusterLabels, nil)
)

// RegisterClusters registers the metrics of LogClusters with controller-runtime's registry. A
// second call in the same process fails.
func RegisterClusters(reader client.Reader) error {
	if err := metrics.Registry.Register(&clusters{reader}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (*clusters) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{conditionDesc, brokersDesc, readyBrokersDesc,
		underReplicatedDesc, leaderlessDesc, pausedDesc, rebalanceActiveDesc,
		rebalanceMovesDesc, rebalanceBytesDesc} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *clusters) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	list := &v1alpha1.LogClusterList{}
	if err := c.reader.List(ctx, list); err != nil {
		return // no metric, because an invalid one would fail the whole scrape
	}
	for i := range list.Items {
		cluster := &list.Items[i]
		gauge := func(desc *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value,
				cluster.Namespace, cluster.Name)
		}
		gauge(brokersDesc, float64(cluster.Spec.Brokers))
		gauge(readyBrokersDesc, float64(cluster.Status.ReadyBrokers))
		gauge(underReplicatedDesc, float64(cluster.Status.UnderReplicatedPartitions))
		gauge(leaderlessDesc, float64(cluster.Status.LeaderlessPartitions))
		gauge(pausedDesc, boolean(cluster.Paused()))
		run := cluster.Status.Rebalance
		if run == nil {
			run = &v1alpha1.RebalanceStatus{}
		}
		gauge(rebalanceActiveDesc, boolean(rebalances(cluster, run, time.Now())))
		gauge(rebalanceMovesDesc, float64(run.MovesDone))
		gauge(rebalanceBytesDesc, float64(run.BytesDone))
		for _, condition := range cluster.Status.Conditions {
			to <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, 1,
				cluster.Namespace, cluster.Name, condition.Type, string(condition.Status),
				condition.Reason)
		}
	}
}

// rebalances reports whether a run should make progress: the run has not ended, and waits neither
// for its window nor for the end of a pause. Outside its window, a run completes the moves that it
// has begun.
func rebalances(cluster *v1alpha1.LogCluster, run *v1alpha1.RebalanceStatus, now time.Time) bool {
	if !run.Phase.Active() || cluster.Paused() {
		return false
	}
	if spec := cluster.Spec.Rebalance; spec != nil && run.Phase == v1alpha1.RebalanceWaiting {
		inside, _ := spec.Window.Contains(now)
		return inside
	}
	return true
}

// boolean returns the metric value of b: 1 for true, 0 for false.
func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
