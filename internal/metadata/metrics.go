package metadata

import "heartwood.dev/heartwood/api/v1alpha1"

// Metrics configures which metrics brokers export.
type Metrics struct {
	// AllOfPartitions exports every series of each partition, not only the default ones.
	AllOfPartitions bool
}

// ResolveMetrics returns the metrics of a LogCluster, which may be nil.
func ResolveMetrics(cluster *v1alpha1.LogCluster) Metrics {
	if cluster == nil || cluster.Spec.Metrics == nil {
		return Metrics{}
	}
	return Metrics{AllOfPartitions: cluster.Spec.Metrics.Partitions == v1alpha1.PartitionMetricsFull}
}
