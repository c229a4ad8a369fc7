package broker

import (
	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/replica"
)

// Report returns the rows of GET /api/v1/partitions for this broker, sorted by topic and partition.
func (b *Broker) Report() []report.Partition {
	states := b.replicas.States()
	rows := make([]report.Partition, 0, len(states))
	for _, state := range states {
		rows = append(rows, b.row(state))
	}
	return rows
}

// row returns the current state of a partition. The rows of a report are computed one after the
// other, so they represent slightly different times.
func (b *Broker) row(state replica.State) report.Partition {
	row := report.Partition{
		Broker: b.opts.NodeID, Topic: state.ID.Topic, Partition: state.ID.Index,
		Leader: state.Leader, LeaderEpoch: state.LeaderEpoch,
		ProducedBytes: state.ProducedBytes,
	}
	if state.Fault != nil {
		row.Fault = state.Fault.Error()
	}
	if state.Log == nil { // the log could not be opened
		return row
	}
	stats := state.Log.Stats()
	row.SizeBytes, row.Segments = stats.SizeBytes, stats.Segments
	row.LogStartOffset, row.LogEndOffset = stats.LogStart, stats.LogEnd
	row.HighWatermark, row.LastStableOffset = stats.HighWatermark, stats.LastStable
	var oldest logstore.Transaction
	if row.OpenTransactions, oldest = state.Log.OpenTransactions(); row.OpenTransactions > 0 {
		row.OldestTransaction = new(b.transactionRow(state.ID, oldest))
	}
	if row.Compaction = b.cleaner.Status(state.ID); row.Compaction != nil {
		row.Compaction.CleanNow = b.cleanNow.Status(state.ID)
	}
	return row
}

// observer returns functions that send the cleaner's passes and the steps of passes to the hub of
// the HTTP port.
func (b *Broker) observer() passlog.Observer {
	return passlog.Observer{
		Pass: func(pass report.PartitionPass) {
			if hub := b.events.Load(); hub != nil {
				hub.Pass(pass)
			}
		},
		Step: func(step report.StepEvent) {
			if hub := b.events.Load(); hub != nil {
				hub.Step(step)
			}
		},
	}
}
