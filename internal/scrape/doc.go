// Package scrape contains code that the collectors of a broker's metrics share. It determines which
// of a partition's series are exported, and computes sums over partitions that can be added and
// removed.
//
// A broker can have thousands of partitions, so the number of series per partition is limited (ADR
// 0285). By default a collector exports at most 20 series per partition, which the default
// dashboards and alerts use. Values that dashboards show only as sums are exported as one series
// per broker. If the LogCluster sets spec.metrics.partitions to Full, a collector exports all of a
// partition's series.
//
// Level may be used concurrently. Totals is pure; the collector that owns it holds a lock.
package scrape
