package wire

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Why a connection was refused or closed for what it sent: the reason label of
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

// durationBuckets tell apart what matters at both ends: a produce in the page cache takes 0.1 to 1
// ms, and a long poll as long as its client lets it wait, 0.5 s by default and up to 5 min. Factors
// of 2 to 2.5 keep a quantile within that of the truth.
var durationBuckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
	300,
}

// metrics are the server's; the request ones are shared by all listeners of a registry.
type metrics struct {
	duration    *prometheus.HistogramVec // seconds, by api
	errors      *prometheus.CounterVec   // by api and Kafka error
	inFlight    prometheus.Gauge
	connections prometheus.Gauge       // of this listener
	rejections  *prometheus.CounterVec // by listener and reject constant
	listener    string                 // the label of the two above
}

func newMetrics(registry prometheus.Registerer, listener string) *metrics {
	m := &metrics{listener: listener}
	m.duration = register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "heartwood_request_duration_seconds",
		Help:    "Time from a request being read to its reply being sent, long polls included.",
		Buckets: durationBuckets,
	}, []string{"api"}))
	m.errors = register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_request_errors_total",
		Help: "Requests answered with a Kafka error, by the first error in the answer.",
	}, []string{"api", "error"}))
	m.inFlight = register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "heartwood_requests_in_flight",
		Help: "Requests being handled, those that wait included.",
	}))
	connections := register(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "heartwood_broker_connections",
		Help: "Open client connections.",
	}, []string{"listener"}))
	m.connections = connections.WithLabelValues(listener)
	m.rejections = register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_broker_connection_rejected_total",
		Help: "Connections refused, or closed for what they sent.",
	}, []string{"listener", "reason"}))
	// Each reason begins at 0: of a series that appears with its first event, rate() would miss
	// that event.
	for _, reason := range []string{rejectConnections, rejectAddress, rejectTooLarge,
		rejectUnknownAPI, rejectHeader, rejectSlow, rejectHTTP, rejectTLS} {
		m.rejections.WithLabelValues(listener, reason)
	}
	return m
}

// register adds a collector, or returns the one that another listener of the same registry added
// before.
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
		panic(err) // two metrics under one name: a bug
	}
	return c
}

// took counts a request that was handled, whether or not its reply could be sent.
func (m *metrics) took(api string, d time.Duration) {
	m.duration.WithLabelValues(api).Observe(d.Seconds())
}

// failed counts an answer by the name of its first Kafka error.
func (m *metrics) failed(api, name string) { m.errors.WithLabelValues(api, name).Inc() }

// rejected counts a refused connection. reason is a reject constant: nothing a peer sends may
// become a label.
func (m *metrics) rejected(reason string) { m.rejections.WithLabelValues(m.listener, reason).Inc() }

// keyNumber is the api label where Options give no names.
func keyNumber(key int16) string { return strconv.Itoa(int(key)) }
