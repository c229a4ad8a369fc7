package reports

import (
	"maps"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
)

func TestRatesOfLeaders(t *testing.T) {
	at := time.Unix(1000, 0)
	before := &Cluster{At: at, Rows: map[string][]report.Partition{"a": {
		{Broker: 0, Partition: 0, Leader: true, ProducedBytes: 1000},
		{Broker: 1, Partition: 0, ProducedBytes: 10},
		{Broker: 0, Partition: 1, Leader: true, ProducedBytes: 5000},
		{Broker: 0, Partition: 2, Leader: true, ProducedBytes: 5000},
	}}}
	now := &Cluster{At: at.Add(10 * time.Second), Rows: map[string][]report.Partition{"a": {
		{Broker: 0, Partition: 0, Leader: true, ProducedBytes: 3000},
		{Broker: 1, Partition: 1, Leader: true, ProducedBytes: 9000}, // another leader
		{Broker: 0, Partition: 2, Leader: true, ProducedBytes: 100},  // it has restarted
		{Broker: 0, Partition: 3, Leader: true, ProducedBytes: 100},  // new
	}}}
	want := map[report.TopicPartition]int64{{Topic: "a"}: 200}
	if got := rates(before, now); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := rates(nil, now); len(got) > 0 {
		t.Errorf("after the first round: %v", got)
	}
}
