package remote

import (
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// TestLatestValueNeedsAllPartitions: a value of one partition is not the latest one if another
// partition, which may contain a newer one, was not searched to the end.
func TestLatestValueNeedsAllPartitions(t *testing.T) {
	present := report.KeyPartition{State: report.KeyPresent, Complete: true,
		Records: []report.KeyRecord{{State: report.RecordLive, Value: []byte("v")}}}
	deleted := report.KeyPartition{State: report.KeyDeleted, Complete: true,
		Records: []report.KeyRecord{{State: report.RecordTombstone}}}
	absent := report.KeyPartition{Partition: 1, State: report.KeyAbsent, Complete: true}
	unknown := report.KeyPartition{Partition: 1, State: report.KeyUnknown}
	for _, test := range []struct {
		partitions []report.KeyPartition
		err        string // empty: the value is found
	}{
		{[]report.KeyPartition{present, absent}, ""},
		{[]report.KeyPartition{present, unknown}, "newest part of partition 1"},
		{[]report.KeyPartition{deleted, unknown}, "newest part of partition 1"},
		{[]report.KeyPartition{deleted, absent}, "was deleted"},
		{[]report.KeyPartition{absent}, "no record"},
	} {
		got, err := LatestValue(&report.Keys{Topic: "t", Partitions: test.partitions})
		switch {
		case test.err == "" && (err != nil || string(got.Value) != "v"):
			t.Errorf("got %+v, error %v", got, err)
		case test.err != "" && (err == nil || got != nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("got %+v, error %v; want an error with %q", got, err, test.err)
		}
	}
}
