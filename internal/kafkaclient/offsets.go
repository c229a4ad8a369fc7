package kafkaclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Span is the range of a partition's offsets from Begin up to, but not including, End.
type Span struct{ Begin, End int64 }

// Bounds contains partitions' start offsets and end offsets. With Since, Times contains the offset
// of the first record that is not older than Since.
type Bounds struct{ Starts, Ends, Times kadm.ListedOffsets }

// Ask selects which bounds List returns.
type Ask struct {
	Committed bool       // ends are last stable offsets instead of high watermarks
	Since     *time.Time // nil: no offsets by time
}

// List returns the bounds of topics. If only some brokers respond, the error is a
// *kadm.ShardErrors, and the bounds contain the partitions of those brokers. Any other error ends
// the listing. A topic that does not exist has one partition, -1, with an error.
func (a Ask) List(ctx context.Context, admin *kadm.Client, topics ...string) (b Bounds, err error) {
	ends := admin.ListEndOffsets
	if a.Committed {
		ends = admin.ListCommittedOffsets
	}
	byTime := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		if a.Since == nil {
			return nil, nil
		}
		return admin.ListOffsetsAfterMilli(ctx, a.Since.UnixMilli(), topics...)
	}
	var first error // the error of only some brokers
	for _, listing := range []struct {
		what    string
		into    *kadm.ListedOffsets
		request func(context.Context, ...string) (kadm.ListedOffsets, error)
	}{
		{"start offsets", &b.Starts, admin.ListStartOffsets}, {"end offsets", &b.Ends, ends},
		{"offsets by time", &b.Times, byTime},
	} {
		if *listing.into, err = listing.request(ctx, topics...); err == nil {
			continue
		}
		err = fmt.Errorf("list %s: %w", listing.what, err)
		if _, partial := errors.AsType[*kadm.ShardErrors](err); !partial {
			return b, err
		}
		first = cmp.Or(first, err)
	}
	return b, first
}

// errNoOffset means that a response contains no offset. Without this error, the caller would take
// -1 for an offset before the start of the log.
var errNoOffset = errors.New("the response contains no offset")

// Span returns a partition's offset range.
func (b *Bounds) Span(topic string, partition int32) (Span, error) {
	start, started := b.Starts.Lookup(topic, partition)
	end, ended := b.Ends.Lookup(topic, partition)
	if err := cmp.Or(end.Err, start.Err); err != nil {
		return Span{}, err
	}
	if !started || !ended {
		return Span{}, ErrNoAnswer
	}
	if start.Offset < 0 || end.Offset < 0 {
		return Span{}, errNoOffset
	}
	return Span{start.Offset, end.Offset}, nil
}

// Position is a kind of offset.
type Position int

// Kinds of offsets. AtTime is the offset of the first record that is not older than a given time.
// The zero value is not a valid kind.
const (
	Earliest Position = iota + 1
	Latest
	AtTime
	AtOffset
)

// Offset returns the offset at a position in a partition, within the log. Parameter offset is used
// for AtOffset. Offset fails if a response lacks the partition, because the zero value would reset
// a group to the start.
func (b *Bounds) Offset(topic string, partition int32, to Position, offset int64) (int64, error) {
	span, err := b.Span(topic, partition)
	if err != nil {
		return 0, err
	}
	switch to {
	case Earliest:
		return span.Begin, nil
	case Latest:
		return span.End, nil
	case AtTime:
		found, ok := b.Times.Lookup(topic, partition)
		switch {
		case !ok:
			return 0, ErrNoAnswer
		case found.Err != nil:
			return 0, found.Err
		case found.Offset < 0:
			return 0, errNoOffset
		}
		offset = found.Offset
	case AtOffset:
	default:
		return 0, fmt.Errorf("unknown position %d", to)
	}
	return min(max(offset, span.Begin), span.End), nil
}
