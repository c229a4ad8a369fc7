package httpport

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/replica"
)

// errParameter is wrapped by all errors for invalid query parameters.
var errParameter = errors.New("invalid parameter")

// ErrNotHere means that these brokers have no replica of the partition, or that the requested
// broker has none.
var ErrNotHere = errors.New("no replica of the partition is here")

// errNotReady is wrapped by errors after which a retry may soon succeed.
var errNotReady = errors.New("not ready")

// reportFailures maps errors of partition reports to responses. The last row applies to all other
// errors.
var reportFailures = []struct {
	err    error
	code   int
	reason string
}{
	{errParameter, http.StatusBadRequest, "BadRequest"},
	{ErrStarting, http.StatusServiceUnavailable, "NotReady"},
	{errNotReady, http.StatusServiceUnavailable, "NotReady"},
	{ErrUnknownTopic, http.StatusNotFound, "UnknownTopic"},
	{ErrUnknownPartition, http.StatusNotFound, "UnknownPartition"},
	{ErrNotHere, http.StatusMisdirectedRequest, "Misdirected"},
	{cleaner.ErrUnknownPartition, http.StatusServiceUnavailable, "NotReady"},
	{logstore.ErrClosed, http.StatusServiceUnavailable, "NotReady"},
	{nil, http.StatusInternalServerError, "Failed"},
}

// respondReport responds with the report, or with the error.
func respondReport(w http.ResponseWriter, answer any, err error) {
	if err == nil {
		respond(w, http.StatusOK, answer)
		return
	}
	for _, known := range reportFailures {
		if known.err == nil || errors.Is(err, known.err) {
			respond(w, known.code, report.Failure{Error: err.Error(), Reason: known.reason})
			return
		}
	}
}

// numberIn parses a numeric parameter that must be between least and most. If the parameter is
// missing, it returns the value of otherwise.
func numberIn(query url.Values, name string, otherwise, least, most int64) (int64, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w: %s=%q is not a number from %d to %d", errParameter, name, text,
			least, most)
	}
	return n, nil
}

const (
	offsetMax = 1<<63 - 1
	idMax     = 1<<31 - 1
)

// segmentsQuery is a request for a partition's segments.
type segmentsQuery struct {
	id     logstore.PartitionID
	broker int32 // -1: the leader if it is in this process, otherwise any broker with a replica
	from   int64
	limit  int
}

// parseSegmentsQuery parses the request's parameters.
func parseSegmentsQuery(topic, partition string, query url.Values) (q segmentsQuery, err error) {
	index, err := strconv.ParseInt(partition, 10, 32)
	if err != nil || index < 0 {
		return q, fmt.Errorf("%w: partition %q is not a number", errParameter, partition)
	}
	q.id = logstore.PartitionID{Topic: topic, Index: int32(index)}
	broker, err := numberIn(query, "broker", -1, 0, idMax)
	if err != nil {
		return q, err
	}
	if q.from, err = numberIn(query, "from", 0, 0, offsetMax); err != nil {
		return q, err
	}
	limit, err := numberIn(query, "limit", report.SegmentsMax, 1, report.SegmentsMax)
	q.broker, q.limit = int32(broker), int(limit)
	return q, err
}

// handleSegments adds the segments endpoint.
func handleSegments(mux *http.ServeMux, brokers func() Brokers) {
	mux.HandleFunc("GET /api/v1/partitions/{topic}/{partition}/segments",
		func(w http.ResponseWriter, r *http.Request) {
			q, err := parseSegmentsQuery(r.PathValue("topic"), r.PathValue("partition"),
				r.URL.Query())
			var answer report.Segments
			if err == nil {
				answer, err = brokers().segments(q)
			}
			respondReport(w, answer, err)
		})
}

// segments returns the segments of one of the partition's replicas.
func (all Brokers) segments(q segmentsQuery) (report.Segments, error) {
	b, leads, err := all.holder(q.id, q.broker)
	if err != nil {
		return report.Segments{}, err
	}
	return b.segments(q.id, leads, q.from, q.limit)
}

// segments returns the segments of this broker's replica.
func (b *Broker) segments(id logstore.PartitionID, leads bool, from int64,
	limit int) (report.Segments, error) {
	answer, err := b.Cleaner.Segments(id, from, limit)
	if err != nil {
		return answer, err
	}
	answer.Broker, answer.Leader = b.ID, leads
	for i := range answer.Segments {
		s := &answer.Segments[i]
		for c := range s.Clocks {
			if clock := &s.Clocks[c]; leads && clock.WaitsFor == report.WaitsForReplicas {
				clock.Replicas = b.Replicas.TombstonesWaitFor(id, s.LastOffset)
			}
		}
	}
	return answer, nil
}

// holder returns a broker of this process that has a replica of the partition, and whether that
// broker leads the partition. If broker is not -1, only the broker with that id is considered.
// Otherwise the leader is preferred.
func (all Brokers) holder(id logstore.PartitionID, broker int32) (holder *Broker,
	leads bool, err error) {
	image := all.Image()
	switch {
	case image == nil:
		return nil, false, ErrStarting
	case image.Topic(id.Topic) == nil:
		return nil, false, fmt.Errorf("%w %q", ErrUnknownTopic, id.Topic)
	}
	err = fmt.Errorf("%w: %s", ErrNotHere, id)
	for _, b := range all {
		if broker >= 0 && b.ID != broker {
			continue
		}
		switch _, fault := b.Replicas.Log(id); {
		case errors.Is(fault, replica.ErrUnknownPartition):
			err = fmt.Errorf("%w: %s", ErrUnknownPartition, id)
			continue
		case fault != nil:
			continue
		}
		_, fault := b.Replicas.Leader(id, -1)
		if holder == nil || fault == nil {
			holder, leads = b, fault == nil
		}
		if leads {
			break
		}
	}
	if holder == nil {
		return nil, false, err
	}
	return holder, leads, nil
}
