package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/wire"
)

// TestUnauthenticatedClientsHaveNoQuotas: ApiVersions before SASL is not charged to ANONYMOUS.
func TestUnauthenticatedClientsHaveNoQuotas(t *testing.T) {
	b := withQuotas(t, map[string]map[string]int64{"*": {"request_percentage": 1}})
	req := &wire.Request{Key: keyAPIVersions}
	if b.quotas.meter(t.Context(), req) != nil {
		t.Error("a request before the authentication is metered")
	}
	if req.Session = (&wire.Session{Principal: wire.Anonymous}); b.quotas.meter(t.Context(), req) == nil {
		t.Error("a request of an anonymous client is not metered")
	}
}

// TestPlainPeersHaveNoQuotas: brokers without certificates are anonymous clients on the listener
// for peers.
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
		{keyWriteTxnMarkers, 1, "peers", false}, {keyWriteTxnMarkers, 1, "kafka", true},
		{keyAddPartitionsToTxn, 4, "peers", false}, {keyAddPartitionsToTxn, 4, "kafka", true},
		{keyAddPartitionsToTxn, 3, "peers", true}, {keyMetadata, 1, "peers", true},
	} {
		req := &wire.Request{Key: c.key, Version: c.version, Listener: c.listener,
			Session: &wire.Session{Principal: wire.Anonymous}}
		if metered := b.quotas.meter(t.Context(), req) != nil; metered != c.metered {
			t.Errorf("%s version %d on listener %s: metered %t", APIName(c.key), c.version,
				c.listener, metered)
		}
	}
}

// TestQuestionsOfPlainPeersAreNotCharged: a broker without a certificate asks for producers as an
// anonymous client. The same request without the private field is that of a client.
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
		if raw.SetVersion(knownVersion); c.question {
			raw.UnknownTags.Set(knownTag, nil)
		}
		req := &wire.Request{Key: raw.Key(), Version: knownVersion, Listener: c.listener,
			Body: raw.AppendTo(nil), Session: &wire.Session{Principal: wire.Anonymous}}
		m := b.quotas.meter(t.Context(), req)
		_, err := m.handle(req, b.row(req.Key).handle)
		must(t, err)
		if m.exempt != c.exempt {
			t.Errorf("question %t on listener %s: exempt %t", c.question, c.listener, m.exempt)
		}
	}
}
