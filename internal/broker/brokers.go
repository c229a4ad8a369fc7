package broker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
)

// Brokers are the brokers of one process, which answer HTTP together: one in a pod, all of a
// cluster in heartwood dev. None are there while they open their logs.
type Brokers []*Broker

// What CleanNow fails with, besides logstore's ErrNotCompacted and ErrCleanerDisabled.
var (
	ErrUnknownTopic     = errors.New("unknown topic")
	ErrUnknownPartition = errors.New("unknown partition")
	ErrStarting         = errors.New("the broker starts")
)

// Report is every broker's rows, sorted broker by broker.
func (all Brokers) Report() (rows []report.Partition) {
	for _, b := range all {
		rows = append(rows, b.Report()...)
	}
	return rows
}

// image is the cluster as these brokers see it; nil while they start. Those of one process may be
// an image apart.
func (all Brokers) image() *metadata.Image {
	for _, b := range all {
		if image := b.image(); image.ClusterID != "" {
			return image
		}
	}
	return nil
}

// Topics sums up what these brokers know of each topic, sorted by name.
func (all Brokers) Topics(now time.Time) summary.Topics {
	topics := summary.Topics{Topics: []summary.Topic{}}
	image := all.image()
	if image == nil {
		return topics
	}
	rows := map[string][]report.Partition{}
	for _, row := range all.Report() {
		rows[row.Topic] = append(rows[row.Topic], row)
	}
	for _, topic := range image.Topics {
		of := summary.Metadata{Name: topic.Name, Partitions: len(topic.Partitions),
			Compacted: topic.Settings.Compact, CleanNow: topic.CleanNow}
		for _, partition := range topic.Partitions {
			of.Replicas += len(partition.Replicas)
		}
		polled := summary.Polled{Brokers: max(len(image.Brokers), len(all)), Responded: len(all)}
		topics.Topics = append(topics.Topics,
			summary.Of(of, summary.Rows{Replicas: rows[topic.Name], At: now}, polled))
	}
	return topics
}

// CleanNow asks for a pass over each replica of a topic that these brokers hold, whatever its dirty
// ratio; of some partitions, all if none are named. Replicas of other brokers are listed. If the
// cleaner takes no request for one, the error says why; others were asked.
func (all Brokers) CleanNow(topicName string, partitions []int32) (report.CleanRequests, error) {
	answer := report.CleanRequests{Topic: topicName, Requests: []report.CleanRequest{}}
	image := all.image()
	if image == nil {
		return answer, ErrStarting
	}
	topic := image.Topic(topicName)
	switch {
	case topic == nil:
		return answer, fmt.Errorf("%w %q", ErrUnknownTopic, topicName)
	case !topic.Settings.Compact:
		return answer, fmt.Errorf("%w: %s has cleanupPolicy Delete", cleaner.ErrNotCompacted,
			topicName)
	case image.Cleaner.Workers == 0:
		return answer, fmt.Errorf("%w: set spec.cleaner.workers of the LogCluster",
			cleaner.ErrDisabled)
	}
	for _, index := range partitions {
		if index < 0 || int(index) >= len(topic.Partitions) {
			return answer, fmt.Errorf("%w %d: %s has %d", ErrUnknownPartition, index, topicName,
				len(topic.Partitions))
		}
	}
	var faults []error
	for _, partition := range topic.Partitions {
		if len(partitions) > 0 && !slices.Contains(partitions, partition.Index) {
			continue
		}
		for _, id := range partition.Replicas {
			faults = append(faults,
				all.cleanReplica(&answer, image,
					logstore.PartitionID{Topic: topicName, Index: partition.Index}, id))
		}
	}
	return answer, errors.Join(faults...)
}

// cleanReplica asks the broker that holds a replica, or notes that it is elsewhere.
func (all Brokers) cleanReplica(answer *report.CleanRequests, image *metadata.Image,
	id logstore.PartitionID, broker int32) error {
	for _, b := range all {
		if b.opts.NodeID != broker {
			continue
		}
		ticket, err := b.cleaner.CleanNow(id)
		if err != nil {
			return fmt.Errorf("broker %d: %w", broker, err)
		}
		answer.Requests = append(answer.Requests,
			report.CleanRequest{Broker: broker, Partition: id.Index, Ticket: ticket})
		return nil
	}
	at, _ := image.Broker(broker)
	endpoint, _ := at.Endpoints.On(metadata.DefaultListener)
	answer.Elsewhere = append(answer.Elsewhere,
		report.CleanElsewhere{Broker: broker, Partition: id.Index, Host: endpoint.Host})
	return nil
}
