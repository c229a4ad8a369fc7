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
		// comes from a broker that is to be removed
		{Partitions: []report.Partition{{Broker: 3, Topic: "c"}}},
		nil, // comes from another broker that is to be removed
	}, 3)
	if got.Polled != 3 || got.Responded != 2 {
		t.Errorf("got %d of %d responses, want 2 of 3", got.Responded, got.Polled)
	}
	for topic, want := range map[string]int{"a": 2, "b": 1, "c": 1} {
		if rows := got.Rows[topic]; len(rows) != want {
			t.Errorf("got rows %+v of topic %s, want %d", rows, topic, want)
		}
	}
	if len(got.Silent) != 1 {
		t.Errorf("got silent brokers %v, want one", got.Silent)
	}
}
