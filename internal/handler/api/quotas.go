package api

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/quota"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Quotas of users (KIP-13, KIP-124, KIP-219, KIP-599). A request is charged when its response is
// ready. The response contains the throttle time, and package wire handles no further request on
// the connection until that time has passed. For users without quotas, the cost is one lookup per
// request.
//
// Differences from Kafka: if a Fetch response exceeds the quota, it is still sent with its records.
// Kafka discards the records and reads them again after the throttle. Therefore a batch larger than
// the quota permits in 10 s can be fetched. As in Kafka, responses contain no records while the
// user is over the quota. The processing time of a request ends when the request begins to wait. It
// does not include sending the response.

// ThrottleMax limits one throttle time. The rest of the debt remains and throttles the next
// request. During a throttle, the connection keeps its slot and at most one received request, and
// the broker does not read from it. Kafka does not limit the throttle for bytes, but closes a muted
// connection that has been idle for that long (connections.max.idle.ms). With a much shorter limit,
// a client that sends large requests could exceed a low quota by sending one request per throttle.
const ThrottleMax = 10 * time.Minute

// errThrottled is the error for creating or deleting partitions while the user is over the quota
// (KIP-599).
var errThrottled = errors.New("the throttling quota has been exceeded")

// Quotas charges requests to their users' quotas.
type Quotas struct {
	Image      func() *metadata.Image
	PlainPeers func(listener string) bool // optional

	mu    sync.Mutex
	Users quota.Users

	requests, seconds [quota.Kinds]prometheus.Counter
}

// Register registers the metrics. Their label is the kind of quota and never the user, because the
// number of users is unlimited.
func (q *Quotas) Register(registry prometheus.Registerer) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_broker_throttled_requests_total",
		Help: "Requests after which a client was throttled, by kind of the exceeded quota.",
	}, []string{"quota"})
	seconds := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_broker_throttle_seconds_total",
		Help: "Sum of the times for which connections were throttled, by kind of the exceeded quota.",
	}, []string{"quota"})
	for kind := range quota.Kinds {
		q.requests[kind] = requests.WithLabelValues(kind.String())
		q.seconds[kind] = seconds.WithLabelValues(kind.String())
	}
	if registry != nil {
		registry.MustRegister(requests, seconds)
	}
}

// Meter measures one request of a user with quotas. It is also the request's context: a call of
// Done shows that the request begins to wait.
type Meter struct {
	context.Context
	quotas *Quotas
	user   string
	limits *quota.Limits
	Begun  time.Time
	// Processed is the processing time in ns, or 0 if the request has not waited.
	Processed atomic.Int64
	// mutation is the throttle time for creating and deleting partitions.
	mutation time.Duration
	// Exempt is set for a request from another broker, which is not charged.
	Exempt bool
}

// Meter returns a request's meter, or nil if the user has no quotas. Brokers and the operator have
// no quotas. A client has none before it has authenticated either; until then it may send only
// ApiVersions.
func (q *Quotas) Meter(ctx context.Context, req *wire.Request) *Meter {
	security := q.Image().Security
	if security == nil {
		return nil
	}
	if s := req.Session; s == nil || s.Role != wire.RoleClient {
		return nil
	}
	principal := req.Principal()
	limits := security.Limits(principal)
	if limits == nil || q.plainPeerRequest(req) {
		return nil
	}
	return &Meter{Context: ctx, quotas: q, user: principal.Name, limits: limits,
		Begun: time.Now()}
}

// plainPeerRequest reports whether a request may come from a broker that has no certificate and
// coordinates transactions. A quota for anonymous clients must not delay such requests.
func (q *Quotas) plainPeerRequest(req *wire.Request) bool {
	between := req.Key == KeyWriteTxnMarkers ||
		req.Key == KeyAddPartitionsToTxn && req.Version >= PeerAddVersion
	return between && q.PlainPeers != nil && q.PlainPeers(req.Listener)
}

// Exempt exempts a request from another broker from quotas. ctx must be the request's context, as
// for MeterOf.
func Exempt(ctx context.Context) {
	if m := MeterOf(ctx); m != nil {
		m.Exempt = true
	}
}

// MeterOf returns a request's meter, or nil. ctx must be the context that the handler received, not
// a derived context.
func MeterOf(ctx context.Context) *Meter {
	m, _ := ctx.(*Meter)
	return m
}

// Done implements context.Context. The first call ends the processing time, because it means that
// the request begins to wait.
func (m *Meter) Done() <-chan struct{} {
	m.waits()
	return m.Context.Done()
}

func (m *Meter) waits() {
	m.Processed.CompareAndSwap(0, max(1, int64(time.Since(m.Begun))))
}

// WithTimeout derives a context with a timeout from the context that a handler received. Package
// context would call the meter's Done as soon as a context is derived from it, and so end the
// processing time too early. WithTimeout therefore derives the result from the meter's parent; only
// a call of the result's Done ends the processing time.
func WithTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	m := MeterOf(ctx)
	if m == nil {
		return context.WithTimeout(ctx, timeout)
	}
	limited, cancel := context.WithTimeout(m.Context, timeout)
	return &meteredWait{limited, m}, cancel
}

