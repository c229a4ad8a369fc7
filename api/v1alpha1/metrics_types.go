package v1alpha1

// Metrics configures which metrics brokers export. Changes take effect at the next scrape.
type Metrics struct {
	// Partitions is Basic or Full: the set of series that brokers export for each partition. Basic has
	// at most 20 series, which the chart's dashboards and alerts need. Full has some fifty series for
	// each compacted partition, for which Prometheus must be large enough; docs/operate/metrics.md
	// lists them. Default Basic.
	// +optional
	Partitions PartitionMetrics `json:"partitions,omitempty"`
}

// PartitionMetrics is the set of series that brokers export for each partition.
// +kubebuilder:validation:Enum=Basic;Full
type PartitionMetrics string

const (
	// PartitionMetricsBasic exports the series that the chart's dashboards and alerts need.
	PartitionMetricsBasic PartitionMetrics = "Basic"
	// PartitionMetricsFull exports all series.
	PartitionMetricsFull PartitionMetrics = "Full"
)
