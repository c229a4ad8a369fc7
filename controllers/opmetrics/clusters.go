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

// clusters exports the status of LogClusters. It reads the cache of the operator when the metrics
// are scraped, so that every operator exports the same values and none is out of date.
type clusters struct{ reader client.Reader }

// readTimeout limits the time of a scrape, as the cache may not have been filled yet.
const readTimeout = 5 * time.Second

var (
	clusterLabels = []string{"namespace", "logcluster"}
	conditionDesc = prometheus.NewDesc("heartwood_logcluster_condition",
		"1 for the present status and reason of each condition of a LogCluster.",
		[]string{"namespace", "logcluster", "type", "status", "reason"}, nil)
	brokersDesc = prometheus.NewDesc("heartwood_logcluster_brokers",
		"Number of brokers that a LogCluster requests.", clusterLabels, nil)
	readyBrokersDesc = prometheus.NewDesc("heartwood_logcluster_ready_brokers",
		"Number of available brokers of a LogCluster.", clusterLabels, nil)
	underReplicatedDesc = prometheus.NewDesc("heartwood_logcluster_under_replicated_partitions",
		"Number of partitions of a LogCluster without a leader or with a replica that is not in "+
			"sync.", clusterLabels, nil)
	pausedDesc = prometheus.NewDesc("heartwood_logcluster_paused",
		"1 if the annotation heartwood.dev/paused pauses the changes of a LogCluster, else 0.",
		clusterLabels, nil)
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
		underReplicatedDesc, pausedDesc} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *clusters) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	list := &v1alpha1.LogClusterList{}
	if err := c.reader.List(ctx, list); err != nil {
		return // an invalid metric would fail the whole scrape
	}
	for i := range list.Items {
		cluster := &list.Items[i]
		gauge := func(desc *prometheus.Desc, value int32) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value),
				cluster.Namespace, cluster.Name)
		}
		gauge(brokersDesc, cluster.Spec.Brokers)
		gauge(readyBrokersDesc, cluster.Status.ReadyBrokers)
		gauge(underReplicatedDesc, cluster.Status.UnderReplicated)
		paused := int32(0)
		if cluster.Paused() {
			paused = 1
		}
		gauge(pausedDesc, paused)
		for _, condition := range cluster.Status.Conditions {
			to <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, 1,
				cluster.Namespace, cluster.Name, condition.Type, string(condition.Status),
				condition.Reason)
		}
	}
}
