package handler

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/await"
)

// awaitTransactions waits until the broker serves requests for transactional ids.
func (b *broker) awaitTransactions() {
	b.t.Helper()
	if b.image.Load().Topic(metadata.TransactionsTopic) == nil {
		b.topic(metadata.TransactionsTopic, nil)
	}
	await.Until(b.t, "the coordinator has loaded", func() bool {
		_, err := b.txns.List(b.t.Context(), transaction.Filter{OpenFor: -1})
		return err == nil
	})
}

// begin begins a transaction in partition 0 of a topic, without a client.
func (b *broker) begin(id, topic string) transaction.Producer {
	b.t.Helper()
	b.awaitTransactions()
	p, err := b.txns.Init(b.t.Context(), transaction.Init{ID: id, Timeout: time.Minute,
		Expected: transaction.Producer{ID: transaction.NoProducerID, Epoch: -1}})
	must(b.t, err)
	_, err = b.txns.Add(b.t.Context(), transaction.Add{ID: id, Producer: p,
		Partitions: []transaction.Partition{{Topic: topic, Index: 0}}})
	must(b.t, err)
	return p
}

func (b *broker) initProducer(version int16, id string) *kmsg.InitProducerIDResponse {
	b.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 60_000
	return ask[*kmsg.InitProducerIDResponse](b, version, req)
}

func (b *broker) addToTxn(version int16, id string, p transaction.Producer,
	indexes ...int32) (codes []int16) {
	b.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, p.ID, p.Epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: indexes}}
	for _, part := range ask[*kmsg.AddPartitionsToTxnResponse](b, version, req).Topics[0].Partitions {
		codes = append(codes, part.ErrorCode)
	}
	return codes
}

func (b *broker) endTxnOf(version int16, id string, p transaction.Producer,
	commit bool) *kmsg.EndTxnResponse {
	b.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, p.ID, p.Epoch, commit
	return ask[*kmsg.EndTxnResponse](b, version, req)
}

// TestTransactionAtEveryVersion checks a whole transaction: the coordinator verifies the batch, the
// commit writes a marker, and the last stable offset advances past the marker.
func TestTransactionAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyEndTxn, func(t *testing.T, b *broker, version int16) {
		b.topic("t", nil)
		b.awaitTransactions()
		id := "payments"
		began := b.initProducer(min(version, 5), id)
		p := transaction.Producer{ID: began.ProducerID, Epoch: began.ProducerEpoch}
		if began.ErrorCode != 0 || p != (transaction.Producer{ID: 1001}) {
			t.Fatalf("InitProducerId: %+v", began)
		}
		if codes := b.addToTxn(min(version, 3), id, p, 0); !slices.Equal(codes, []int16{0}) {
			t.Fatalf("AddPartitionsToTxn: error codes %v", codes)
		}
		req := produceRequestFor("t", -1, batchOf(t, compress.None, record.Identity{
			Transactional: true, ProducerID: p.ID}, "x"))
		req.TransactionID = &id
		if code := ask[*kmsg.ProduceResponse](b, 11, req).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("Produce: error %d", code)
		}
		log, err := b.set.Leader(api.PartitionRef("t", 0), -1)
		must(t, err)
		if log.LastStable() != 0 {
			t.Errorf("the last stable offset is %d in the transaction", log.LastStable())
		}
		end := b.endTxnOf(version, id, p, true)
		want := transaction.Producer{ID: -1, Epoch: -1}
		if version >= 5 {
			want = transaction.Producer{ID: p.ID, Epoch: 1}
		}
		if version < 5 {
			end.ProducerID, end.ProducerEpoch = -1, -1 // the response does not contain them
		}
		if end.ErrorCode != 0 || end.ProducerID != want.ID || end.ProducerEpoch != want.Epoch {
			t.Errorf("EndTxn: %+v, want producer %+v", end, want)
		}
		await.Until(t, "the last stable offset is 2", func() bool { return log.LastStable() == 2 })
	})
}

