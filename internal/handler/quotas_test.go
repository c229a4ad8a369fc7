package handler

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/quota"
	"heartwood.dev/heartwood/internal/wire"
)

// withQuotas returns a broker whose users have quotas. quotas maps users to their quotas by Kafka
// name. The broker has the given topics.
func withQuotas(t testing.TB, quotas map[string]map[string]int64, topics ...string) *broker {
	b := newBroker(t)
	for _, name := range topics {
		b.topic(name, nil)
	}
	b.setQuotas(quotas)
	return b
}

func (b *broker) setQuotas(quotas map[string]map[string]int64) {
	image := *b.image.Load()
	image.Security = (&metadata.Security{Quotas: quotas}).Compiled()
	b.image.Store(&image)
}

// askAs is like ask, but for a user, and also returns the throttle time.
func askAs[R kmsg.Response](b *broker, user string, version int16,
	request kmsg.Request) (R, time.Duration) {
	b.t.Helper()
	answer := b.replyTo(wire.Session{Principal: wire.Principal{Type: "User", Name: user}}, version,
		request)
	response := decodeReply[R](b.t, request, answer)
	millis := int32(0)
	if throttled, ok := kmsg.Response(response).(kmsg.ThrottleResponse); ok {
		millis, _ = throttled.Throttle()
	}
	if sent := time.Duration(millis) * time.Millisecond; (sent - answer.Throttle).Abs() >
		time.Millisecond {
		b.t.Errorf("the response contains %v, and the connection is muted for %v", sent,
			answer.Throttle)
	}
	return response, answer.Throttle
}

func (b *broker) replyTo(session wire.Session, version int16, request kmsg.Request) wire.Reply {
	b.t.Helper()
	request.SetVersion(version)
	b.nameByID(request)
	raw := &wire.Request{Key: request.Key(), Version: version, Body: request.AppendTo(nil),
		Listener: metadata.DefaultListener, Session: &session}
	answer, err := b.Handle(b.t.Context(), raw)
	must(b.t, err)
	return answer
}

// withoutThrottle contains the APIs whose responses have no throttle time.
var withoutThrottle = []int16{api.KeySASLHandshake, api.KeySASLAuthenticate, api.KeyWriteTxnMarkers,
	55}

// TestThrottleIsInEveryResponse sets the throttle time in a response for each API and version.
func TestThrottleIsInEveryResponse(t *testing.T) {
	const millis = 12_345
	for _, row := range slices.Concat(table, refused) {
		for version := row.min; version <= row.max; version++ {
			req := &wire.Request{Key: row.key, Version: version}
			response := kmsg.ResponseForKey(row.key)
			response.SetVersion(version)
			want := response.AppendTo(nil)
			if throttled, ok := response.(interface{ SetThrottle(int32) }); ok {
				throttled.SetThrottle(millis)
				want = response.AppendTo(nil)
			} else if !slices.Contains(withoutThrottle, row.key) {
				t.Errorf("%s has no throttle time", row.name)
			}
			answer := api.Reply(kmsg.ResponseForKey(row.key), api.Outcome{})
			answer.Throttle = (millis*1000 - 1) * time.Microsecond // rounded up to milliseconds
			before := kmsg.ResponseForKey(row.key)
			before.SetVersion(version)
			answer.Chunks = []wire.Chunk{{Bytes: before.AppendTo(nil)}}
			api.SetThrottle(req, &answer)
			if !bytes.Equal(answer.Chunks[0].Bytes, want) {
				t.Errorf("%s version %d: % x, want % x", row.name, version, answer.Chunks[0].Bytes,
					want)
			}
		}
	}
}

