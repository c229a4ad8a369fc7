package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/kafkaclient"
)

// Limits on one browse.
const (
	RecordsMax      = 500
	decompressedMax = 8 << 20
	browseTimeout   = 3 * time.Second
	fetchBytes      = 512 << 10 // of one fetch request
	fetchWait       = 250 * time.Millisecond
)

// Query selects records of a topic.
type Query struct {
	Topic      string
	Partitions []int32 // empty: all partitions
	// From contains the offset at which to begin, by partition. A missing partition begins at the
	// start of its log or, with Backward, at its end.
	From map[int32]int64
	// Since makes the browse begin at the first record with this or a later timestamp. It takes
	// precedence over From, and cannot be combined with Backward.
	Since time.Time
	// Backward reads the records below From, the latest first.
	Backward bool
	// Key and Value select records whose key and value contain these bytes; empty: all records.
	Key, Value []byte
	Limit      int // maximum number of records, up to RecordsMax; 0: RecordsMax
}

// Record is one record. A null key or value is nil.
type Record struct {
	Partition  int32
	Offset     int64
	Time       time.Time
	Key, Value []byte
	Headers    []Header
	// Superseded is set if a later record on the same page has the same key.
	Superseded bool
}

// Header is one record header.
type Header struct {
	Key   string
	Value []byte
}

// Tombstone reports whether the record deletes its key.
func (r *Record) Tombstone() bool { return r.Value == nil && r.Key != nil }

// Page is the result of a browse.
type Page struct {
	Records []Record // sorted by time; with Backward the latest first
	// Next is the value of Query.From for the next page. It is empty if the page has reached the end
	// of all partitions.
	Next map[int32]int64
	// Ends contains the end offset of each partition, which limits what can be read.
	Ends   map[int32]int64
	Looked int64 // number of records that were read
	Span   int64 // number of offsets from the start to the end of the partitions
	// Limited is the limit that has ended the page before it had Query.Limit records or reached the
	// end: "time" or "bytes". Otherwise it is "".
	Limited string
}

// browse is the state of one call of Browse.
type browse struct {
	client  *kgo.Client
	query   Query
	topic   kadm.TopicDetail
	spans   map[int32]kafkaclient.Span
	budget  budget
	page    Page
	stopped bool
	// oneBatch is true if each fetch reads only one batch.
	oneBatch bool
}

// Browse reads records. It reads only records below the last stable offset, without those of
// aborted transactions. It fails with ErrBusy if too many browses are running.
func (c *Client) Browse(ctx context.Context, query Query) (Page, error) {
	select {
	case c.browses <- struct{}{}:
		defer func() { <-c.browses }()
	default:
		return Page{}, ErrBusy
	}
	if query.Limit <= 0 || query.Limit > RecordsMax {
		query.Limit = RecordsMax
	}
	ctx, cancel := context.WithTimeout(ctx, browseTimeout)
	defer cancel()
	b := &browse{client: c.client, query: query, budget: budget{decompressedMax}}
	if err := b.locate(ctx, c.admin); err != nil {
		return Page{}, err
	}
	b.page.Next, b.page.Ends = map[int32]int64{}, map[int32]int64{}
	for p, span := range b.spans {
		b.page.Ends[p] = span.End
	}
	read := b.forward
	if query.Backward {
		read = b.backward
	}
	partitions := slices.Sorted(maps.Keys(b.spans))
	quota := share(query.Limit, len(partitions))
	for _, p := range partitions {
		if err := read(ctx, p, quota); err != nil {
			return Page{}, err
		}
	}
	b.order()
	return b.page, nil
}

// locate looks up the topic, and the spans and start positions of its partitions.
func (b *browse) locate(ctx context.Context, admin *kadm.Client) error {
	meta, err := admin.Metadata(ctx, b.query.Topic)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	b.topic = meta.Topics[b.query.Topic]
	if b.topic.Err != nil {
		return fmt.Errorf("read metadata of topic %s: %w", b.query.Topic, b.topic.Err)
	}
	ask := kafkaclient.Ask{Committed: true}
	if !b.query.Since.IsZero() {
		ask.Since = &b.query.Since
	}
	bounds, err := ask.List(ctx, admin, b.query.Topic)
	if err != nil {
		return err
	}
	for _, p := range b.query.Partitions {
		if _, found := b.topic.Partitions[p]; !found {
			return fmt.Errorf("read partition %d of topic %s: %w", p, b.query.Topic, errNoPartition)
		}
	}
	b.spans = map[int32]kafkaclient.Span{}
	from := map[int32]int64{}
	for p := range b.topic.Partitions {
		if len(b.query.Partitions) > 0 && !slices.Contains(b.query.Partitions, p) {
			continue
		}
		span, err := bounds.Span(b.query.Topic, p)
		if err != nil {
			return fmt.Errorf("read offsets of partition %d: %w", p, err)
		}
		b.spans[p] = span
		b.page.Span += span.End - span.Begin
		from[p] = b.begin(p, bounds.Times)
	}
	b.query.From = from
	return nil
}

// begin returns the offset at which the browse begins in a partition.
func (b *browse) begin(p int32, since kadm.ListedOffsets) int64 {
	span := b.spans[p]
	if found, ok := since.Lookup(b.query.Topic, p); ok && !b.query.Backward {
		if found.Offset < 0 {
			return span.End
		}
		return found.Offset
	}
	offset, given := b.query.From[p]
	switch {
	case given:
		return min(max(offset, span.Begin), span.End)
	case b.query.Backward:
		return span.End
	}
	return span.Begin
}