// TestFencedProducer checks the errors for a fenced producer. Clients of earlier versions do not
// know PRODUCER_FENCED (KIP-588).
func TestFencedProducer(t *testing.T) {
	b := newBroker(t)
	b.topic("t", nil)
	p := b.begin("a", "t")
	old := transaction.Producer{ID: p.ID, Epoch: p.Epoch - 1}
	for version, want := range map[int16]int16{1: 47, 2: 90} {
		if codes := b.addToTxn(version, "a", old, 0); !slices.Equal(codes, []int16{want}) {
			t.Errorf("AddPartitionsToTxn %d: error codes %v, want %d", version, codes, want)
		}
		if code := b.endTxnOf(version, "a", old, true).ErrorCode; code != want {
			t.Errorf("EndTxn %d: error %d, want %d", version, code, want)
		}
		offsets := kmsg.NewPtrAddOffsetsToTxnRequest()
		offsets.TransactionalID, offsets.Group = "a", "group"
		offsets.ProducerID, offsets.ProducerEpoch = old.ID, old.Epoch
		if code := ask[*kmsg.AddOffsetsToTxnResponse](b, version,
			offsets).ErrorCode; code != want {
			t.Errorf("AddOffsetsToTxn %d: error %d, want %d", version, code, want)
		}
	}
	for version, want := range map[int16]int16{3: 47, 4: 90} {
		req, id := kmsg.NewPtrInitProducerIDRequest(), "a"
		req.TransactionalID, req.TransactionTimeoutMillis = &id, 1000
		req.ProducerID, req.ProducerEpoch = p.ID, p.Epoch+7
		if code := ask[*kmsg.InitProducerIDResponse](b, version, req).ErrorCode; code != want {
			t.Errorf("InitProducerId %d: error %d, want %d", version, code, want)
		}
	}
}

func TestTransactionErrors(t *testing.T) {
	b := newBroker(t)
	b.topic("t", nil)
	p := b.begin("a", "t")
	other := transaction.Producer{ID: p.ID + 1}
	timeout, id := kmsg.NewPtrInitProducerIDRequest(), "a"
	timeout.TransactionalID, timeout.TransactionTimeoutMillis = &id, 900_001
	for name, test := range map[string]struct{ got, want []int16 }{
		"unknown partition": {b.addToTxn(3, "a", p, 0, 9), []int16{55, 3}},
		"other producer id": {b.addToTxn(3, "a", other, 0), []int16{49}},
		"unknown id":        {b.addToTxn(3, "b", p, 0), []int16{49}},
		"empty id":          {b.addToTxn(3, "", p, 0), []int16{42}},
		"end of another":    {[]int16{b.endTxnOf(4, "a", other, true).ErrorCode}, []int16{49}},
		"commit of nothing": {[]int16{b.endTxnOf(4, "c", b.initOnly("c"), true).ErrorCode},
			[]int16{48}},
		"timeout": {[]int16{ask[*kmsg.InitProducerIDResponse](b, 4, timeout).ErrorCode},
			[]int16{50}},
		"empty id of Init": {[]int16{b.initProducer(4, "").ErrorCode}, []int16{42}},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: error codes %v, want %v", name, test.got, test.want)
		}
	}
}

func (b *broker) initOnly(id string) transaction.Producer {
	b.t.Helper()
	answer := b.initProducer(4, id)
	return transaction.Producer{ID: answer.ProducerID, Epoch: answer.ProducerEpoch}
}

// TestAddPartitionsOfBrokers checks the versions that brokers use. Such a request contains several
// transactions, and either verifies them or adds partitions to them.
func TestAddPartitionsOfBrokers(t *testing.T) {
	b := newBroker(t)
	b.topic("t", nil)
	p := b.begin("a", "t")
	for version, absent := range map[int16]int16{4: 48, 5: 120} {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		for _, verify := range []bool{true, false} {
			requested := kmsg.NewAddPartitionsToTxnRequestTransaction()
			requested.TransactionalID, requested.ProducerID, requested.VerifyOnly = "a", p.ID, verify
			requested.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{
				{Topic: "t", Partitions: []int32{0, 10 * int32(version)}}}
			req.Transactions = append(req.Transactions, requested)
			if verify { // the verifications in a request run concurrently
				answer := ask[*kmsg.AddPartitionsToTxnResponse](b, version, req)
				parts := answer.Transactions[0].Topics[0].Partitions
				if parts[0].ErrorCode != 0 || parts[1].ErrorCode != absent {
					t.Errorf("version %d: verified as %+v, want error %d for the second", version,
						parts, absent)
				}
			}
		}
		answer := ask[*kmsg.AddPartitionsToTxnResponse](b, version, req)
		if parts := answer.Transactions[1].Topics[0].Partitions; parts[1].ErrorCode != 0 {
			t.Errorf("version %d: added as %+v", version, parts)
		}
	}
}

