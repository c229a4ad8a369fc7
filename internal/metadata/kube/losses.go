package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// recordLosses records the losses of a broker that does not hold its Lease yet, with one write for
// each PartitionSet. It reads from the API server itself, because the watches may not have
// delivered the resources yet. It can be repeated: a recorded loss is not recorded again.
func (s *Store) recordLosses(ctx context.Context, self metadata.Broker) error {
	if self.Losses == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.times.serving)
	defer cancel()
	all, unrestored, err := s.storedResources(ctx)
	if err != nil {
		return fmt.Errorf("record lost logs: %w", err)
	}
	bySet, err := all.lossesBySet(self.Losses)
	if err != nil {
		return fmt.Errorf("record lost logs: %w", err)
	}
	faults := make(chan error, len(bySet))
	var writers sync.WaitGroup
	for set, losses := range bySet {
		writers.Go(func() {
			err := unrestored[set]
			if err == nil {
				err = s.writeLosses(ctx, set, losses, self.ID)
			}
			if err != nil {
				faults <- fmt.Errorf("record %d lost logs in PartitionSet %s: %w", len(losses), set, err)
			}
		})
	}
	writers.Wait()
	close(faults)
	var failed []error
	for fault := range faults {
		failed = append(failed, fault)
	}
	return errors.Join(failed...)
}

func (s *Store) writeLosses(ctx context.Context, set string, losses []locatedLoss,
	broker int32) error {
	return s.writer.ChangeStatus(ctx, set, func(set *partitionset.Set) error {
		for _, l := range losses {
			if l.location.assigned(set) {
				set.RecordLoss(l.location.key, broker, l.lost)
			}
		}
		return nil
	})
}

// errUnrestored means that the operator has created a PartitionSet again, and has not written its
// last status yet.
var errUnrestored = errors.New("the operator has not restored the last status yet")

// storedResources returns the LogCluster, its Topics and its PartitionSets, as stored in the API
// server. It fails if a PartitionSet is missing, which the operator then creates. The map
// unrestored contains the sets in which no loss can be recorded yet, by name.
func (s *Store) storedResources(ctx context.Context) (all resources, unrestored map[string]error,
	err error) {
	all = resources{name: s.opts.Cluster, cluster: &v1alpha1.LogCluster{}}
	topics, sets := &v1alpha1.TopicList{}, &v1alpha1.PartitionSetList{}
	namespace := client.InNamespace(s.opts.Namespace)
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.opts.Namespace,
		Name: s.opts.Cluster}, all.cluster); err != nil {
		return resources{}, nil, fmt.Errorf("get LogCluster %s: %w", s.opts.Cluster, err)
	}
	if err := s.client.List(ctx, topics, namespace); err != nil {
		return resources{}, nil, fmt.Errorf("list topics: %w", err)
	}
	if err := s.client.List(ctx, sets, namespace,
		client.MatchingLabels{v1alpha1.LabelCluster: s.opts.Cluster}); err != nil {
		return resources{}, nil, fmt.Errorf("list partition sets: %w", err)
	}
	all.topics = pointers(topics.Items)
	all.sets = (&decodedSets{}).decode(s.opts.Cluster, pointers(sets.Items))
	if !all.sets.complete() {
		return resources{}, nil, fmt.Errorf("%d of %d PartitionSets exist", len(all.sets.byIndex),
			all.sets.count)
	}
	unrestored = map[string]error{}
	for i := range sets.Items {
		if last, err := partitionset.Remembered(&sets.Items[i]); err != nil {
			unrestored[sets.Items[i].Name] = err
		} else if last != nil {
			unrestored[sets.Items[i].Name] = errUnrestored
		}
	}
	return all, unrestored, nil
}

// locatedLoss is a lost log and the place at which its partition is stored.
type locatedLoss struct {
	location place
	lost     metadata.LostLog
}

// lossesBySet returns the losses that concern existing Topics, by the name of the PartitionSet. If
// the logs belong to another cluster, there are none.
func (r resources) lossesBySet(losses *metadata.Losses) (map[string][]locatedLoss, error) {
	clusterID, err := id(r.cluster.UID)
	if err != nil {
		return nil, fmt.Errorf("read LogCluster %s: %w", r.cluster.Name, err)
	}
	bySet := map[string][]locatedLoss{}
	byName, directory := r.byKafkaName(), r.directory(nil)
	for _, lost := range losses.In(clusterID.String()) {
		topic := byName[lost.Topic]
		if topic == nil {
			continue
		}
		topicID, err := id(topic.UID)
		if err != nil {
			return nil, fmt.Errorf("read Topic %s: %w", topic.Name, err)
		}
		if lost.TopicID != (metadata.ID{}) && lost.TopicID != topicID {
			continue // the log belongs to an earlier topic of this name
		}
		if location, ok := directory.place(topicID, lost.Partition); ok {
			bySet[location.set] = append(bySet[location.set], locatedLoss{location, lost})
		}
	}
	return bySet, nil
}
