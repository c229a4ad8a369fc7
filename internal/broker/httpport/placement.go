package httpport

import (
	"slices"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// Reasons in report.PlacedPartition.
const (
	reasonReplicaLost     = "ReplicaLost"
	reasonLeaderOffline   = "LeaderOffline"
	reasonLeaderStarting  = "LeaderStarting"
	reasonUnderMinISR     = "UnderMinInSyncReplicas"
	reasonReassigning     = "Reassigning"
	reasonUnderReplicated = "UnderReplicated"
)

// Placement returns the response of GET /api/v1/placement. topics selects topics; if it is empty,
// all topics are included.
func (all Brokers) Placement(topics []string) report.Placement {
	answer := report.Placement{Partitions: []report.PlacedPartition{},
		Retained: []report.RetainedPartition{}, Brokers: []report.BrokerHost{}}
	image := all.Image()
	if image == nil {
		return answer
	}
	selected := func(name string) bool { return len(topics) == 0 || slices.Contains(topics, name) }
	leads := all.leaders()
	for _, topic := range image.Topics {
		if !selected(topic.Name) {
			continue
		}
		for _, p := range topic.Partitions {
			id := logstore.PartitionID{Topic: topic.Name, Index: p.Index}
			placed := report.PlacedPartition{
				Topic: topic.Name, Partition: p.Index, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
				Replicas: append([]int32{}, p.Replicas...), InSyncReplicas: append([]int32{}, p.ISR...),
				Target: p.Target,
			}
			placed.Lag, placed.Reason = all.replication(p, topic.Settings.MinInSyncReplicas,
				leads[p.Leader], id)
			answer.Partitions = append(answer.Partitions, placed)
		}
	}
	for _, p := range image.Retained {
		if selected(p.Topic) {
			answer.Retained = append(answer.Retained, report.RetainedPartition(p))
		}
	}
	answer.Brokers = HostsOf(image)
	return answer
}

// leaders returns, for each of these brokers, the partitions that it leads.
func (all Brokers) leaders() map[int32]map[logstore.PartitionID]replica.State {
	leads := map[int32]map[logstore.PartitionID]replica.State{}
	for _, b := range all {
		led := map[logstore.PartitionID]replica.State{}
		for _, state := range b.Replicas.States() {
			if state.Leader && state.Fault == nil {
				led[state.ID] = state
			}
		}
		leads[b.ID] = led
	}
	return leads
}

// replication returns the largest lag of a partition's replicas, and the reason why the partition
// is unavailable or under-replicated. led contains all partitions that the partition's leader
// leads; it is nil if the leader is not in this process.
func (all Brokers) replication(p *metadata.Partition, minISR int,
	led map[logstore.PartitionID]replica.State, id logstore.PartitionID) (lag *int64,
	reason string) {
	state, leads := led[id]
	if leads {
		most := int64(0)
		for _, behind := range state.Lags {
			most = max(most, behind)
		}
		lag = &most
	}
	switch {
	case p.RecordsLost:
		return nil, reasonReplicaLost
	case p.Leader == metadata.NoBroker:
		return nil, reasonLeaderOffline
	case led != nil && !leads:
		return nil, reasonLeaderStarting
	case len(p.ISR) < minISR:
		return lag, reasonUnderMinISR
	case p.Target != nil:
		return lag, reasonReassigning
	case len(p.ISR) < len(p.Replicas):
		return lag, reasonUnderReplicated
	}
	return lag, ""
}

// HostsOf returns the hosts of all brokers that are up.
func HostsOf(image *metadata.Image) []report.BrokerHost {
	hosts := make([]report.BrokerHost, 0, len(image.Brokers))
	for _, b := range image.Brokers {
		endpoint, _ := b.Endpoints.On(metadata.DefaultListener)
		hosts = append(hosts, report.BrokerHost{Broker: b.ID, Host: endpoint.Host})
	}
	return hosts
}
