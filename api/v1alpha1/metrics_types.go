package v1alpha1

// Metrics configures which metrics brokers export. Changes take effect at the next scrape.
type Metrics struct {
	// Partitions is Basic or Full: which series brokers export for each partition. Basic are at most
	// 20, which the dashboards and alerts of the chart need. Full are some fifty for each compacted
	// partition, which a Prometheus must be large enough for; docs/metrics.md lists them. Default
	// Basic.
	// +optional
	Partitions PartitionMetrics `json:"partitions,omitempty"`
}

// PartitionMetrics is which series brokers export for each partition.
// +kubebuilder:validation:Enum=Basic;Full
type PartitionMetrics string

const (
	// PartitionMetricsBasic exports the series that the dashboards and alerts of the chart need.
	PartitionMetricsBasic PartitionMetrics = "Basic"
	// PartitionMetricsFull exports all series.
	PartitionMetricsFull PartitionMetrics = "Full"
)