func TestDescribeAndListTransactions(t *testing.T) {
	b := newBroker(t)
	b.topic("t", nil)
	begin := time.Now()
	p := b.begin("a", "t")
	b.initOnly("b")
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"a", "missing"}
	states := ask[*kmsg.DescribeTransactionsResponse](b, 0, describe).TransactionStates
	s := states[0]
	if s.ErrorCode != 0 || len(s.Topics) != 1 {
		t.Fatalf("described as %+v, want one topic", s)
	}
	if s.State != "Ongoing" || s.Topics[0].Topic != "t" {
		t.Errorf("described as %+v, want Ongoing in t", s)
	}
	if s.ProducerID != p.ID || s.TimeoutMillis != 60_000 {
		t.Errorf("described as %+v, want producer %d, 60 s", s, p.ID)
	}
	started := time.UnixMilli(s.StartTimestamp)
	if started.Before(begin.Truncate(time.Millisecond)) || started.After(time.Now()) {
		t.Errorf("started at %v, want after %v", started, begin)
	}
	if states[1].ErrorCode != 105 {
		t.Errorf("a missing id: %+v, want error 105", states[1])
	}
	pattern, invalid := "a|x", "("
	for name, test := range map[string]struct {
		change  func(*kmsg.ListTransactionsRequest)
		code    int16
		want    []string
		unknown []string
	}{
		"all": {func(*kmsg.ListTransactionsRequest) {}, 0, []string{"a", "b"}, nil},
		"pattern": {func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &pattern }, 0,
			[]string{"a"}, nil},
		"invalid": {func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &invalid }, 128,
			nil, nil},
		"states": {func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Empty", "Odd"} },
			0, []string{"b"}, []string{"Odd"}},
		"ids": {func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{p.ID} }, 0,
			[]string{"a"}, nil},
		"long": {func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 60_000 }, 0, nil,
			nil},
	} {
		req := kmsg.NewPtrListTransactionsRequest()
		test.change(req)
		answer := ask[*kmsg.ListTransactionsResponse](b, 2, req)
		var ids []string
		for _, s := range answer.TransactionStates {
			ids = append(ids, s.TransactionalID)
		}
		if answer.ErrorCode != test.code || !slices.Equal(ids, test.want) ||
			!slices.Equal(answer.UnknownStateFilters, test.unknown) {
			t.Errorf("%s: %+v, want error %d, ids %v, unknown states %v", name, answer, test.code,
				test.want, test.unknown)
		}
	}
}

// TestTransactionFeature checks trap 26: transaction version 2 is finalized once all brokers
// support it. The epoch increases with each change, also when an older broker registers again.
func TestTransactionFeature(t *testing.T) {
	b := newBroker(t)
	features := func(versions ...int16) *kmsg.ApiVersionsResponse {
		img := *b.image.Load()
		img.Brokers = slices.Clone(img.Brokers)
		for i, version := range versions {
			img.Brokers[i].TransactionVersion = version
		}
		b.image.Store(&img)
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "client", "1"
		return ask[*kmsg.ApiVersionsResponse](b, 3, req)
	}
	old := features(2, 0)
	if len(old.FinalizedFeatures) != 1 {
		t.Errorf("with one old broker: %+v", old)
	}
	got := features(2, 2)
	index := slices.IndexFunc(got.FinalizedFeatures,
		func(f kmsg.ApiVersionsResponseFinalizedFeature) bool { return f.Name == transactionFeature })
	if index < 0 || got.FinalizedFeatures[index].MaxVersionLevel != 2 ||
		got.FinalizedFeaturesEpoch <= old.FinalizedFeaturesEpoch {
		t.Errorf("with new brokers: %+v", got)
	}
	if again := features(2, 2); again.FinalizedFeaturesEpoch != got.FinalizedFeaturesEpoch {
		t.Errorf("the epoch has changed without a change of features: %+v", again)
	}
	after := features(2, 0)
	if len(after.FinalizedFeatures) != 1 ||
		after.FinalizedFeaturesEpoch <= got.FinalizedFeaturesEpoch {
		t.Errorf("with an old broker again: %+v", after)
	}
}
