package authz

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

var impliesDescribe = []Operation{OpRead, OpWrite, OpDelete, OpAlter}

// reference decides by a loop over all ACLs, following the documentation of Kafka's
// StandardAuthorizer.
func reference(acls []ACL, supers []Principal, p Principal, host string, o Operation,
	kind ResourceType, name string) bool {
	for _, s := range supers {
		if s == p {
			return true
		}
	}
	allowed := false
	for _, a := range acls {
		sameName := a.Pattern == PatternLiteral && (a.Name == "*" || a.Name == name) ||
			a.Pattern == PatternPrefix && strings.HasPrefix(name, a.Name)
		if a.Type != kind || !sameName || a.Principal.String() != p.String() &&
			a.Principal.String() != "User:*" || a.Host != "*" && a.Host != host {
			continue
		}
		if a.Permission == Deny {
			if a.Operation == o || a.Operation == OpAll {
				return false
			}
			continue
		}
		switch {
		case a.Operation == o, a.Operation == OpAll:
			allowed = true
		case o == OpDescribe:
			allowed = allowed || slices.Contains(impliesDescribe, a.Operation)
		case o == OpDescribeConfigs:
			allowed = allowed || a.Operation == OpAlterConfigs
		}
	}
	return allowed
}

var (
	modelNames      = []string{"*", "a", "ab", "abc", "abd", "b", "ba", "*a", "hardcode", "h"}
	modelHosts      = []string{"10.0.0.1", "10.0.0.2", "fd00:0:0:0:0:0:0:1"}
	modelPrincipals = []Principal{{"User", "alice"}, {"User", "bob"}, {"Group", "alice"},
		{"User", "*"}}
	modelOperations = []Operation{OpRead, OpWrite, OpDelete, OpAlter, OpDescribe,
		OpDescribeConfigs, OpAlterConfigs, OpCreate}
	modelTypes = []ResourceType{ResourceTopic, ResourceGroup}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func randomACL(r *rand.Rand) ACL {
	a := ACL{Principal: pick(r, modelPrincipals), Host: "*", Operation: pick(r, modelOperations),
		Permission: Allow, Type: pick(r, modelTypes), Pattern: PatternLiteral,
		Name: pick(r, modelNames)}
	if r.IntN(3) == 0 {
		a.Host = pick(r, modelHosts)
	}
	if r.IntN(6) == 0 {
		a.Operation = OpAll
	}
	if r.IntN(3) == 0 {
		a.Permission = Deny
	}
	if r.IntN(2) == 0 {
		a.Pattern = PatternPrefix
	}
	return a
}

func randomACLs(r *rand.Rand) []ACL {
	acls := make([]ACL, r.IntN(12))
	for i := range acls {
		acls[i] = randomACL(r)
	}
	return acls
}

func TestMatcherAgreesWithTheReference(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.New(t), 1))
	for range 3000 {
		acls := randomACLs(r)
		var supers []Principal
		if r.IntN(4) == 0 {
			supers = append(supers, pick(r, modelPrincipals))
		}
		m := New(acls, supers)
		for range 40 {
			p, host, o := pick(r, modelPrincipals), pick(r, modelHosts), pick(r, modelOperations)
			kind, name := pick(r, modelTypes), pick(r, modelNames)
			address := netip.MustParseAddr(host)
			want := reference(acls, supers, p, host, o, kind, name)
			if got := m.Allowed(p, address, o, kind, name); got != want {
				t.Fatalf("%v from %s: %v on %v %q: got %t, want %t; ACLs: %s", p, host, o, kind,
					name, got, want, printed(acls))
			}
			if got := m.Explain(p, address, o, kind, name); got.Allowed != want {
				t.Fatalf("Explain: got %v, want %t; ACLs: %s", got, want, printed(acls))
			}
		}
	}
}

// referenceAny implements Kafka's Authorizer.authorizeByResourceType step by step.
func referenceAny(acls []ACL, p Principal, host string, o Operation, kind ResourceType) bool {
	if reference(acls, nil, p, host, o, kind, "hardcode") {
		return true
	}
	sets := map[Permission]map[PatternType]map[string]bool{}
	for _, permission := range []Permission{Allow, Deny} {
		sets[permission] = map[PatternType]map[string]bool{PatternLiteral: {}, PatternPrefix: {}}
	}
	for _, a := range acls {
		if a.Type == kind && (a.Host == "*" || a.Host == host) &&
			(a.Principal == p || a.Principal == Everyone) &&
			(a.Operation == o || a.Operation == OpAll) {
			sets[a.Permission][a.Pattern][a.Name] = true
		}
	}
	if sets[Deny][PatternLiteral]["*"] {
		return false
	}
	if sets[Allow][PatternLiteral]["*"] {
		return true
	}
	for pattern, names := range sets[Allow] {
		for name := range names {
			covered := pattern == PatternLiteral && sets[Deny][PatternLiteral][name]
			for n := 1; n <= len(name); n++ {
				covered = covered || sets[Deny][PatternPrefix][name[:n]]
			}
			if !covered {
				return true
			}
		}
	}
	return false
}

func TestAllowedAnyAgreesWithTheReference(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.New(t), 1))
	for range 30_000 {
		acls := randomACLs(r)
		m := New(acls, nil)
		p, host := pick(r, modelPrincipals), pick(r, modelHosts)
		want := referenceAny(acls, p, host, OpWrite, ResourceTopic)
		if got := m.AllowedAny(p, netip.MustParseAddr(host), OpWrite,
			ResourceTopic); got != want {
			t.Fatalf("%v from %s: got %t, want %t; ACLs: %s", p, host, got, want, printed(acls))
		}
	}
}

func printed(acls []ACL) string {
	var lines []string
	for i := range acls {
		lines = append(lines, acls[i].String())
	}
	return fmt.Sprintf("\n%s", strings.Join(lines, "\n"))
}
