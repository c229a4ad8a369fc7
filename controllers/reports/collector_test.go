package reports

import (
	"testing"

	"heartwood.dev/heartwood/api/report"
)

func TestMergeKeepsTheRowsOfAllReplicas(t *testing.T) {
	got := merge([]*report.Partitions{
		{Partitions: []report.Partition{{Broker: 0, Topic: "a", Leader: true},
			{Broker: 0, Topic: "b"}}},
		nil,
		{Partitions: []report.Partition{{Broker: 2, Topic: "a", Partition: 1}}},
		{Partitions: []report.Partition{{Broker: 3, Topic: "c"}}}, // is to be removed
		nil, // so is this one
	}, 3)
	if got.Polled != 3 || got.Responded != 2 || len(got.Rows["a"]) != 2 || len(got.Rows["b"]) != 1 ||
		len(got.Rows["c"]) != 1 || len(got.Silent) != 1 {
		t.Errorf("got %+v, want 2 of 3 responses, 2 rows of topic a and 1 of b", got)
	}
}
