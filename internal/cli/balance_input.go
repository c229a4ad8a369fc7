package cli

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/operator/rebalance"
	"heartwood.dev/heartwood/internal/placement/balance"
)

// unknownBytes is the size of a partition if no broker has reported a replica of it.
const unknownBytes = -1

// input returns a LogCluster's brokers and partitions for a plan, and notes about brokers that did
// not respond.
func (b *balanceFlags) input(ctx context.Context, s *session,
	cluster *v1alpha1.LogCluster) (in balance.Cluster, notes []string, err error) {
	http, err := s.http(ctx, cluster, b.account)
	if err != nil {
		return in, nil, err
	}
	rows, missing, err := s.replicas(ctx, http, cluster, "")
	if err != nil {
		return in, nil, err
	}
	planned, err := s.planned(ctx, cluster, sizes(rows))
	if err != nil {
		return in, nil, err
	}
	if err := answered(cluster, planned, missing); err != nil {
		return in, nil, err
	}
	s.printMissing(missing)
	notes = silentNotes(cluster, planned, missing)
	zones := map[int32]string{}
	for _, broker := range cluster.Status.Brokers {
		zones[broker.ID] = broker.Rack
	}
	stored := stored(rows, planned, missing)
	return rebalance.PlanInput(cluster, zones, stored, stored, planned), notes, nil
}

// sizes returns the size of each partition, with Kafka topic names in the keys. It is the size of
// the leader's replica or, if the leader has not responded, of the largest replica.
func sizes(rows []report.Partition) map[partitionset.Key]int64 {
	sizes, led := map[partitionset.Key]int64{}, map[partitionset.Key]bool{}
	for i := range rows {
		key := partitionset.Key{Topic: rows[i].Topic, Index: rows[i].Partition}
		switch {
		case rows[i].Leader:
			sizes[key], led[key] = rows[i].SizeBytes, true
		case !led[key]:
			sizes[key] = max(sizes[key], rows[i].SizeBytes)
		}
	}
	return sizes
}

// draining reports whether all replicas are to be moved off the broker.
func draining(cluster *v1alpha1.LogCluster, id int32) bool {
	return slices.Contains(cluster.Spec.Drain, id) || id >= cluster.Spec.Brokers
}

// answered returns an error if a broker that is not being drained did not respond and the size of
// one of its partitions is unknown. The usage of a draining broker does not matter, because no
// replicas move to it.
func answered(cluster *v1alpha1.LogCluster, planned []balance.Partition, missing []silent) error {
	for _, m := range missing {
		if draining(cluster, m.Broker) {
			continue
		}
		for i := range planned {
			if p := &planned[i]; p.Bytes == unknownBytes && slices.Contains(p.Replicas, m.Broker) {
				return fmt.Errorf("plan the moves: the size of partition %s/%d is unknown: broker %d "+
					"did not answer: %s", p.Topic, p.Index, m.Broker, m.Error)
			}
		}
	}
	return nil
}

// silentNotes returns notes on how brokers that did not respond affect the plan.
func silentNotes(cluster *v1alpha1.LogCluster, planned []balance.Partition,
	missing []silent) (notes []string) {
	isSilent := func(id int32) bool {
		return slices.ContainsFunc(missing, func(m silent) bool { return m.Broker == id })
	}
	for _, m := range missing {
		only := 0
		for i := range planned {
			if replicas := planned[i].Replicas; slices.Contains(replicas, m.Broker) &&
				!slices.ContainsFunc(replicas, func(id int32) bool { return !isSilent(id) }) {
				only++
			}
		}
		note := fmt.Sprintf("broker %d did not answer", m.Broker)
		switch {
		case !draining(cluster, m.Broker):
			note += ": no move begins while it is down"
		case only > 0:
			note += fmt.Sprintf(": partitions without a replica on another broker that is up: %d; "+
				"they wait until the broker is back", only)
		default:
			note += ": the sizes of its replicas are those of other replicas"
		}
		notes = append(notes, note)
	}
	return notes
}

// stored returns the total size of the replicas on each broker. For a broker that did not respond,
// it is the sum of the sizes of the broker's partitions; unknown sizes count as 0.
func stored(rows []report.Partition, planned []balance.Partition,
	missing []silent) map[int32]int64 {
	stored := map[int32]int64{}
	for i := range rows {
		stored[rows[i].Broker] += rows[i].SizeBytes
	}
	for i := range planned {
		planned[i].Bytes = max(0, planned[i].Bytes)
		for _, m := range missing {
			if slices.Contains(planned[i].Replicas, m.Broker) {
				stored[m.Broker] += planned[i].Bytes
			}
		}
	}
	return stored
}

// planned returns a LogCluster's partitions for a plan. sizes contains the sizes, with Kafka topic
// names in the keys. A partition that is not in sizes has size unknownBytes.
func (s *session) planned(ctx context.Context, cluster *v1alpha1.LogCluster,
	sizes map[partitionset.Key]int64) ([]balance.Partition, error) {
	topics, err := s.topicsOf(ctx, cluster.Name)
	if err != nil {
		return nil, err
	}
	names := map[string]string{} // Kafka topic names, by name of the Topic
	for i := range topics {
		names[topics[i].Name] = topics[i].KafkaName()
	}
	list := &v1alpha1.PartitionSetList{}
	if err := s.api.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, fmt.Errorf("list the PartitionSets of namespace %s: %w", s.namespace, err)
	}
	var planned []balance.Partition
	for i := range list.Items {
		if list.Items[i].Spec.Cluster != cluster.Name {
			continue
		}
		set, _ := partitionset.Decode(&list.Items[i], nil)
		for key, entry := range set.All() {
			name, exists := names[key.Topic]
			if !exists || entry.Assignment == nil {
				continue // partition of a deleted topic
			}
			size, known := sizes[partitionset.Key{Topic: name, Index: key.Index}]
			if !known {
				size = unknownBytes
			}
			planned = append(planned, balance.Partition{Topic: key.Topic, Index: key.Index,
				Bytes: size, Replicas: entry.Assignment.Replicas,
				Fixed: entry.Reassigning() || entry.Lent})
		}
	}
	return planned, nil
}
