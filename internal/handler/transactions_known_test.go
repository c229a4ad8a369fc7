package handler

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/handler/transactions"
)

// TestKnownProducersBetweenBrokers checks that the response to a broker contains the leader epochs
// in which its partitions are loaded. A response that lacks them is not used.
func TestKnownProducersBetweenBrokers(t *testing.T) {
	b := newBroker(t)
	b.topic("t", nil)
	p := b.begin("a", "t")
	req := kmsg.NewPtrListTransactionsRequest()
	req.ProducerIDFilters = []int64{p.ID, 999}
	plain := ask[*kmsg.ListTransactionsResponse](b, transactions.KnownVersion, req)
	if _, err := transactions.DecodeKnownProducers(plain.AppendTo(nil)); err == nil {
		t.Error("a response without leader epochs: got no error")
	}
	req.UnknownTags.Set(transactions.KnownTag, nil)
	answer := ask[*kmsg.ListTransactionsResponse](b, transactions.KnownVersion, req)
	known, err := transactions.DecodeKnownProducers(answer.AppendTo(nil))
	if err != nil || !maps.Equal(known.Open, map[int64]bool{p.ID: true}) ||
		len(known.Loaded) == 0 {
		t.Fatalf("got %+v, %v", known, err)
	}
	topic := b.image.Load().Topic("__transaction_state")
	for i, loaded := range known.Loaded {
		if want := (coordinator.StatePartition{Index: topic.Partitions[i].Index,
			LeaderEpoch: topic.Partitions[i].LeaderEpoch}); loaded != want {
			t.Errorf("got %+v, want %+v", loaded, want)
		}
	}
}
