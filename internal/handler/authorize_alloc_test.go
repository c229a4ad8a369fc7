package handler

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// TestAuthorizationAllocatesNothing checks that authorizing a produce or fetch request, with and
// without ACLs, allocates no memory, because it is done for each partition in a request.
func TestAuthorizationAllocatesNothing(t *testing.T) {
	alice := wire.Principal{Type: "User", Name: "alice"}
	matcher := authz.New([]authz.ACL{
		{Principal: alice, Host: "*", Operation: api.OpWrite, Permission: authz.Allow,
			Type: api.ResourceTopic, Pattern: authz.PatternPrefix, Name: "orders-"},
		{Principal: alice, Host: "*", Operation: api.OpRead, Permission: authz.Allow,
			Type: api.ResourceTopic, Pattern: authz.PatternLiteral, Name: "orders-1"},
	}, nil)
	req := &wire.Request{Key: api.KeyProduce, Address: netip.MustParseAddr("192.0.2.1"),
		Session: &wire.Session{Principal: alice}}
	for name, authorize := range map[string]func(api.Action) bool{
		"off": func(api.Action) bool { return true },
		"on": func(a api.Action) bool {
			return matcher.Allowed(a.Principal, a.Address, a.Operation, a.Type, a.Name)
		},
	} {
		h := New(Options{Authorize: authorize})
		for key, required := range map[int16]api.RequiredOperation{
			api.KeyProduce: api.WriteTopic, api.KeyFetch: api.ReadTopic,
		} {
			req.Key = key
			if allocs := testing.AllocsPerRun(100, func() {
				if err := h.Authorize(req, required, "orders-1"); err != nil {
					t.Fatal(err)
				}
			}); allocs != 0 {
				t.Errorf("authorization %s, %s: %v allocations", name, APIName(key), allocs)
			}
		}
	}
}

// BenchmarkAuthorizedProduce measures the time to produce one batch, and the time to authorize it
// with the ACLs of 5,000 users. docs/internals/bench/security.md contains the results.
func BenchmarkAuthorizedProduce(b *testing.B) {
	var acls []authz.ACL
	for i := range 5000 {
		user := wire.Principal{Type: "User", Name: "user-" + strconv.Itoa(i)}
		acls = append(acls,
			authz.ACL{Principal: user, Host: "*", Operation: api.OpWrite, Permission: authz.Allow,
				Type: api.ResourceTopic, Pattern: authz.PatternPrefix, Name: "tick"},
			authz.ACL{Principal: user, Host: "*", Operation: api.OpRead, Permission: authz.Allow,
				Type: api.ResourceTopic, Pattern: authz.PatternLiteral, Name: "tickets"})
	}
	matcher := authz.New(acls, nil)
	with := newBroker(b)
	with.topic("tickets", nil)
	with.Authorizer = func(a api.Action) bool {
		return matcher.Allowed(a.Principal, a.Address, a.Operation, a.Type, a.Name)
	}
	session := &wire.Session{Principal: wire.Principal{Type: "User", Name: "user-77"}}
	address := netip.MustParseAddr("192.0.2.1")
	b.Run("authorize", func(b *testing.B) {
		b.ReportAllocs()
		req := &wire.Request{Key: api.KeyProduce, Address: address, Session: session}
		for b.Loop() {
			if err := with.Authorize(req, api.WriteTopic, "tickets"); err != nil {
				b.Fatal(err)
			}
		}
	})
	values := make([]string, 100)
	for i := range values {
		values[i] = strings.Repeat("v", 100)
	}
	produce := produceRequestFor("tickets", -1, batch(b, compress.None, values...))
	produce.SetVersion(9)
	encoded := produce.AppendTo(nil)
	body := make([]byte, len(encoded))
	b.Run("produce", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			copy(body, encoded) // appending modifies the batch
			if _, err := with.Handle(b.Context(), &wire.Request{Key: api.KeyProduce, Version: 9,
				Body: body, Address: address, Session: session}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
