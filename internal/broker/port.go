package broker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/broker/httpport"
)

// HTTPOf returns the options for the brokers that brokers returns: an empty list while they start.
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
		Transactions: func() httpport.Transactions { return brokers() },
		Brokers:      func() httpport.Brokers { return brokers().ports() },
	}
}

// ports returns what the HTTP port reads of these brokers.
func (all Brokers) ports() httpport.Brokers {
	ports := make(httpport.Brokers, 0, len(all))
	for _, b := range all {
		ports = append(ports, &httpport.Broker{ID: b.opts.NodeID, Image: b.image, Store: b.store,
			Cleaner: b.cleaner, Replicas: b.replicas, Observe: b.events.Store,
			Volume: b.volumes.volume, FailingClients: b.failingClients})
	}
	return ports
}
