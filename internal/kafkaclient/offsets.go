package kafkaclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Span is a range of offsets of a partition: from Begin up to, but not including, End.
type Span struct{ Begin, End int64 }

// Bounds are the first offsets of partitions and those after the last, and with Since the offset of
// the first record that is not older.
type Bounds struct{ Starts, Ends, Times kadm.ListedOffsets }

// Ask says which bounds are listed.
type Ask struct {
	Committed bool       // last stable offsets instead of high watermarks as ends
	Since     *time.Time // nil: no offsets by time
}

// List lists the bounds of topics. If only some brokers answer, the error is a *kadm.ShardErrors,
// and the bounds contain their partitions. Any other error ends the listing. A topic that does not
// exist has one partition, -1, with an error.
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
	var first error // of some brokers only
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

// errNoOffset is the error of a response without an offset. To a caller, -1 would be before the
// start of the log.
var errNoOffset = errors.New("the response contains no offset")

// Span returns the offsets of a partition.
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

// Kinds of offsets. AtTime is the offset of the first record that is not older. The zero value is
// none of them.
const (
	Earliest Position = iota + 1
	Latest
	AtTime
	AtOffset
)

// Offset returns the offset of a position in a partition, within the log. The argument offset is
// that of AtOffset. It fails if a response lacks the partition: the zero value of an answer would
// reset a group to the start.
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
