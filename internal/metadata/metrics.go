package metadata

import "heartwood.dev/heartwood/api/v1alpha1"

// Metrics determines which metrics brokers export.
type Metrics struct {
	// AllOfPartitions means that brokers export all series of each partition, and not only the default
	// ones.
	AllOfPartitions bool
}

// ResolveMetrics returns a LogCluster's settings for metrics. cluster may be nil.
func ResolveMetrics(cluster *v1alpha1.LogCluster) Metrics {
	if cluster == nil || cluster.Spec.Metrics == nil {
		return Metrics{}
	}
	return Metrics{AllOfPartitions: cluster.Spec.Metrics.Partitions == v1alpha1.PartitionMetricsFull}
}
