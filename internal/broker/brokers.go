package broker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
)

// Brokers is a list of brokers in one process, which share an HTTP server. A pod runs one broker;
// heartwood dev runs all brokers of a cluster. The list is empty while the brokers open their logs.
type Brokers []*Broker

// Errors of CleanNow, in addition to cleaner.ErrNotCompacted and cleaner.ErrDisabled.
var (
	ErrUnknownTopic     = httpport.ErrUnknownTopic
	ErrUnknownPartition = httpport.ErrUnknownPartition
	ErrStarting         = httpport.ErrStarting
)

// Report returns the rows of all brokers, in the order of the brokers. The rows contain the
// transactional ids that these brokers coordinate.
func (all Brokers) Report() (rows []report.Partition) {
	for _, b := range all {
		rows = append(rows, b.Report()...)
	}
	all.identify(time.Now(), rows)
	return rows
}

// image returns the metadata image of the first broker that has applied one, or nil while all
// brokers start.
func (all Brokers) image() *metadata.Image { return all.ports().Image() }

// Topics returns a summary of each topic in the metadata image, computed from these brokers'
// reports and sorted by name.
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
		metadata := summary.Metadata{Name: topic.Name, Partitions: len(topic.Partitions),
			Compacted: topic.Settings.Compact, CleanNow: topic.CleanNow}
		for _, partition := range topic.Partitions {
			metadata.Replicas += len(partition.Replicas)
		}
		polled := summary.Polled{Brokers: max(len(image.Brokers), len(all)), Responded: len(all)}
		topics.Topics = append(topics.Topics,
			summary.Of(metadata, summary.Rows{Replicas: rows[topic.Name], At: now}, polled))
	}
	return topics
}

// CleanNow requests a cleaner pass over each replica of the topic on these brokers, whatever the
// dirty ratio. partitions selects partitions; if it is empty, all partitions are selected. The
// result also lists the replicas on brokers of other processes. If a cleaner rejects a request,
// CleanNow returns an error; the requests that were accepted remain in effect.
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

// cleanReplica requests a pass over a replica from the replica's broker. If that broker is not in
// this process, cleanReplica adds the replica to answer.Elsewhere.
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
	leader, _ := image.Broker(broker)
	endpoint, _ := leader.Endpoints.On(metadata.DefaultListener)
	answer.Elsewhere = append(answer.Elsewhere,
		report.CleanElsewhere{Broker: broker, Partition: id.Index, Host: endpoint.Host})
	return nil
}

// HTTPOf returns the options for the HTTP port. brokers returns the process's brokers, or none
// while they are starting.
func HTTPOf(gatherer prometheus.Gatherer, ready func() error,
	brokers func() Brokers) httpport.Options {
	return httpport.Options{
		Gatherer: gatherer, Ready: ready,
		Partitions: func() []report.Partition { return brokers().Report() },
		Topics:     func() summary.Topics { return brokers().Topics(time.Now()) },
		Placement: func(topics []string) report.Placement {
			return brokers().ports().Placement(topics)
		},
		MayStop: func(broker int32) (report.MayStop, error) {
			return brokers().ports().MayStop(broker)
		},
		CleanNow: func(topic string, partitions []int32) (report.CleanRequests, error) {
			return brokers().CleanNow(topic, partitions)
		},
		ScrubNow: func(topic string) (report.ScrubRequests, error) {
			return brokers().ScrubNow(topic)
		},
		Transactions: func() httpport.Transactions { return brokers() },
		Brokers:      func() httpport.Brokers { return brokers().ports() },
	}
}

// ports converts the brokers to the type that package httpport uses.
func (all Brokers) ports() httpport.Brokers {
	ports := make(httpport.Brokers, 0, len(all))
	for _, b := range all {
		ports = append(ports, &httpport.Broker{ID: b.opts.NodeID, Image: b.image, Store: b.store,
			Cleaner: b.cleaner, Replicas: b.replicas, Observe: b.events.Store,
			Volume: b.volumes.volume, Scrub: b.scrubReport, FailingClients: b.failingClients})
	}
	return ports
}
