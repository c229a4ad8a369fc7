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

// Brokers are the brokers of one process, which share an HTTP server: one in a pod, all of a
// cluster in heartwood dev. The list is empty while they open their logs.
type Brokers []*Broker

// Errors of CleanNow, besides ErrNotCompacted and ErrCleanerDisabled of the cleaner.
var (
	ErrUnknownTopic     = errors.New("unknown topic")
	ErrUnknownPartition = errors.New("unknown partition")
	ErrStarting         = errors.New("broker is starting")
)

// Report returns the rows of every broker, sorted by broker.
func (all Brokers) Report() (rows []report.Partition) {
	for _, b := range all {
		rows = append(rows, b.Report()...)
	}
	return rows
}

// image returns the metadata image of these brokers, nil while they start. Brokers of one process
// may be one image apart.
func (all Brokers) image() *metadata.Image {
	for _, b := range all {
		if image := b.image(); image.ClusterID != "" {
			return image
		}
	}
	return nil
}

// Topics summarizes what these brokers know of each topic, sorted by name.
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

// CleanNow requests a pass over each replica of a topic that these brokers hold, whatever its dirty
// ratio, of all partitions if none are given. Replicas of other brokers are listed in the result.
// If the cleaner rejects a request, CleanNow returns the reason as an error; the other requests
// were made.
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

// cleanReplica requests a pass from the broker that holds a replica, or lists the replica as held
// elsewhere.
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
