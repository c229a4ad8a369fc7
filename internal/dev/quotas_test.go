package dev

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const quotaCluster = `listeners: [{name: tls, port: 9093, tls: {}, authentication: [{type: ScramSha512}]}],
  brokers: 1`

// throttles records the longest throttle time in a client's responses, in ns.
type throttles struct{ longest atomic.Int64 }

func (h *throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	h.longest.Store(max(h.longest.Load(), int64(interval)))
}

// TestUsersStayWithinTheirQuotas lets a producer and a consumer exceed their quotas, which permit a
// burst of 1,000 KiB and 100 KiB per second. Another user must not be throttled.
func TestUsersStayWithinTheirQuotas(t *testing.T) {
	acls := ", acls: [{resource: {type: Topic, name: orders}, operations: [Read, Write]}]"
	scram := "authentication: {type: Scram}" + acls
	opts := options(t, logCluster(quotaCluster), topic("orders", "partitions: 1, replicas: 1"),
		logUser("alice", scram), logUser("bob", scram+", quotas: {produceRate: 100Ki}"),
		logUser("carol", scram+", quotas: {fetchRate: 100Ki}"))
	start(t, opts)
	// A quota's bucket refills while a client is slow. So a client with a quota continues until it was
	// throttled, but sends at most most records.
	const recordBytes, records, most = 64 << 10, 20, 1000
	value := bytes.Repeat([]byte{1}, recordBytes)
	// The throttle time in the last response no longer delays the client.
	const least = ((records-2)*recordBytes - 1000<<10) * time.Second / (100 << 10)
	for _, user := range []string{"bob", "alice"} {
		hook := &throttles{}
		client := connectAs(t, opts, user, kgo.WithHooks(hook), kgo.ProducerBatchCompression(
			kgo.NoCompression()))
		began := time.Now()
		continues := func(n int) bool {
			return n < records || user == "bob" && n < most && hook.longest.Load() == 0
		}
		for n := 0; continues(n); n++ {
			if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders",
				Value: value}).FirstErr(); err != nil {
				t.Fatalf("%s: %v", user, err)
			}
		}
		took, throttled := time.Since(began), time.Duration(hook.longest.Load())
		switch {
		case user == "bob" && (took < least || throttled == 0):
			t.Errorf("bob took %v, want at least %v; longest throttle %v", took, least, throttled)
		case user == "alice" && throttled > 0:
			t.Errorf("alice has no quota and was throttled for %v", throttled)
		}
	}
	for _, user := range []string{"carol", "alice"} {
		hook := &throttles{}
		client := connectAs(t, opts, user, kgo.WithHooks(hook), kgo.ConsumeTopics("orders"),
			kgo.FetchMaxBytes(recordBytes))
		began := time.Now()
		continues := func(n int) bool {
			return n < records || user == "carol" && n < most && hook.longest.Load() == 0
		}
		for got := 0; continues(got); {
			if got >= records { // start reading again from the first record
				client.SetOffsets(map[string]map[int32]kgo.EpochOffset{"orders": {0: {Epoch: -1}}})
			}
			fetches := client.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatalf("%s: %v", user, err)
			}
			got += fetches.NumRecords()
		}
		took, throttled := time.Since(began), time.Duration(hook.longest.Load())
		switch {
		case user == "carol" && (took < least || throttled == 0):
			t.Errorf("carol took %v, want at least %v; longest throttle %v", took, least, throttled)
		case user == "alice" && throttled > 0:
			t.Errorf("alice has no quota and was throttled for %v", throttled)
		}
	}
}

// TestAdminClientsChangeQuotas checks that a LogUser with a manifest is changed only in the
// manifest, and that other users are changed by Kafka's admin requests. Their quotas must remain
// after a restart.
func TestAdminClientsChangeQuotas(t *testing.T) {
	opts := options(t, logCluster(quotaCluster+", authorization: {type: Simple, "+
		"superUsers: [admin]}"), logUser("admin", "authentication: {type: Scram}"),
		logUser("bob", "authentication: {type: Scram}, quotas: {produceRate: 100Ki}"))
	r := start(t, opts)
	alter := func(user string, ops ...kadm.AlterClientQuotaOp) error {
		admin := kadm.NewClient(connectAs(t, opts, "admin"))
		altered, err := admin.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}}, Ops: ops}})
		if err != nil {
			t.Fatal(err)
		}
		return altered[0].Err
	}
	if err := alter("bob", kadm.AlterClientQuotaOp{Key: "producer_byte_rate",
		Value: 5}); !errors.Is(err, kerr.PolicyViolation) {
		t.Errorf("a user with a manifest: %v", err)
	}
	if err := alter("token-subject", kadm.AlterClientQuotaOp{Key: "request_percentage",
		Value: 5}); err != nil {
		t.Errorf("a user without a manifest: %v", err)
	}
	r.stop()
	start(t, opts)
	described, err := kadm.NewClient(connectAs(t, opts, "admin")).DescribeClientQuotas(t.Context(),
		false, nil)
	if err != nil || len(described) != 2 || described[1].Values[0].Value != 5 ||
		described[0].Values[0].Value != 100<<10 {
		t.Errorf("after a restart: %+v, %v", described, err)
	}
	if err := alter("token-subject", kadm.AlterClientQuotaOp{Key: "request_percentage",
		Remove: true}); err != nil {
		t.Errorf("removal: %v", err)
	}
}
