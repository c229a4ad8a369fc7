package reports

import "heartwood.dev/heartwood/api/report"

// rates returns the bytes per second that producers appended to each partition between two rounds.
// before may be nil.
func rates(before, now *Cluster) map[report.TopicPartition]int64 {
	if before == nil {
		return nil
	}
	seconds := now.At.Sub(before.At).Seconds()
	if seconds <= 0 {
		return nil
	}
	type leader struct {
		report.TopicPartition
		broker int32
	}
	last := map[leader]int64{}
	each(before, func(row *report.Partition, of report.TopicPartition) {
		last[leader{of, row.Broker}] = row.ProducedBytes
	})
	found := map[report.TopicPartition]int64{}
	each(now, func(row *report.Partition, of report.TopicPartition) {
		// A broker that has restarted counts from 0.
		if bytes, known := last[leader{of, row.Broker}]; known && row.ProducedBytes >= bytes {
			found[of] = int64(float64(row.ProducedBytes-bytes) / seconds)
		}
	})
	return found
}

// each calls a function for the rows of all leaders.
func each(c *Cluster, do func(*report.Partition, report.TopicPartition)) {
	for topic, rows := range c.Rows {
		for i := range rows {
			if rows[i].Leader {
				do(&rows[i], report.TopicPartition{Topic: topic, Partition: rows[i].Partition})
			}
		}
	}
}