func TestProducerAboveItsQuotaIsThrottled(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"alice": {"producer_byte_rate": 10}}, "tickets")
	registry := prometheus.NewRegistry()
	b.configure(func(o *Options) { o.Registry = registry })
	large := strings.Repeat("x", 1000)
	for version := int16(3); version <= 13; version++ {
		req := produceRequestFor("tickets", -1, batch(t, compress.None, large))
		response, throttle := askAs[*kmsg.ProduceResponse](b, "alice", version, req)
		// The quota is 10 bytes per second with a burst of 100 bytes. The request has a little more than
		// 1,000 bytes.
		if throttle < 90*time.Second {
			t.Errorf("version %d: throttle %v, want more than 90 s", version, throttle)
		}
		if code := response.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Errorf("version %d: the batch was refused with %d", version, code)
		}
		for _, other := range []string{"bob", "*"} {
			_, throttle := askAs[*kmsg.ProduceResponse](b, other, version, req)
			if throttle != 0 {
				t.Errorf("user %s is throttled for %v", other, throttle)
			}
		}
	}
	if _, throttle := askAs[*kmsg.MetadataResponse](b, "alice", 5, allTopics(5)); throttle != 0 {
		t.Errorf("requests of another kind are throttled for %v", throttle)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP heartwood_broker_throttled_requests_total Requests after which a client was throttled, by kind of the exceeded quota.
# TYPE heartwood_broker_throttled_requests_total counter
heartwood_broker_throttled_requests_total{quota="fetch"} 0
heartwood_broker_throttled_requests_total{quota="mutation"} 0
heartwood_broker_throttled_requests_total{quota="produce"} 11
heartwood_broker_throttled_requests_total{quota="request"} 0
`), "heartwood_broker_throttled_requests_total"); err != nil {
		t.Error(err)
	}
}

// TestProducerWithoutAcksIsThrottled checks that the connection of a producer with acks=0 is muted,
// because there is no response that could contain a throttle time.
func TestProducerWithoutAcksIsThrottled(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"alice": {"producer_byte_rate": 10}}, "tickets")
	req := produceRequestFor("tickets", 0, batch(t, compress.None, strings.Repeat("x", 1000)))
	answer := b.replyTo(wire.Session{Principal: wire.Principal{Type: "User", Name: "alice"}}, 9, req)
	if !answer.None || answer.Throttle < 90*time.Second {
		t.Errorf("reply %+v", answer)
	}
}

// TestThrottleIsBoundedAndItsDebtIsNot checks that a single throttle is limited, so that a
// connection is not occupied for hours. The rest of the debt throttles the next request.
func TestThrottleIsBoundedAndItsDebtIsNot(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"alice": {"producer_byte_rate": 1}}, "tickets")
	large := produceRequestFor("tickets", -1, batch(t, compress.None, strings.Repeat("x", 10_000)))
	small := produceRequestFor("tickets", -1, batch(t, compress.None, "x"))
	for _, req := range []*kmsg.ProduceRequest{large, small, small} {
		if _, got := askAs[*kmsg.ProduceResponse](b, "alice", 9, req); got != api.ThrottleMax {
			t.Errorf("throttle %v, want %v", got, api.ThrottleMax)
		}
	}
	if debt := b.quotas.Users.Debt("alice", &quota.Limits{quota.Produce: 1}, quota.Produce,
		time.Now()); debt < 2*time.Hour {
		t.Errorf("debt %v", debt)
	}
}

// TestLowQuotaIsEnforcedOnLargeRequests checks that a client that obeys the throttle times stays at
// its quota, even if one request is as large as the quota of several minutes.
func TestLowQuotaIsEnforcedOnLargeRequests(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"alice": {"producer_byte_rate": 100}}, "tickets")
	req := produceRequestFor("tickets", -1, batch(t, compress.None, strings.Repeat("x", 20_000)))
	_, got := askAs[*kmsg.ProduceResponse](b, "alice", 9, req)
	if want := (20_000/100 - 10) * time.Second; got < want {
		t.Errorf("throttle %v, want at least %v", got, want)
	}
}

// TestConsumerInDebtGetsNoRecords checks that the first response may exceed the quota, so that no
// batch is too large to be fetched, and that the consumer then gets no records until it is within
// the quota again.
func TestConsumerInDebtGetsNoRecords(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		b := withQuotas(t, nil, "tickets")
		b.mustProduce("tickets", strings.Repeat("x", 1000))
		b.setQuotas(map[string]map[string]int64{"alice": {"consumer_byte_rate": 10}})
		first, throttle := askAs[*kmsg.FetchResponse](b, "alice", version,
			fetchRequestFor("tickets", 0))
		if n := len(first.Topics[0].Partitions[0].RecordBatches); n < 1000 ||
			throttle < 90*time.Second {
			t.Errorf("version %d: %d bytes, throttle %v", version, n, throttle)
		}
		second, throttle := askAs[*kmsg.FetchResponse](b, "alice", version,
			fetchRequestFor("tickets", 0))
		if n := len(second.Topics[0].Partitions[0].RecordBatches); n > 0 ||
			second.Topics[0].Partitions[0].ErrorCode != 0 || throttle == 0 {
			t.Errorf("version %d: %d bytes although the user is in debt, throttle %v", version, n,
				throttle)
		}
		other, throttle := askAs[*kmsg.FetchResponse](b, "bob", version,
			fetchRequestFor("tickets", 0))
		if n := len(other.Topics[0].Partitions[0].RecordBatches); n < 1000 || throttle != 0 {
			t.Errorf("version %d: another user got %d bytes, throttle %v", version, n, throttle)
		}
	}
}

// TestSessionOfThrottledConsumerLosesNothing checks that a response without records, sent because
// of the quota, does not break the fetch session.
func TestSessionOfThrottledConsumerLosesNothing(t *testing.T) {
	b := withQuotas(t, nil, "tickets")
	b.mustProduce("tickets", strings.Repeat("x", 1000))
	alice := map[string]map[string]int64{"alice": {"consumer_byte_rate": 10}}
	b.setQuotas(alice)
	req := fetchRequestFor("tickets", 0)
	req.SessionEpoch = 0
	first, _ := askAs[*kmsg.FetchResponse](b, "alice", 12, req)
	if first.SessionID == 0 {
		t.Fatal("no session")
	}
	// The client has received no records, so it requests the same offset again.
	req.SessionID, req.SessionEpoch, req.Topics = first.SessionID, 1, nil
	for ; req.SessionEpoch < 4; req.SessionEpoch++ {
		got, throttle := askAs[*kmsg.FetchResponse](b, "alice", 12, req)
		if got.ErrorCode != 0 || got.SessionID != first.SessionID || throttle == 0 ||
			len(got.Topics) > 0 && len(got.Topics[0].Partitions[0].RecordBatches) > 0 {
			t.Fatalf("epoch %d: %+v, throttle %v", req.SessionEpoch, got, throttle)
		}
	}
	alice["alice"]["consumer_byte_rate"] = 1 << 30
	b.setQuotas(alice)
	got, _ := askAs[*kmsg.FetchResponse](b, "alice", 12, req)
	if len(got.Topics) == 0 || len(got.Topics[0].Partitions[0].RecordBatches) < 1000 {
		t.Errorf("after the throttle: %+v", got)
	}
}

// TestFetchContainsAtMostTheBurst checks that a response is no larger than the burst, because it
// would otherwise cause a long throttle.
func TestFetchContainsAtMostTheBurst(t *testing.T) {
	b := withQuotas(t, nil, "tickets")
	for range 20 {
		b.mustProduce("tickets", strings.Repeat("x", 1000))
	}
	b.setQuotas(map[string]map[string]int64{"alice": {"consumer_byte_rate": 300}})
	got, _ := askAs[*kmsg.FetchResponse](b, "alice", 12, fetchRequestFor("tickets", 0))
	if n := len(got.Topics[0].Partitions[0].RecordBatches); n > 3000 || n < 2000 {
		t.Errorf("%d bytes, want at most 3000", n)
	}
}

// TestBrokersHaveNoQuotas checks that followers are not charged, neither as ANONYMOUS on a
// plaintext listener nor with a broker certificate.
func TestBrokersHaveNoQuotas(t *testing.T) {
	b := withQuotas(t, nil, "tickets")
	b.mustProduce("tickets", strings.Repeat("x", 1000))
	b.setQuotas(map[string]map[string]int64{"*": {"consumer_byte_rate": 10, "request_percentage": 1}})
	req := fetchRequestFor("tickets", 0)
	req.ReplicaState.ID = 3
	for _, session := range []wire.Session{{Principal: wire.Anonymous},
		{Principal: wire.Principal{Type: "User", Name: "broker"}, Role: wire.RoleBroker, Broker: 3}} {
		for range 3 {
			if answer := b.replyTo(session, 15, req); answer.Throttle != 0 {
				t.Errorf("a follower is throttled for %v", answer.Throttle)
			}
		}
	}
	if got := b.quotas.Users.Debt("ANONYMOUS", &quota.Limits{quota.Fetch: 1}, quota.Fetch,
		time.Now()); got != 0 {
		t.Error("a follower was charged")
	}
}

// TestProcessingTimeIsCharged checks that processing time is charged. It uses the real clock, and a
// quota so low that any request exceeds it.
func TestProcessingTimeIsCharged(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"alice": {"request_percentage": 1}})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		_, throttle := askAs[*kmsg.MetadataResponse](b, "alice", 5, allTopics(5))
		if throttle > 0 {
			if throttle > quota.RequestThrottleMax {
				t.Errorf("throttle %v", throttle)
			}
			return
		}
	}
	t.Error("the processing time of requests is not charged")
}

// TestWaitingIsNoProcessing checks that the processing time ends when the request begins to wait.
func TestWaitingIsNoProcessing(t *testing.T) {
	m := &api.Meter{Context: t.Context(), Begun: time.Now().Add(-time.Second)}
	ctx, cancel := context.WithTimeout(m, time.Hour)
	defer cancel()
	first := m.Processed.Load()
	if first < int64(time.Second) {
		t.Errorf("processing time %v", time.Duration(first))
	}
	<-time.After(time.Millisecond)
	_ = ctx.Done()
	_ = m.Done()
	if m.Processed.Load() != first {
		t.Error("the processing time has changed after the first wait")
	}
}

// TestDefaultQuotaAppliesPerUserAndKind checks that each user without a quota of some kind has a
// separate quota of that kind with the value of user "*".
func TestDefaultQuotaAppliesPerUserAndKind(t *testing.T) {
	security := (&metadata.Security{Quotas: map[string]map[string]int64{
		"*":     {"producer_byte_rate": 1, "request_percentage": 200},
		"alice": {"producer_byte_rate": 5, "controller_mutation_rate": 7},
	}}).Compiled()
	for name, want := range map[string]quota.Limits{
		"alice": {quota.Produce: 5, quota.Mutation: 7, quota.Request: 2},
		"bob":   {quota.Produce: 1, quota.Request: 2},
	} {
		got := security.Limits(wire.Principal{Type: "User", Name: name})
		if got == nil || *got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if security.Limits(wire.Principal{Type: "Group", Name: "alice"}) != nil {
		t.Error("a principal of another type has quotas")
	}
}

// TestUsersWithoutQuotasCostNothing checks that requests of users without quotas cause no
// additional allocations, whether or not other users have quotas.
func TestUsersWithoutQuotasCostNothing(t *testing.T) {
	req := &wire.Request{Session: &wire.Session{
		Principal: wire.Principal{Type: "User", Name: "alice"}}}
	for name, quotas := range map[string]map[string]map[string]int64{
		"none": nil, "of others": {"bob": {"producer_byte_rate": 1}},
	} {
		b := withQuotas(t, quotas)
		ctx := t.Context()
		if allocs := testing.AllocsPerRun(100, func() {
			if b.quotas.Meter(ctx, req) != nil {
				t.Fatal("the request is metered")
			}
		}); allocs > 0 {
			t.Errorf("quotas %s: %v allocations", name, allocs)
		}
	}
}

func BenchmarkUserWithoutQuotas(b *testing.B) {
	with := withQuotas(b, map[string]map[string]int64{"bob": {"producer_byte_rate": 1}})
	req := &wire.Request{Session: &wire.Session{
		Principal: wire.Principal{Type: "User", Name: "alice"}}}
	ctx := b.Context()
	for b.Loop() {
		if with.quotas.Meter(ctx, req) != nil {
			b.Fatal("the request is metered")
		}
	}
}

// mutation returns a request that creates a topic with the given number of partitions, adds
// partitions to it, or deletes it.
func mutation(key int16, partitions int32) kmsg.Request {
	switch key {
	case api.KeyCreateTopics:
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 1000
		req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "grown", NumPartitions: partitions,
			ReplicationFactor: 1}}
		return req
	case api.KeyCreatePartitions:
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis = 1000
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "tickets", Count: partitions + 1}}
		return req
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 1000, []string{"doomed"}
	name := "doomed"
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
	return req
}

// TestMutationsAboveTheQuota checks changes of partitions (KIP-599). In versions with the error
// THROTTLING_QUOTA_EXCEEDED, a change is refused while the user is over the quota. In other
// versions, the user is throttled after the change.
func TestMutationsAboveTheQuota(t *testing.T) {
	for _, c := range []struct {
		key, version int16
		strict       bool
	}{
		{api.KeyCreateTopics, 5, false}, {api.KeyCreateTopics, 6, true},
		{api.KeyCreatePartitions, 2, false}, {api.KeyCreatePartitions, 3, true},
		{api.KeyDeleteTopics, 4, false}, {api.KeyDeleteTopics, 6, true},
	} {
		b := withQuotas(t, nil, "tickets")
		b.topic("doomed", func(topic *metadata.Topic) {
			for i := int32(1); i < 50; i++ {
				topic.Partitions = append(topic.Partitions, &metadata.Partition{Index: i,
					Replicas: []int32{self}, Leader: self, ISR: []int32{self}})
			}
		})
		limits := map[string]map[string]int64{"alice": {"controller_mutation_rate": 1}}
		b.setQuotas(limits)
		response, throttle := askAs[kmsg.Response](b, "alice", c.version, mutation(c.key, 50))
		if codes := errorCodes(response); !slices.Equal(codes, []int16{0}) ||
			(throttle > 0) == c.strict {
			t.Errorf("%s version %d: %v, throttle %v", APIName(c.key), c.version, codes, throttle)
		}
		b.setQuotas(limits) // the change has applied an image without users
		if !c.strict {
			continue
		}
		// The bucket holds tokens for 10 partitions, so 40 are missing.
		response, throttle = askAs[kmsg.Response](b, "alice", c.version, mutation(c.key, 60))
		want := int16(89)
		if c.key == api.KeyDeleteTopics {
			want = 3 // the topic is already deleted, so nothing is charged
		}
		if codes := errorCodes(response); !slices.Equal(codes, []int16{want}) ||
			(throttle > 30*time.Second) == (want == 3) {
			t.Errorf("%s version %d in debt: %v, throttle %v", APIName(c.key), c.version, codes,
				throttle)
		}
	}
}

func errorCodes(response kmsg.Response) (codes []int16) {
	switch r := response.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, topic := range r.Topics {
			codes = append(codes, topic.ErrorCode)
		}
	case *kmsg.CreatePartitionsResponse:
		for _, topic := range r.Topics {
			codes = append(codes, topic.ErrorCode)
		}
	case *kmsg.DeleteTopicsResponse:
		for _, topic := range r.Topics {
			codes = append(codes, topic.ErrorCode)
		}
	}
	return codes
}

// TestFailedMutationsAreNotCharged checks that creating a topic that already exists is not charged.
func TestFailedMutationsAreNotCharged(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"alice": {"controller_mutation_rate": 1}}, "grown")
	for range 20 {
		response, throttle := askAs[kmsg.Response](b, "alice", 6, mutation(api.KeyCreateTopics, 5))
		if codes := errorCodes(response); !slices.Equal(codes, []int16{36}) || throttle != 0 {
			t.Fatalf("%v, throttle %v", codes, throttle)
		}
	}
}

func TestQuotasOfLogUsersAreResolved(t *testing.T) {
	u := metadata.NewUser("alice", "demo")
	ten := int64(10 << 20)
	percent := int64(50)
	u = metadata.AlteredUser(u, metadata.UserChange{Name: "alice", Quotas: map[string]*int64{
		"producer_byte_rate": &ten, "request_percentage": &percent, "consumer_byte_rate": nil}})
	if got := u.Spec.Quotas.ProduceRate.String(); got != "10Mi" {
		t.Errorf("produceBytes %s", got)
	}
	security := metadata.ResolveSecurity(nil, []*v1alpha1.LogUser{u}, nil, nil)
	got := security.Limits(wire.Principal{Type: "User", Name: "alice"})
	if want := (quota.Limits{quota.Produce: 10 << 20, quota.Request: 0.5}); *got != want {
		t.Errorf("%v, want %v", *got, want)
	}
	u = metadata.AlteredUser(u, metadata.UserChange{Name: "alice", Quotas: map[string]*int64{
		"producer_byte_rate": nil, "request_percentage": nil}})
	if u.Spec.Quotas != nil {
		t.Errorf("quotas %+v remain", u.Spec.Quotas)
	}
}