// meteredWait is a context with a timeout. When its Done is called, it notifies a meter that the
// request begins to wait.
type meteredWait struct {
	context.Context
	meter *Meter
}

func (w *meteredWait) Done() <-chan struct{} {
	w.meter.waits()
	return w.Context.Done()
}

// Handle handles a request and charges it to its user.
func (m *Meter) Handle(req *wire.Request,
	handle func(context.Context, *wire.Request) (wire.Reply, error)) (wire.Reply, error) {
	received := len(req.Body) // before the handler releases the body
	answer, err := handle(m, req)
	if err != nil || m.Exempt {
		return answer, err
	}
	var units quota.Limits
	processed := time.Duration(m.Processed.Load())
	if processed == 0 {
		processed = time.Since(m.Begun)
	}
	units[quota.Request] = processed.Seconds()
	switch req.Key {
	case KeyProduce:
		units[quota.Produce] = float64(received)
	case KeyFetch:
		units[quota.Fetch] = float64(replyBytesOf(&answer))
	}
	if answer.Throttle = m.charge(&units); answer.Throttle > 0 {
		SetThrottle(req, &answer)
	}
	return answer, nil
}

func replyBytesOf(r *wire.Reply) (n int) {
	for i := range r.Chunks {
		n += len(r.Chunks[i].Bytes)
		if r.Chunks[i].File != nil {
			n += r.Chunks[i].Length
		}
	}
	return n
}

// charge charges a request to each of the user's quotas. It returns the longest throttle time, at
// most ThrottleMax.
func (m *Meter) charge(units *quota.Limits) time.Duration {
	now := time.Now()
	throttle, by := m.mutation, quota.Mutation
	m.quotas.mu.Lock()
	for kind, n := range units {
		if n == 0 {
			continue
		}
		t := m.quotas.Users.Charge(m.user, m.limits, quota.Kind(kind), n, now)
		if t > throttle {
			throttle, by = t, quota.Kind(kind)
		}
	}
	m.quotas.mu.Unlock()
	throttle = min(throttle, ThrottleMax)
	if throttle > 0 {
		m.quotas.requests[by].Inc()
		m.quotas.seconds[by].Add(throttle.Seconds())
	}
	return throttle
}

// LimitFetch applies the quota to a fetch. A follower's fetch is exempt. A response to a consumer
// contains at most as many bytes as the quota's burst, and no records while the user is over the
// quota.
func (m *Meter) LimitFetch(want *replica.FetchRequest) {
	if m == nil {
		return
	}
	if want.Replica != nil {
		m.Exempt = true
		return
	}
	if m.limits[quota.Fetch] > 0 {
		want.BytesMax = int(min(float64(want.BytesMax), m.limits.Capacity(quota.Fetch)))
		want.Suspended = func() bool { return m.debt(quota.Fetch) > 0 }
	}
}

func (m *Meter) debt(kind quota.Kind) time.Duration {
	m.quotas.mu.Lock()
	defer m.quotas.mu.Unlock()
	return m.quotas.Users.Debt(m.user, m.limits, kind, time.Now())
}

// Mutate charges created or deleted partitions. If strict is set, because the request's version
// supports the error, it fails if the user is over the quota. Otherwise the request is only
// throttled.
func (m *Meter) Mutate(partitions int, strict bool) error {
	if m == nil || m.limits[quota.Mutation] <= 0 {
		return nil
	}
	if strict {
		if debt := m.debt(quota.Mutation); debt > 0 {
			m.mutation = debt
			return errThrottled
		}
	}
	m.Adjust(partitions, strict)
	return nil
}

// Adjust corrects a charge made by Mutate. A negative number refunds the charge for a change that
// failed.
func (m *Meter) Adjust(partitions int, strict bool) {
	if m == nil || m.limits[quota.Mutation] <= 0 {
		return
	}
	m.quotas.mu.Lock()
	defer m.quotas.mu.Unlock()
	debt := m.quotas.Users.Charge(m.user, m.limits, quota.Mutation, float64(partitions), time.Now())
	if !strict {
		m.mutation = debt
	}
}

// SetThrottle sets the throttle time in an encoded response. It decodes a response only if the
// client is throttled. A response without that field remains unchanged.
func SetThrottle(req *wire.Request, answer *wire.Reply) {
	if answer.None || len(answer.Chunks) == 0 {
		return
	}
	millis := int32(min(math.Ceil(answer.Throttle.Seconds()*1000), math.MaxInt32))
	if req.Key == KeyFetch { // the records are not in memory
		binary.BigEndian.PutUint32(answer.Chunks[0].Bytes, uint32(millis))
		return
	}
	response := kmsg.ResponseForKey(req.Key)
	throttled, ok := response.(interface{ SetThrottle(millis int32) })
	if !ok {
		return
	}
	response.SetVersion(req.Version)
	if err := response.ReadFrom(answer.Chunks[0].Bytes); err != nil {
		return // an ApiVersions response in the format of version 0
	}
	throttled.SetThrottle(millis)
	answer.Chunks[0].Bytes = response.AppendTo(nil)
}
