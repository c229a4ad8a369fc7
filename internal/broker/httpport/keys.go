package httpport

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/lookup"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

const (
	// lookupTimeout limits the time to look up a key in all partitions of a request.
	lookupTimeout = 2 * time.Second
	// lookupWait limits the wait for a free lookup slot. lookupWait and lookupTimeout together are
	// shorter than the timeout of clients.
	lookupWait = 500 * time.Millisecond
	// lookupBytesMax limits the bytes that one request reads, and the bytes of values in its response.
	lookupBytesMax = 32 << 20
	// lookupsMax is the maximum number of concurrent lookup requests. Each of them may hold
	// lookupBytesMax bytes of values.
	lookupsMax = 4
	// keyBytesMax is the maximum size of a key that can be looked up.
	keyBytesMax = 16 << 10
	// valueBytesDefault is the maximum size of a value in a response if the parameter valueBytes is
	// absent. Longer values are truncated.
	valueBytesDefault = 4 << 10
)

// keysQuery is a request for a key's records.
type keysQuery struct {
	topic      string
	key        []byte
	partition  int32 // -1: the partition that the default partitioner chooses
	all        bool  // search of all partitions
	latest     bool  // stop at the newest committed record
	valueBytes int
}

// parseKeysQuery parses the request's parameters.
func parseKeysQuery(topic string, query url.Values) (q keysQuery, err error) {
	q.topic = topic
	if !query.Has("key") {
		return q, fmt.Errorf("%w: key is missing: give the key in base64url", errParameter)
	}
	text := query.Get("key")
	if base64.RawURLEncoding.DecodedLen(len(text)) > keyBytesMax {
		return q, fmt.Errorf("%w: key has more than %d bytes", errParameter, keyBytesMax)
	}
	encoding := base64.RawURLEncoding
	if n := len(text); n > 0 && text[n-1] == '=' {
		encoding = base64.URLEncoding
	}
	if q.key, err = encoding.DecodeString(text); err != nil {
		return q, fmt.Errorf("%w: key=%q is not base64url", errParameter, text)
	}
	for name, flag := range map[string]*bool{"all": &q.all, "latest": &q.latest} {
		switch value := query.Get(name); value {
		case "", "false":
		case "true":
			*flag = true
		default:
			return q, fmt.Errorf("%w: %s=%q is neither true nor false", errParameter, name, value)
		}
	}
	partition, err := numberIn(query, "partition", -1, 0, idMax)
	if err != nil {
		return q, err
	}
	if q.all && partition >= 0 {
		return q, fmt.Errorf("%w: give either partition or all", errParameter)
	}
	valueBytes, err := numberIn(query, "valueBytes", valueBytesDefault, 0, lookupBytesMax)
	q.partition, q.valueBytes = int32(partition), int(valueBytes)
	return q, err
}

// handleKeys adds the key lookup endpoint.
func handleKeys(mux *http.ServeMux, brokers func() Brokers) {
	running := make(chan struct{}, lookupsMax)
	mux.HandleFunc("GET /api/v1/topics/{topic}/keys",
		func(w http.ResponseWriter, r *http.Request) {
			q, err := parseKeysQuery(r.PathValue("topic"), r.URL.Query())
			if err != nil {
				respondReport(w, nil, err)
				return
			}
			if err := enter(r.Context(), running); err != nil {
				respondReport(w, nil, err)
				return
			}
			defer func() { <-running }()
			ctx, cancel := context.WithTimeout(r.Context(), lookupTimeout)
			defer cancel()
			answer, err := brokers().keys(ctx, q)
			w.Header().Set("Cache-Control", "no-store")
			respondReport(w, answer, err)
		})
}

// enter waits until a lookup slot is free, but no longer than lookupWait.
func enter(ctx context.Context, running chan<- struct{}) error {
	timeout := time.NewTimer(lookupWait)
	defer timeout.Stop()
	select {
	case running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: the request was canceled", errNotReady)
	case <-timeout.C:
		return fmt.Errorf("%w: %d lookups run already: try again", errNotReady, cap(running))
	}
}

// keys looks up a key in the partitions that brokers of this process lead.
func (all Brokers) keys(ctx context.Context, q keysQuery) (report.Keys, error) {
	answer := report.Keys{Topic: q.topic, Key: q.key, Partitions: []report.KeyPartition{}}
	image := all.Image()
	if image == nil {
		return answer, ErrStarting
	}
	topic := image.Topic(q.topic)
	if topic == nil {
		return answer, fmt.Errorf("%w %q", ErrUnknownTopic, q.topic)
	}
	if q.partition < 0 && !q.all {
		q.partition = partitionOf(q.key, len(topic.Partitions))
	}
	if !q.all && int(q.partition) >= len(topic.Partitions) {
		return answer, fmt.Errorf("%w %d: %s has %d", ErrUnknownPartition, q.partition, q.topic,
			len(topic.Partitions))
	}
	searched := topic.Partitions
	if !q.all {
		searched = slices.Clone(searched)
		searched = slices.DeleteFunc(searched,
			func(p *metadata.Partition) bool { return p.Index != q.partition })
	}
	bytesLeft, valuesLeft := int64(lookupBytesMax), lookupBytesMax
	for i, p := range searched {
		id := logstore.PartitionID{Topic: q.topic, Index: p.Index}
		b, leads, err := all.holder(id, -1)
		if err != nil || !leads {
			answer.Elsewhere = append(answer.Elsewhere, elsewhere(image, p))
			continue
		}
		// Each partition gets a share of the limits, so that a long scan of one partition does not
		// prevent lookups in the others.
		share := len(searched) - i
		found, err := b.lookup(ctx, id, q, max(1, bytesLeft/int64(share)), valuesLeft/share)
		if err != nil {
			return answer, err
		}
		bytesLeft -= found.ReadBytes
		for _, r := range found.Records {
			valuesLeft = max(0, valuesLeft-len(r.Value)-headerBytes(r.Headers))
		}
		answer.Partitions = append(answer.Partitions, found)
	}
	return answer, nil
}

