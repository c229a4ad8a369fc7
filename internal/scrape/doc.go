// Package scrape contains what the collectors of a broker's metrics share: which series of a
// partition a scrape includes, and sums over partitions that come and go.
//
// A broker may hold thousands of partitions, so the number of series of a partition is limited
// (ADR 0285). By default a collector exports at most 20 series of a partition, those of the
// default dashboards and alerts. Values that dashboards show as sums are exported as one series for
// each broker instead. With spec.metrics.partitions Full of the LogCluster, a collector exports
// every series of a partition.
//
// Level may be used concurrently. Totals is pure; the collector that owns it holds a lock.
package scrape
