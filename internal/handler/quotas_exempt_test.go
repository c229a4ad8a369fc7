package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/handler/transactions"
	"heartwood.dev/heartwood/internal/wire"
)

// TestUnauthenticatedClientsHaveNoQuotas checks that an ApiVersions request before authentication
// is not charged to user ANONYMOUS.
func TestUnauthenticatedClientsHaveNoQuotas(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"*": {"request_percentage": 1}})
	req := &wire.Request{Key: api.KeyAPIVersions}
	if b.quotas.Meter(t.Context(), req) != nil {
		t.Error("a request before the authentication is metered")
	}
	if req.Session = (&wire.Session{Principal: wire.Anonymous}); b.quotas.Meter(t.Context(),
		req) == nil {
		t.Error("a request of an anonymous client is not metered")
	}
}

// TestPlainPeersHaveNoQuotas checks that requests of brokers without certificates, which are
// anonymous clients on the listener for brokers, are not charged.
func TestPlainPeersHaveNoQuotas(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"*": {"request_percentage": 1}})
	b.configure(func(o *Options) {
		o.PlainPeers = func(listener string) bool { return listener == "peers" }
	})
	for _, c := range []struct {
		key, version int16
		listener     string
		metered      bool
	}{
		{api.KeyWriteTxnMarkers, 1, "peers", false}, {api.KeyWriteTxnMarkers, 1, "kafka", true},
		{api.KeyAddPartitionsToTxn, 4, "peers", false}, {api.KeyAddPartitionsToTxn, 4, "kafka", true},
		{api.KeyAddPartitionsToTxn, 3, "peers", true}, {api.KeyMetadata, 1, "peers", true},
	} {
		req := &wire.Request{Key: c.key, Version: c.version, Listener: c.listener,
			Session: &wire.Session{Principal: wire.Anonymous}}
		if metered := b.quotas.Meter(t.Context(), req) != nil; metered != c.metered {
			t.Errorf("%s version %d on listener %s: metered %t", APIName(c.key), c.version,
				c.listener, metered)
		}
	}
}

// TestQuestionsOfPlainPeersAreNotCharged checks that a KnownProducersCall of a broker without a
// certificate, which is an anonymous client, is not charged. Without the private field, the same
// request is a client's request and is charged.
func TestQuestionsOfPlainPeersAreNotCharged(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"*": {"request_percentage": 1}})
	b.configure(func(o *Options) {
		o.PlainPeers = func(listener string) bool { return listener == "peers" }
	})
	for _, c := range []struct {
		listener string
		question bool
		exempt   bool
	}{{"peers", true, true}, {"peers", false, false}} {
		raw := kmsg.NewPtrListTransactionsRequest()
		if raw.SetVersion(transactions.KnownVersion); c.question {
			raw.UnknownTags.Set(transactions.KnownTag, nil)
		}
		req := &wire.Request{Key: raw.Key(), Version: transactions.KnownVersion, Listener: c.listener,
			Body: raw.AppendTo(nil), Session: &wire.Session{Principal: wire.Anonymous}}
		m := b.quotas.Meter(t.Context(), req)
		_, err := b.handleMetered(m, b.row(req.Key), req)
		must(t, err)
		if m.Exempt != c.exempt {
			t.Errorf("question %t on listener %s: exempt %t", c.question, c.listener, m.Exempt)
		}
	}
}
