package handler

import (
	"net/netip"
	"testing"

	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/wire"
)

// TestAuthorizationAllocatesNothing authorizes the operations of produce and fetch, with and
// without ACLs: both run for each partition of a request.
func TestAuthorizationAllocatesNothing(t *testing.T) {
	alice := wire.Principal{Type: "User", Name: "alice"}
	matcher := authz.New([]authz.ACL{
		{Principal: alice, Host: "*", Operation: OpWrite, Permission: authz.Allow,
			Type: ResourceTopic, Pattern: authz.PatternPrefix, Name: "orders-"},
		{Principal: alice, Host: "*", Operation: OpRead, Permission: authz.Allow,
			Type: ResourceTopic, Pattern: authz.PatternLiteral, Name: "orders-1"},
	}, nil)
	req := &wire.Request{Key: keyProduce, Address: netip.MustParseAddr("192.0.2.1"),
		Session: &wire.Session{Principal: alice}}
	for name, authorize := range map[string]func(Action) bool{
		"off": func(Action) bool { return true },
		"on": func(a Action) bool {
			return matcher.Allowed(a.Principal, a.Address, a.Operation, a.Type, a.Name)
		},
	} {
		h := New(Options{Authorize: authorize})
		for key, required := range map[int16]RequiredOperation{
			keyProduce: writeTopic, keyFetch: readTopic,
		} {
			req.Key = key
			if allocs := testing.AllocsPerRun(100, func() {
				if err := h.authorize(req, required, "orders-1"); err != nil {
					t.Fatal(err)
				}
			}); allocs != 0 {
				t.Errorf("authorization %s, %s: %v allocations", name, APIName(key), allocs)
			}
		}
	}
}
