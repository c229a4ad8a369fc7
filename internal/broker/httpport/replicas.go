package httpport

import (
	"fmt"
	"net/http"
	"slices"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// handleReplicas adds the replicas endpoint.
func handleReplicas(mux *http.ServeMux, brokers func() Brokers) {
	mux.HandleFunc("GET /api/v1/topics/{topic}/replicas",
		func(w http.ResponseWriter, r *http.Request) {
			answer, err := brokers().ReplicasOf(r.PathValue("topic"))
			respondReport(w, answer, err)
		})
}

// ReplicasOf returns the replicas of all partitions of a topic.
func (all Brokers) ReplicasOf(name string) (report.Replicas, error) {
	answer := report.Replicas{Topic: name, Partitions: []report.ReplicatedPartition{},
		Brokers: []report.BrokerHost{}}
	image := all.Image()
	if image == nil {
		return answer, ErrStarting
	}
	topic := image.Topic(name)
	if topic == nil {
		return answer, fmt.Errorf("%w %q", ErrUnknownTopic, name)
	}
	leads := all.leaders()
	for _, p := range topic.Partitions {
		id := logstore.PartitionID{Topic: name, Index: p.Index}
		row := report.ReplicatedPartition{Partition: p.Index, Leader: p.Leader,
			LeaderEpoch: p.LeaderEpoch, MinInSyncReplicas: topic.Settings.MinInSyncReplicas}
		_, row.Reason = all.replication(p, row.MinInSyncReplicas, leads[p.Leader], id)
		state, leading := leads[p.Leader][id]
		if row.Reported = leading; leading && state.Log != nil {
			stats := state.Log.Stats()
			row.LogStartOffset, row.LogEndOffset = &stats.LogStart, &stats.LogEnd
			row.HighWatermark = &stats.HighWatermark
		}
		row.Replicas = replicaRows(p, state.Lags, leading)
		answer.Partitions = append(answer.Partitions, row)
	}
	answer.Brokers = HostsOf(image)
	return answer, nil
}

// replicaRows returns the partition's replicas, followed by the replicas that a reassignment adds.
// lags contains the lags reported by the leader.
func replicaRows(p *metadata.Partition, lags map[int32]int64,
	reported bool) []report.PartitionReplica {
	rows := make([]report.PartitionReplica, 0, len(p.Replicas))
	ids := slices.Clone(p.Replicas)
	for _, id := range p.Target {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		row := report.PartitionReplica{Broker: id, Leader: id == p.Leader,
			InSync:  slices.Contains(p.ISR, id),
			Joining: p.Target != nil && !slices.Contains(p.ISR, id) && slices.Contains(p.Target, id),
			Leaving: p.Target != nil && !slices.Contains(p.Target, id)}
		if lag, known := lags[id]; reported && (known || row.Leader) {
			row.Lag = &lag
		}
		rows = append(rows, row)
	}
	return rows
}