// forward reads up to quota records of a partition, from its position towards its end.
func (b *browse) forward(ctx context.Context, p int32, quota int) error {
	window := kafkaclient.Span{Begin: b.query.From[p], End: b.spans[p].End}
	found, next, err := b.read(ctx, p, window, quota)
	b.page.Records = append(b.page.Records, found...)
	if next < b.spans[p].End {
		b.page.Next[p] = next
	}
	return err
}

// backward reads up to quota records of a partition, from its position towards its start.
func (b *browse) backward(ctx context.Context, p int32, quota int) error {
	before, wanted := b.query.From[p], int64(quota)
	var kept []Record
	for len(kept) < quota && before > b.spans[p].Begin && !b.stopped {
		window := backward(b.spans[p], before, wanted)
		found, next, err := b.read(ctx, p, window, RecordsMax)
		if err != nil {
			return err
		}
		if next < window.End {
			// A limit was reached within the window. When browsing backward, the unread part of the window
			// is newer than the part that was read, so the next page must read the window again. If the page
			// is empty, try a smaller window.
			if len(kept) > 0 || wanted == 1 || b.page.Limited != "bytes" {
				break
			}
			b.stopped, b.budget.left, b.page.Limited = false, decompressedMax, ""
			wanted = max(1, wanted/windowFactor)
			continue
		}
		kept = append(found, kept...)
		before = window.Begin
		wanted *= windowFactor
	}
	if extra := len(kept) - quota; extra > 0 {
		kept = kept[extra:]
		before = kept[0].Offset
	}
	b.page.Records = append(b.page.Records, kept...)
	if before > b.spans[p].Begin {
		b.page.Next[p] = before
	}
	return nil
}

// read returns matching records in a window, at most the given number, and the offset up to which
// it has read.
func (b *browse) read(ctx context.Context, p int32, window kafkaclient.Span,
	most int) (found []Record, offset int64, err error) {
	offset = window.Begin
	for offset < window.End && len(found) < most && !b.stopped {
		records, next, err := b.fetch(ctx, p, offset)
		switch {
		case errors.Is(err, errBudget) || b.budget.left <= 0 && err == nil && next == offset:
			b.stop("bytes")
		case ctx.Err() != nil:
			b.stop("time")
		case err != nil:
			return nil, offset, err
		}
		for _, r := range records {
			if r.Offset >= window.End || len(found) >= most {
				next = min(next, r.Offset)
				break
			}
			b.page.Looked++
			if b.matches(r) {
				found = append(found, recordOf(r))
			}
		}
		if next <= offset && !b.stopped {
			return found, offset, fmt.Errorf("fetch partition %d: no progress at offset %d", p, offset)
		}
		offset = max(offset, min(next, window.End))
		if b.budget.left <= 0 {
			b.stop("bytes")
		}
	}
	return found, offset, nil
}

// stop ends the browse because a limit was reached.
func (b *browse) stop(why string) {
	if !b.stopped {
		b.stopped, b.page.Limited = true, why
	}
}

func (b *browse) matches(r *kgo.Record) bool {
	return bytes.Contains(r.Key, b.query.Key) && bytes.Contains(r.Value, b.query.Value)
}

// fetch requests records from an offset on, and returns the offset after the last batch. If the
// deadline passes during the request, it returns no records.
func (b *browse) fetch(ctx context.Context, p int32, offset int64) ([]*kgo.Record, int64, error) {
	request := kafkaclient.Fetch{Topic: b.topic, Partition: p, Offset: offset, Wait: fetchWait,
		BytesMax: fetchBytes, PartitionBytesMax: fetchBytes, Committed: true, Decompressor: &b.budget}
	if b.oneBatch {
		request.PartitionBytesMax = 1 // brokers return at least one batch
	}
	fetched, next, err := request.Do(ctx, b.client)
	if err != nil {
		return nil, offset, fmt.Errorf("fetch partition %d from broker %d: %w", p,
			b.topic.Partitions[p].Leader, err)
	}
	if fetched.Err != nil && len(fetched.Records) == 0 {
		return nil, next, fmt.Errorf("fetch partition %d: %w", p, fetched.Err)
	}
	return fetched.Records, next, nil
}

// order sorts the records by time, and marks records that are superseded by a later record on the
// page.
func (b *browse) order() {
	slices.SortFunc(b.page.Records, func(x, y Record) int {
		return cmp.Or(x.Time.Compare(y.Time), cmp.Compare(x.Partition, y.Partition),
			cmp.Compare(x.Offset, y.Offset))
	})
	type place struct {
		partition int32
		key       string
	}
	latest := map[place]int64{}
	for i := range b.page.Records {
		r := &b.page.Records[i]
		if r.Key != nil {
			key := place{r.Partition, string(r.Key)}
			latest[key] = max(latest[key], r.Offset)
		}
	}
	for i := range b.page.Records {
		r := &b.page.Records[i]
		r.Superseded = r.Key != nil && latest[place{r.Partition, string(r.Key)}] > r.Offset
	}
	if b.query.Backward {
		slices.Reverse(b.page.Records)
	}
}

func recordOf(r *kgo.Record) Record {
	record := Record{Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp, Key: r.Key,
		Value: r.Value}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, Header{h.Key, h.Value})
	}
	return record
}
