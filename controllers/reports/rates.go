package reports

import (
	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/operator/rebalance"
)

// rates returns the rates at which producers append to each partition after a round. before is the
// previous round, or nil. A partition keeps its rate if the rate cannot be measured in this round
// because the partition's leader has changed, has restarted or did not respond.
func rates(before, now *Cluster) map[report.TopicPartition]rebalance.Rate {
	if before == nil {
		return nil
	}
	found := map[report.TopicPartition]rebalance.Rate{}
	all := now.Responded == now.Polled
	for partition, rate := range before.Rates {
		if !all || len(now.Rows[partition.Topic]) > 0 {
			found[partition] = rate
		}
	}
	elapsed := now.At.Sub(before.At)
	if elapsed <= 0 {
		return found
	}
	type leader struct {
		report.TopicPartition
		broker int32
	}
	last := map[leader]int64{}
	each(before, func(row *report.Partition, partition report.TopicPartition) {
		last[leader{partition, row.Broker}] = row.ProducedBytes
	})
	each(now, func(row *report.Partition, partition report.TopicPartition) {
		// A restarted broker counts from 0 again.
		if bytes, known := last[leader{partition, row.Broker}]; known && row.ProducedBytes >= bytes {
			found[partition] = found[partition].Add(row.ProducedBytes-bytes, elapsed)
		}
	})
	return found
}

// each calls a function for each leader's row.
func each(c *Cluster, do func(*report.Partition, report.TopicPartition)) {
	for topic, rows := range c.Rows {
		for i := range rows {
			if rows[i].Leader {
				do(&rows[i], report.TopicPartition{Topic: topic, Partition: rows[i].Partition})
			}
		}
	}
}
