package kafkaclient

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestOffsetNeedsAnswers checks that an error for a partition, or a response without the partition,
// never resets a group to the start.
func TestOffsetNeedsAnswers(t *testing.T) {
	build := func(offset int64, err error) kadm.ListedOffsets {
		return kadm.ListedOffsets{"t": {0: {Topic: "t", Offset: offset, Err: err}}}
	}
	failed := kerr.NotLeaderForPartition
	for _, test := range []struct {
		to            Position
		starts, times kadm.ListedOffsets
		endErr        error
		want          int64 // -1: an error
	}{
		{Earliest, build(5, nil), nil, nil, 5}, {Latest, build(5, nil), nil, nil, 20},
		{AtOffset, build(5, nil), nil, nil, 10}, {AtTime, build(5, nil), build(12, nil), nil, 12},
		{AtTime, build(5, nil), build(2, nil), nil, 5}, {AtTime, build(5, nil), build(0, failed), nil,
			-1},
		{AtTime, build(5, nil), nil, nil, -1}, {AtTime, build(5, nil), build(-1, nil), nil, -1},
		{Latest, nil, nil, nil, -1}, {Latest, build(0, failed), nil, nil, -1},
		{Earliest, build(5, nil), nil, failed, -1}, {Earliest, build(-1, nil), nil, nil, -1},
		{0, build(5, nil), nil, nil, -1},
	} {
		end := kadm.ListedOffset{Topic: "t", Offset: 20, Err: test.endErr}
		bounds := Bounds{test.starts, kadm.ListedOffsets{"t": {0: end}}, test.times}
		got, err := bounds.Offset("t", 0, test.to, 10)
		if err == nil != (test.want >= 0) || err == nil && got != test.want {
			t.Errorf("%+v: got %d, error %v", test, got, err)
		}
	}
}
