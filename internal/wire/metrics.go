package wire

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The reasons why a connection is refused or closed. They are the values of the label "reason" of
// heartwood_broker_connection_rejected_total.
const (
	rejectConnections = "too_many_connections"
	rejectAddress     = "too_many_from_address"
	rejectTooLarge    = "frame_size"
	rejectUnknownAPI  = "unknown_api"
	rejectHeader      = "malformed_header"
	rejectSlow        = "slow_frame"
	rejectHTTP        = "http"
	rejectTLS         = "tls"

	rejectPlain                  = "plain"
	rejectHandshake              = "tls_handshake"
	rejectUnauthenticated        = "unauthenticated"
	rejectExpired                = "session_expired"
	rejectRevoked                = "credential_revoked"
	rejectNoKeys                 = "no_token_keys"
	rejectFailures               = "too_many_failures"
	rejectUnauthenticatedMax     = "too_many_unauthenticated"
	rejectUnauthenticatedAddress = "too_many_unauthenticated_from_address"
)

// durationBuckets cover short requests and long polls. A produce request to the page cache takes
// 0.1 to 1 ms. A long poll waits as long as its client permits, by default 0.5 s and at most 5 min.
// Up to 10 s, each bound is 2 to 2.5 times the previous one, which limits the error of a quantile.
var durationBuckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
	300,
}

// metrics contains the metrics of one server. Servers that use the same registry share duration,
// errors and inFlight.
type metrics struct {
	duration    *prometheus.HistogramVec // duration in seconds, by API
	errors      *prometheus.CounterVec   // responses by API and Kafka error
	inFlight    prometheus.Gauge
	connections prometheus.Gauge // open connections on this listener
	// refused and closed connections, by listener and reject constant
	rejections *prometheus.CounterVec
	listener   string // value of the label "listener"
	// authentications by listener, SASL mechanism or MechanismTLS, and result
	authentications *prometheus.CounterVec
	mechanisms      []string // values of the label "mechanism"
}

func newMetrics(registry prometheus.Registerer, listener string, mechanisms []string) *metrics {
	m := &metrics{listener: listener}
	m.duration = register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "heartwood_request_duration_seconds",
		Help:    "Time from the moment a request was read until its reply was sent, long polls included.",
		Buckets: durationBuckets,
	}, []string{"api"}))
	m.errors = register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_request_errors_total",
		Help: "Requests answered with an error, by the first Kafka error.",
	}, []string{"api", "error"}))
	m.inFlight = register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "heartwood_requests_in_flight",
		Help: "Requests that are being handled, long polls included.",
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
	// Create the series of all reasons with value 0, because rate() would not include the event with
	// which a series appears.
	for _, reason := range []string{rejectConnections, rejectAddress, rejectTooLarge,
		rejectUnknownAPI, rejectHeader, rejectSlow, rejectHTTP, rejectTLS, rejectPlain,
		rejectHandshake, rejectUnauthenticated, rejectExpired, rejectRevoked, rejectNoKeys,
		rejectFailures, rejectUnauthenticatedMax, rejectUnauthenticatedAddress} {
		m.rejections.WithLabelValues(listener, reason)
	}
	m.authentications = register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_broker_authentications_total",
		Help: "Authentications of clients, by mechanism and result (success or failure).",
	}, []string{"listener", "mechanism", "result"}))
	m.authentications.WithLabelValues(listener, "other", "failure")
	m.mechanisms = append([]string{MechanismTLS}, mechanisms...)
	for _, mechanism := range mechanisms {
		m.authentications.WithLabelValues(listener, mechanism, "success")
		m.authentications.WithLabelValues(listener, mechanism, "failure")
	}
	return m
}

// register adds a collector to a registry and returns it. If another listener has already
// registered an equal collector, it returns that one.
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
		panic(err) // two different metrics have the same name: a bug
	}
	return c
}

// authenticated updates the metric for an authentication. An unknown mechanism is counted as
// "other", because a client can send any name.
func (m *metrics) authenticated(mechanism string, ok bool) {
	if !slices.Contains(m.mechanisms, mechanism) {
		mechanism = "other"
	}
	result := "failure"
	if ok {
		result = "success"
	}
	m.authentications.WithLabelValues(m.listener, mechanism, result).Inc()
}

// observe adds the duration of a request to the metric, even if sending the reply has failed.
func (m *metrics) observe(api string, d time.Duration) {
	m.duration.WithLabelValues(api).Observe(d.Seconds())
}

// failed updates the metric for a response with an error. name is the first Kafka error in the
// response.
func (m *metrics) failed(api, name string) { m.errors.WithLabelValues(api, name).Inc() }

// rejected updates the metric for a connection that was refused or closed. reason must be one of
// the reject constants, never a text from a peer, because a peer could then create any number of
// series.
func (m *metrics) rejected(reason string) { m.rejections.WithLabelValues(m.listener, reason).Inc() }

// keyNumber is the default of Options.APIName. It returns the number as text.
func keyNumber(key int16) string { return strconv.Itoa(int(key)) }
