package wire

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The reasons for which a connection is refused or closed: the reason label of
// broker_connection_rejected_total.
const (
	rejectConnections = "too_many_connections"
	rejectAddress     = "too_many_from_address"
	rejectTooLarge    = "frame_size"
	rejectUnknownAPI  = "unknown_api"
	rejectHeader      = "malformed_header"
	rejectSlow        = "slow_frame"
	rejectHTTP        = "http"
	rejectTLS         = "tls"
)

// durationBuckets cover both ends: a produce into the page cache takes 0.1 to 1 ms, and a long poll
// waits as long as its client allows, 0.5 s by default and up to 5 min. The factor of 2 to 2.5
// bounds the error of a quantile.
var durationBuckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
	300,
}

// metrics are those of one server; all listeners of a registry share the request metrics.
type metrics struct {
	duration    *prometheus.HistogramVec // seconds, by api
	errors      *prometheus.CounterVec   // by api and Kafka error
	inFlight    prometheus.Gauge
	connections prometheus.Gauge       // of this listener
	rejections  *prometheus.CounterVec // by listener and reject constant
	listener    string                 // label of connections and rejections
}

func newMetrics(registry prometheus.Registerer, listener string) *metrics {
	m := &metrics{listener: listener}
	m.duration = register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "heartwood_request_duration_seconds",
		Help:    "Time from the end of reading a request to its reply having been sent, long polls included.",
		Buckets: durationBuckets,
	}, []string{"api"}))
	m.errors = register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_request_errors_total",
		Help: "Requests with an error response, by the first Kafka error.",
	}, []string{"api", "error"}))
	m.inFlight = register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "heartwood_requests_in_flight",
		Help: "Requests being handled, including those that wait.",
	}))
	connections := register(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "heartwood_broker_connections",
		Help: "Open client connections.",
	}, []string{"listener"}))
	m.connections = connections.WithLabelValues(listener)
	m.rejections = register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_broker_connection_rejected_total",
		Help: "Connections refused, or closed because of an invalid request.",
	}, []string{"listener", "reason"}))
	// Each reason starts at 0: rate() misses the first event of a series that appears with it.
	for _, reason := range []string{rejectConnections, rejectAddress, rejectTooLarge,
		rejectUnknownAPI, rejectHeader, rejectSlow, rejectHTTP, rejectTLS} {
		m.rejections.WithLabelValues(listener, reason)
	}
	return m
}

// register adds a collector, or returns the one that another listener of the same registry has
// added.
func register[C prometheus.Collector](registry prometheus.Registerer, c C) C {
	if registry == nil {
		return c
	}
	err := registry.Register(c)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if existing, same := there.ExistingCollector.(C); same {
			return existing
		}
	}
	if err != nil {
		panic(err) // two metrics of one name: a programming error
	}
	return c
}

// observe records the duration of a request, whether or not its reply could be sent.
func (m *metrics) observe(api string, d time.Duration) {
	m.duration.WithLabelValues(api).Observe(d.Seconds())
}

// failed counts a response by its first Kafka error.
func (m *metrics) failed(api, name string) { m.errors.WithLabelValues(api, name).Inc() }

// rejected counts a refused connection. reason is a reject constant: no label may come from a peer.
func (m *metrics) rejected(reason string) { m.rejections.WithLabelValues(m.listener, reason).Inc() }

// keyNumber is the default of Options.APIName.
func keyNumber(key int16) string { return strconv.Itoa(int(key)) }
