package report

import "testing"

// TestIdentifyNamesTheProducer checks that a row's oldest transaction gets the right transactional
// id: the one with the same producer id and an open transaction that includes the partition.
func TestIdentifyNamesTheProducer(t *testing.T) {
	until := 1060.0
	in := []TopicPartition{{Topic: "orders", Partition: 3}}
	all := Transactions{TransactionalIDs: []TransactionalID{
		{TransactionalID: "ended", State: "CompleteCommit", ProducerID: 1, Partitions: in},
		{TransactionalID: "elsewhere", State: "Ongoing", ProducerID: 2,
			Partitions: []TopicPartition{{Topic: "orders", Partition: 4}}},
		{TransactionalID: "open", State: "Ongoing", ProducerID: 3, Partitions: in, Until: &until},
		{TransactionalID: "decided", State: "PrepareCommit", ProducerID: 4, Partitions: in},
	}}
	for producer, want := range map[int64]string{1: "", 2: "", 3: "open", 4: "decided", 5: ""} {
		rows := []Partition{{Topic: "orders", Partition: 3,
			OldestTransaction: &Transaction{ProducerID: producer}}, {Topic: "none"}}
		all.Identify(rows)
		got := rows[0].OldestTransaction
		if got.TransactionalID != want || (got.Until != nil) != (want == "open") {
			t.Errorf("producer %d: got %+v, want %q", producer, got, want)
		}
	}
}
