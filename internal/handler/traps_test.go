package handler

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// waitContext signals when a request begins to wait.
type waitContext struct {
	context.Context
	waits chan struct{}
}

func (c waitContext) Done() <-chan struct{} {
	select {
	case c.waits <- struct{}{}:
	default:
	}
	return c.Context.Done()
}

// TestLongPollObeysRevokedACLs checks trap 10 of docs/internals/attacks.md: READ is revoked while a
// fetch waits for records.
func TestLongPollObeysRevokedACLs(t *testing.T) {
	b, _ := withAuthorizer(t)
	var revoked atomic.Bool
	b.Authorizer = func(a api.Action) bool {
		return !revoked.Load() || a.RequiredOperation != api.ReadTopic
	}
	req := fetchRequestFor("orders", 1)
	req.MaxWaitMillis = int32(time.Minute.Milliseconds())
	req.SetVersion(12)
	waits := make(chan struct{}, 1)
	done := make(chan wire.Reply, 1)
	go func() {
		answer, err := b.Handle(waitContext{t.Context(), waits}, &wire.Request{Key: api.KeyFetch,
			Version: 12, Body: req.AppendTo(nil), Listener: metadata.DefaultListener})
		if err != nil {
			t.Error(err)
		}
		done <- answer
	}()
	<-waits
	revoked.Store(true)
	b.mustProduce("orders", "later")
	got := decodeReply[*kmsg.FetchResponse](t, req, <-done).Topics[0].Partitions[0]
	if got.ErrorCode != 29 || len(got.RecordBatches) > 0 || got.HighWatermark != -1 {
		t.Errorf("after the revocation: %+v", got)
	}
}

// TestLeadersOfDeniedTopicsAreNotNamed checks trap 11: if a client may not use a topic, the
// response contains neither a leader hint nor an endpoint for it, even if another broker is the
// leader.
func TestLeadersOfDeniedTopicsAreNotNamed(t *testing.T) {
	b, a := withAuthorizer(t)
	b.topic("elsewhere", func(topic *metadata.Topic) {
		p := topic.Partitions[0]
		p.Leader, p.Replicas, p.ISR = 3, []int32{3}, []int32{3}
	})
	for _, denied := range []bool{false, true} {
		a.deny = func(api.Action) bool { return denied }
		want := int16(6)
		if denied {
			want = 29
		}
		produced := ask[*kmsg.ProduceResponse](b, 10,
			produceRequestFor("elsewhere", -1, batch(t, compress.None, "x")))
		fetched := ask[*kmsg.FetchResponse](b, 16, fetchRequestFor("elsewhere", 0))
		if code := produced.Topics[0].Partitions[0].ErrorCode; code != want ||
			(len(produced.Brokers) > 0) == denied ||
			(produced.Topics[0].Partitions[0].CurrentLeader.LeaderID == 3) == denied {
			t.Errorf("denied %v: produce: %+v", denied, produced)
		}
		if code := fetched.Topics[0].Partitions[0].ErrorCode; code != want ||
			(len(fetched.Brokers) > 0) == denied {
			t.Errorf("denied %v: fetch: %+v", denied, fetched)
		}
	}
}

// TestTopicsAreNotCreatedWithoutTheRight checks trap 12: a client that has DESCRIBE and WRITE on a
// topic also needs CREATE to create it.
func TestTopicsAreNotCreatedWithoutTheRight(t *testing.T) {
	b, a := withAuthorizer(t)
	b.policy.AutoCreate = true
	must(t, b.apply())
	a.deny = func(action api.Action) bool { return action.Operation == api.OpCreate }
	if code := b.metadataOf("new",
		true); code != 3 && code != 29 || b.image.Load().Topic("new") != nil {
		t.Errorf("error %d, topic %v", code, b.image.Load().Topic("new"))
	}
	for _, allowed := range []api.RequiredOperation{api.CreateCluster, api.CreateTopic} {
		name := "new-" + allowed.Type.String()
		a.deny = func(action api.Action) bool {
			return action.Operation == api.OpCreate && action.RequiredOperation != allowed
		}
		if code := b.metadataOf(name, true); code != 0 {
			t.Errorf("with the right on %s: error %d", allowed.Type, code)
		}
	}
}

// TestInternalTopicsAreWrittenByBrokersOnly checks trap 13: no ACL permits a client to write to
// internal topics.
func TestInternalTopicsAreWrittenByBrokersOnly(t *testing.T) {
	b, _ := withAuthorizer(t) // allows everything
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		if b.image.Load().Topic(name) == nil {
			b.topic(name, nil)
		}
		before := b.fetch(9, name, 0).HighWatermark
		for version := int16(3); version <= 13; version++ {
			if got := b.produce(version, name, batch(t, compress.None, "x")); got.ErrorCode != 17 {
				t.Errorf("%s, version %d: error %d, want 17", name, version, got.ErrorCode)
			}
		}
		if after := b.fetch(9, name, 0).HighWatermark; after != before {
			t.Errorf("%s: high watermark %d, was %d", name, after, before)
		}
	}
}

// TestTransactionalBatchNeedsItsRight checks trap 14 (CVE-2018-17196): WRITE on the topic alone
// does not permit a client to append a transactional batch, whatever transactional id the request
// contains.
func TestTransactionalBatchNeedsItsRight(t *testing.T) {
	b, _ := transactionalBroker(t)
	a := &authorizer{deny: func(action api.Action) bool {
		return action.Type == api.ResourceTransactionalID && action.Name != "own"
	}}
	b.Authorizer = a.authorize
	for id, want := range map[string]int16{"foreign": 53, "": 53, "own": 0} {
		before := b.fetch(9, "t", 0).HighWatermark
		code := b.transact(11, -1, id, within(t, 0))
		if id == "" && code != 0 {
			want = code // refused with another error
		}
		if code != want {
			t.Errorf("id %q: error %d, want %d", id, code, want)
		}
		if after := b.fetch(9, "t", 0); code != 0 && after.HighWatermark != before {
			t.Errorf("id %q: the batch was appended", id)
		}
	}
}
