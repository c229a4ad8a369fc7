package local

import (
	"maps"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// earlierDocument is the content of a file of version 1 or 2. In version 1 each partition has one
// replica and no ISR.
type earlierDocument struct {
	Version      int                           `json:"version"`
	ClusterID    string                        `json:"clusterId"`
	Brokers      int                           `json:"brokers"`
	Draining     int                           `json:"draining"`
	Racks        []string                      `json:"racks"`
	BrokerEpochs map[int32]int64               `json:"brokerEpochs"`
	ProducerIDs  map[int32]producerIDs         `json:"producerIds"`
	Cluster      *cluster                      `json:"cluster"`
	Topics       []earlierTopic                `json:"topics"`
	Retained     map[string][]earlierPartition `json:"retained"`
}

type earlierTopic struct {
	Name       string             `json:"name"`
	ID         string             `json:"id"`
	Origin     string             `json:"origin"`
	Spec       v1alpha1.TopicSpec `json:"spec"`
	CleanNow   string             `json:"cleanNow"`
	Partitions []earlierPartition `json:"partitions"`
}

type earlierPartition struct {
	Replicas            []int32          `json:"replicas"`
	Target              []int32          `json:"target"`
	ReplicaIncarnations map[int32]string `json:"assignments"`
	LeaderEpoch         int32            `json:"leaderEpoch"`
	UnprovenEpoch       int32            `json:"unprovenEpoch"`
	ISR                 []earlierMember  `json:"isr"`
	LeaderDirectory     string           `json:"leaderDirectory"`
}

type earlierMember struct {
	Broker    int32  `json:"broker"`
	Epoch     int64  `json:"epoch"`
	Directory string `json:"directory"`
}

// unknownTag is the tag of retained partitions of earlier versions, which did not store the id of
// the deleted topic.
const unknownTag = "-"

// decodeEarlier converts a file of version 1 or 2. It encodes the result and decodes it again, so
// that the rules of the present version apply.
func decodeEarlier(content []byte) (document, error) {
	var e earlierDocument
	if err := decodeStrictly(content, &e); err != nil {
		return document{}, err
	}
	d := document{Version: formatVersion, ClusterID: e.ClusterID, Brokers: e.Brokers,
		Draining: e.Draining, Racks: e.Racks, BrokerEpochs: e.BrokerEpochs,
		ProducerIDs: e.ProducerIDs, Cluster: e.Cluster, Topics: []topic{}, set: newSet(),
		load: map[int32]int{}}
	for _, from := range e.Topics {
		t := topic{Name: from.Name, ID: from.ID, Origin: from.Origin, Spec: from.Spec,
			CleanNow: from.CleanNow}
		t.Spec.Partitions = int32(len(from.Partitions))
		d.Topics = append(d.Topics, t)
		for i, p := range from.Partitions {
			a := t.assignment(p.Replicas)
			if len(p.Target) > 0 {
				a.Replicas = p.Target
			}
			e.put(&d, t.key(int32(i)), a, p)
		}
	}
	for name, partitions := range e.Retained {
		for i, p := range partitions {
			key := partitionset.Key{Topic: name, Index: int32(i)}
			if _, exists := d.set.Get(key); exists {
				continue // the partitions of an existing topic have replaced it
			}
			e.put(&d, key, partitionset.Assignment{Replicas: p.Replicas, Tag: unknownTag,
				Reclaim: partitionset.Retained}, p)
		}
	}
	converted, err := d.encode()
	if err != nil {
		return document{}, err
	}
	return decode(converted)
}

// put adds a partition of an earlier version. If a partition of version 1 has had a leader, its
// only replica becomes the ISR, with the last epoch of its broker.
func (e earlierDocument) put(d *document, key partitionset.Key, a partitionset.Assignment,
	p earlierPartition) {
	d.set.Assign(key, a)
	if p.LeaderEpoch == 0 && len(p.ISR) == 0 {
		return // the partition has had no leader, so it has no records
	}
	state := placement.Partition{Replicas: slices.Clone(p.Replicas),
		ReplicaIncarnations: maps.Clone(p.ReplicaIncarnations), Leader: placement.NoLeader,
		LeaderEpoch: p.LeaderEpoch, UnprovenEpoch: p.UnprovenEpoch,
		LeaderDirectory: p.LeaderDirectory}
	for _, m := range p.ISR {
		state.ISR = append(state.ISR, placement.InSyncReplica(m))
	}
	if e.Version == 1 && len(p.ISR) == 0 {
		for _, id := range p.Replicas {
			state.ISR = append(state.ISR,
				placement.InSyncReplica{Broker: id, Epoch: e.BrokerEpochs[id]})
		}
	}
	d.set.PutState(key, partitionset.State{Partition: state})
}
