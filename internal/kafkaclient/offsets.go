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
// and the bounds contain their partitions. A topic that does not exist has one partition, -1, with
// an error.
func (a Ask) List(ctx context.Context, admin *kadm.Client, topics ...string) (b Bounds, err error) {
	var faults []error
	list := func(what string, into *kadm.ListedOffsets,
		request func(context.Context, ...string) (kadm.ListedOffsets, error)) {
		var fault error
		if *into, fault = request(ctx, topics...); fault != nil {
			faults = append(faults, fmt.Errorf("list %s: %w", what, fault))
		}
	}
	list("start offsets", &b.Starts, admin.ListStartOffsets)
	if a.Committed {
		list("end offsets", &b.Ends, admin.ListCommittedOffsets)
	} else {
		list("end offsets", &b.Ends, admin.ListEndOffsets)
	}
	if a.Since != nil {
		list("offsets by time", &b.Times,
			func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
				return admin.ListOffsetsAfterMilli(ctx, a.Since.UnixMilli(), topics...)
			})
	}
	return b, firstFatal(faults)
}

// firstFatal returns the first error that is not that of some brokers only, or else the first one.
func firstFatal(faults []error) error {
	for _, fault := range faults {
		if _, partial := errors.AsType[*kadm.ShardErrors](fault); !partial {
			return fault
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return faults[0]
}

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
	return Span{start.Offset, end.Offset}, nil
}

// Position is a kind of offset.
type Position int

// Kinds of offsets. AtTime is the offset of the first record that is not older.
const (
	Earliest Position = iota
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
			return 0, errors.New("the response contains no offset")
		}
		offset = found.Offset
	}
	return min(max(offset, span.Begin), span.End), nil
}
