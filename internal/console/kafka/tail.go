package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limits on tails.
const (
	tailsMax = 8 // maximum number of open tails
	// TailRecords is the maximum number of records that one step returns.
	TailRecords = 50
	// tailDecompressed limits the decompressed bytes that one step reads.
	tailDecompressed = 4 << 20
)

// ErrTails means that tailsMax other tails are open.
var ErrTails = errors.New("too many pages follow topics: close one of them")

// TailQuery selects the records that a Tail returns.
type TailQuery struct {
	Topic      string
	Partitions []int32 // empty: all, even those that are added later
	// From contains the offset at which to begin, by partition. A missing partition begins at its end.
	From map[int32]int64
	// Key and Value select records whose key and value contain these bytes; empty: all records.
	Key, Value []byte
}

// Tail follows the ends of a topic's partitions, in steps. If there are more new records than a
// step may read, the step skips to the newest ones, so that the page stays current. The methods of
// Tail are not safe for concurrent use.
type Tail struct {
	client    *Client
	query     TailQuery
	topic     kadm.TopicDetail
	positions map[int32]int64 // offset of the next record by partition; nil before the first step
	stale     bool            // true if the metadata must be read again
	first     int             // first partition of the next step; rotates, for fairness
}

// TailStep is the result of one step of a Tail.
type TailStep struct {
	Records []Record // by time, at most TailRecords
	Looked  int64    // number of records that were read
	Found   int64    // number of matching records, including those that are not in Records
	Skipped int64    // number of offsets that were not read
}

// Tail starts to follow a topic. It fails with ErrTails if too many tails are open. The caller must
// call Close.
func (c *Client) Tail(ctx context.Context, query TailQuery) (*Tail, error) {
	select {
	case c.tails <- struct{}{}:
	default:
		return nil, ErrTails
	}
	t := &Tail{client: c, query: query}
	ctx, cancel := context.WithTimeout(ctx, browseTimeout)
	defer cancel()
	err := t.load(ctx)
	for _, p := range query.Partitions {
		if _, found := t.topic.Partitions[p]; !found && err == nil {
			err = fmt.Errorf("read partition %d of topic %s: %w", p, query.Topic, errNoPartition)
		}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close ends the tail, so that another one can be opened.
func (t *Tail) Close() { <-t.client.tails }

// Position returns the offsets of the next records, in the format of TailQuery.From.
func (t *Tail) Position() map[int32]int64 { return maps.Clone(t.positions) }

// load requests the topic's metadata from a broker instead of using the client's cache. If the
// topic was deleted and created again, the tail continues at the start of the new topic.
func (t *Tail) load(ctx context.Context) error {
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &t.query.Topic
	request.Topics = append(request.Topics, asked)
	response, err := request.RequestWith(ctx, t.client.client)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if len(response.Topics) != 1 {
		return errors.New("read metadata: the broker returned no topic")
	}
	described := &response.Topics[0]
	if err := kerr.ErrorForCode(described.ErrorCode); err != nil {
		return fmt.Errorf("read metadata of topic %s: %w", t.query.Topic, err)
	}
	topic := kadm.TopicDetail{Topic: t.query.Topic, ID: described.TopicID,
		Partitions: kadm.PartitionDetails{}}
	for _, p := range described.Partitions {
		topic.Partitions[p.Partition] = kadm.PartitionDetail{Leader: p.Leader}
	}
	if t.positions != nil && t.topic.ID != topic.ID {
		clear(t.positions)
	}
	t.topic, t.stale = topic, false
	return nil
}

// Next reads the records appended since the last step, without waiting for new ones. If some
// partitions cannot be read, it returns the records of the others, and the next step tries the
// failed partitions again.
func (t *Tail) Next(ctx context.Context) (TailStep, error) {
	ctx, cancel := context.WithTimeout(ctx, browseTimeout)
	defer cancel()
	loaded := t.stale
	if loaded {
		if err := t.load(ctx); err != nil {
			return TailStep{}, err
		}
	}
	ends, fault := t.client.admin.ListCommittedOffsets(ctx, t.query.Topic)
	if fault != nil { // some brokers may have responded
		t.stale, fault = true, fmt.Errorf("list end offsets: %w", fault)
	}
	partitions := t.partitions(ends)
	b := &browse{client: t.client.client, topic: t.topic, budget: budget{tailDecompressed},
		query: Query{Topic: t.query.Topic, Key: t.query.Key, Value: t.query.Value}}
	var step TailStep
	for i := range partitions {
		p := partitions[(t.first+i)%len(partitions)]
		end := ends[t.query.Topic][p]
		if end.Err == nil && end.Offset < t.positions[p] && !loaded {
			t.stale = true // truncated or re-created; the new metadata shows which
			continue
		}
		skipped, err := t.read(ctx, b, p, end, share(RecordsMax, len(partitions)))
		if step.Skipped += skipped; err != nil {
			fault, t.stale = err, true
		}
	}
	t.first++
	b.order()
	step.Looked, step.Found = b.page.Looked, int64(len(b.page.Records))
	step.Records = b.page.Records[max(0, len(b.page.Records)-TailRecords):]
	return step, fault
}

// partitions returns the partitions that the tail follows, and sets the positions of new
// partitions.
func (t *Tail) partitions(ends kadm.ListedOffsets) (partitions []int32) {
	begins := t.positions == nil
	if begins {
		t.positions = map[int32]int64{}
	}
	for p, end := range ends[t.query.Topic] {
		if len(t.query.Partitions) > 0 && !slices.Contains(t.query.Partitions, p) {
			continue
		}
		partitions = append(partitions, p)
		if _, known := t.topic.Partitions[p]; !known {
			t.stale = true
		}
		if _, known := t.positions[p]; known || end.Err != nil {
			continue
		}
		from, given := t.query.From[p]
		switch {
		case begins && given:
			t.positions[p] = max(0, from)
		case begins:
			t.positions[p] = end.Offset
		default:
			t.positions[p] = 0 // the partition was added after the first step
		}
	}
	slices.Sort(partitions)
	return partitions
}

// read reads a partition's new records into b. Without a filter it reads at most about quota
// records.
func (t *Tail) read(ctx context.Context, b *browse, p int32, end kadm.ListedOffset,
	quota int) (skipped int64, err error) {
	if end.Err != nil {
		return 0, fmt.Errorf("read the end offset of partition %d: %w", p, end.Err)
	}
	if _, known := t.topic.Partitions[p]; !known {
		return 0, nil // the next step reads the partition, with new metadata
	}
	filtered := len(t.query.Key)+len(t.query.Value) > 0
	window, skipped := tailWindow(t.positions[p], end.Offset, quota, filtered)
	t.positions[p] = window.Begin
	if window.Begin == window.End {
		return skipped, nil
	}
	found, next, err := b.read(ctx, p, window, RecordsMax)
	b.page.Records = append(b.page.Records, found...)
	gone := errors.Is(err, kerr.OffsetOutOfRange) // the start of the log has moved beyond the records
	full := len(found) >= RecordsMax || b.page.Limited == "bytes"
	if t.positions[p] = next; gone || err == nil && full {
		skipped += window.End - next
		t.positions[p] = window.End
		return skipped, nil
	}
	return skipped, err
}

// Closed reports whether an error means that the client was closed.
func Closed(err error) bool { return errors.Is(err, kgo.ErrClientClosed) }