// headerBytes returns the total size of the headers.
func headerBytes(headers []report.KeyHeader) (n int) {
	for _, h := range headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// elsewhere returns a report entry with the partition's leader in the metadata image.
func elsewhere(image *metadata.Image, p *metadata.Partition) report.KeyElsewhere {
	e := report.KeyElsewhere{Partition: p.Index, Broker: metadata.NoBroker}
	if broker, up := image.Broker(p.Leader); up {
		endpoint, _ := broker.Endpoints.On(metadata.DefaultListener)
		e.Broker, e.Host = p.Leader, endpoint.Host
	}
	return e
}

// lookup looks up a key in one partition that this broker leads.
func (b *Broker) lookup(ctx context.Context, id logstore.PartitionID, q keysQuery,
	bytesMax int64, valuesMax int) (report.KeyPartition, error) {
	log, epoch, err := b.Replicas.LeaderOfNewest(id)
	if err != nil {
		return report.KeyPartition{}, notLeading(err)
	}
	now := time.Now()
	found, err := lookup.Find(ctx, log.Compaction(), q.key, lookup.Options{Latest: q.latest,
		BytesMax: bytesMax, ValueBytesMax: q.valueBytes, ValuesBytesMax: max(1, valuesMax),
		Now: now})
	if err != nil {
		return report.KeyPartition{}, err
	}
	if _, err := b.Replicas.Leader(id, epoch); err != nil {
		return report.KeyPartition{}, notLeading(err)
	}
	return keyPartition(b.ID, id.Index, &found, now), nil
}

// notLeading converts the error of a lookup to the error in the response. The error means that the
// broker does not lead the partition, does not know all acknowledged records yet because it has
// just become leader, or that the leader epoch has changed during the lookup.
func notLeading(err error) error {
	if errors.Is(err, replica.ErrOffsetNotAvailable) ||
		errors.Is(err, replica.ErrFencedLeaderEpoch) {
		return fmt.Errorf("%w: try again: %w", errNotReady, err)
	}
	return fmt.Errorf("%w: %w", ErrNotHere, err)
}

// recordStates contains the name of each lookup.State in a report.
var recordStates = map[lookup.State]string{
	lookup.Live: report.RecordLive, lookup.Tombstone: report.RecordTombstone,
	lookup.Superseded: report.RecordSuperseded,
	lookup.Aborted:    report.RecordAborted,
	lookup.Undecided:  report.RecordUndecided,
}

// keyPartition converts the result of a lookup in one partition to its report.
func keyPartition(broker, partition int32, found *lookup.Records,
	now time.Time) report.KeyPartition {
	r := report.KeyPartition{Broker: broker, Partition: partition, LogStartOffset: found.LogStart,
		HighWatermark: found.HighWatermark, LastStableOffset: found.LastStable,
		Complete: found.Complete, ReadBytes: found.ReadBytes, Segments: found.Segments,
		Scanned: found.Scanned, Records: make([]report.KeyRecord, 0, len(found.Records))}
	switch latest := found.Latest(); {
	case latest == nil && found.Complete:
		r.State = report.KeyAbsent
	case latest == nil:
		r.State = report.KeyUnknown
	case latest.Tombstone:
		r.State = report.KeyDeleted
	default:
		r.State = report.KeyPresent
	}
	for i := range found.Records {
		r.Records = append(r.Records, keyRecord(&found.Records[i], now))
	}
	return r
}

// keyRecord converts a record to its report. now is used to compute the record's age.
func keyRecord(r *lookup.Record, now time.Time) report.KeyRecord {
	one := report.KeyRecord{Offset: r.Offset, Timestamp: float64(r.TimestampMs) / 1000,
		State: recordStates[r.State], Value: r.Value, ValueBytes: r.ValueBytes, Segment: r.Segment,
		HeadersOmitted: r.HeadersOmitted,
		SegmentState:   cleaner.SegmentStateName(r.SegmentState), BlockedBy: r.BlockedBy}
	for _, h := range r.Headers {
		one.Headers = append(one.Headers, report.KeyHeader{Key: string(h.Key), Value: h.Value})
	}
	if r.State == lookup.Superseded {
		one.SupersededBy = &r.SupersededBy
	}
	if r.State != lookup.Tombstone {
		return one
	}
	if r.Clock == nil {
		one.WaitsFor = report.WaitsForOlderRecord
		if r.SegmentState != compaction.SegmentClean {
			one.WaitsFor = report.WaitsForPass
		}
		return one
	}
	clock := cleaner.ClockReport(*r.Clock, now)
	one.GoesFrom, one.WaitsFor = clock.GoesFrom, clock.WaitsFor
	return one
}
