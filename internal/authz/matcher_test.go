package authz

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"
)

var (
	alice  = Principal{"User", "alice"}
	client = netip.MustParseAddr("10.0.0.1")
)

func allowTopic(pattern PatternType, name string, o Operation) ACL {
	return ACL{Principal: alice, Host: Wildcard, Operation: o, Permission: Allow,
		Type: ResourceTopic, Pattern: pattern, Name: name}
}

func denyTopic(pattern PatternType, name string, o Operation) ACL {
	a := allowTopic(pattern, name, o)
	a.Permission = Deny
	return a
}

func TestDenyOverridesMoreSpecificAllow(t *testing.T) {
	m := New([]ACL{allowTopic(PatternLiteral, "orders-eu", OpRead),
		denyTopic(PatternPrefix, "orders-", OpRead)}, nil)
	if m.Allowed(alice, client, OpRead, ResourceTopic, "orders-eu") {
		t.Error("a prefixed Deny did not override a literal Allow")
	}
	if !m.Allowed(alice, client, OpDescribe, ResourceTopic, "orders-eu") {
		t.Error("a Deny on Read has denied Describe")
	}
}

func TestSuperUserOverridesDeny(t *testing.T) {
	m := New([]ACL{denyTopic(PatternLiteral, Wildcard, OpAll)}, []Principal{alice})
	if !m.Allowed(alice, client, OpRead, ResourceTopic, "orders") ||
		!m.AllowedAny(alice, client, OpWrite, ResourceTopic) {
		t.Error("a Deny applied to a super user")
	}
}

// TestPrefixedAsteriskIsAName checks that only the literal name "*" is a wildcard.
func TestPrefixedAsteriskIsAName(t *testing.T) {
	m := New([]ACL{allowTopic(PatternPrefix, "*", OpRead)}, nil)
	if m.Allowed(alice, client, OpRead, ResourceTopic, "orders") {
		t.Error("a prefixed * matched every topic")
	}
	if !m.Allowed(alice, client, OpRead, ResourceTopic, "*orders") {
		t.Error("a prefixed * did not match a name that begins with *")
	}
}

func TestIPv4InIPv6MatchesIPv4Hosts(t *testing.T) {
	a := allowTopic(PatternLiteral, "orders", OpRead)
	a.Host = "10.0.0.1"
	mapped := a
	mapped.Host, mapped.Name = "::ffff:10.0.0.1", "bills"
	m := New([]ACL{a, mapped}, nil)
	for _, address := range []string{"10.0.0.1", "::ffff:10.0.0.1"} {
		host := Canonical(netip.MustParseAddr(address))
		for _, topic := range []string{"orders", "bills"} {
			if !m.Allowed(alice, host, OpRead, ResourceTopic, topic) {
				t.Errorf("client %s may not read %s", address, topic)
			}
		}
	}
	if m.Allowed(alice, netip.MustParseAddr("10.0.0.2"), OpRead, ResourceTopic, "orders") {
		t.Error("another address was allowed")
	}
}

func TestAnyTopicObeysPrefixedDeny(t *testing.T) {
	allow, deny := allowTopic(PatternPrefix, "team-a", OpWrite),
		denyTopic(PatternPrefix, "team-", OpWrite)
	if m := New([]ACL{allow}, nil); !m.AllowedAny(alice, client, OpWrite, ResourceTopic) {
		t.Error("a prefixed Allow does not count")
	}
	if m := New([]ACL{allow, deny}, nil); m.AllowedAny(alice, client, OpWrite, ResourceTopic) {
		t.Error("an Allow counts that a prefixed Deny covers")
	}
	longer := denyTopic(PatternPrefix, "team-a-x", OpWrite)
	if m := New([]ACL{allow, longer}, nil); !m.AllowedAny(alice, client, OpWrite, ResourceTopic) {
		t.Error("a Deny on a part of the prefix has covered the Allow")
	}
}

func TestNilMatcherDenies(t *testing.T) {
	var m *Matcher
	if m.Allowed(alice, client, OpRead, ResourceTopic, "t") || m.Super(alice) ||
		m.AllowedAny(alice, client, OpWrite, ResourceTopic) || m.ACLs() != nil {
		t.Error("a nil Matcher allowed an operation")
	}
}

func TestUnknownNumbersAreDenied(t *testing.T) {
	m := New([]ACL{allowTopic(PatternLiteral, Wildcard, OpAll)}, nil)
	for _, o := range []Operation{-128, -1, 0, 16, 127} {
		if m.Allowed(alice, client, o, ResourceTopic, "t") {
			t.Errorf("operation %d was allowed", o)
		}
	}
	for _, kind := range []ResourceType{-128, -1, 0, 8, 127} {
		if m.Allowed(alice, client, OpRead, kind, "t") {
			t.Errorf("resource type %d was allowed", kind)
		}
	}
}

func TestFiltersSelectAsInKafka(t *testing.T) {
	name, other, principal := "orders-eu", "bills", "User:alice"
	acls := []ACL{allowTopic(PatternLiteral, "orders-eu", OpRead),
		allowTopic(PatternPrefix, "orders-", OpRead),
		allowTopic(PatternLiteral, Wildcard, OpRead), allowTopic(PatternLiteral, "bills", OpRead)}
	all := Filter{Type: ResourceAny, Pattern: PatternAny, Operation: OpAny,
		Permission: PermissionAny}
	for _, c := range []struct {
		change func(*Filter)
		want   []int
	}{
		{func(*Filter) {}, []int{0, 1, 2, 3}},
		{func(f *Filter) { f.Name = &name }, []int{0}},
		{func(f *Filter) { f.Name, f.Pattern = &name, PatternMatch }, []int{0, 1, 2}},
		{func(f *Filter) { f.Pattern = PatternPrefix }, []int{1}},
		{func(f *Filter) { f.Name, f.Pattern = &other, PatternLiteral }, []int{3}},
		{func(f *Filter) { f.Operation = OpDescribe }, nil},
		{func(f *Filter) { f.Principal = &principal }, []int{0, 1, 2, 3}},
		{func(f *Filter) { f.Principal = &other }, nil},
		{func(f *Filter) { f.Host = &other }, nil},
		{func(f *Filter) { f.Permission = Deny }, nil},
		{func(f *Filter) { f.Type = ResourceGroup }, nil},
	} {
		f := all
		c.change(&f)
		var got []int
		for i := range acls {
			if f.Matches(&acls[i]) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) || !f.Valid() {
			t.Errorf("filter %+v selects %v, want %v", f, got, c.want)
		}
	}
}

func TestInvalidACLsAreReported(t *testing.T) {
	valid := allowTopic(PatternLiteral, "orders", OpRead)
	if err := valid.Check(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*ACL){
		func(a *ACL) { a.Type = ResourceAny }, func(a *ACL) { a.Pattern = PatternMatch },
		func(a *ACL) { a.Operation = OpAny }, func(a *ACL) { a.Operation = OpClusterAction },
		func(a *ACL) { a.Permission = PermissionAny }, func(a *ACL) { a.Name = "" },
		func(a *ACL) { a.Type = ResourceCluster; a.Operation = OpAlter },
		func(a *ACL) { a.Host = "example.com" }, func(a *ACL) { a.Host = "10.0.0.0/8" },
	} {
		a := valid
		change(&a)
		if a.Check() == nil {
			t.Errorf("%v was accepted", &a)
		}
	}
}

// fleet returns a Matcher with the ACLs of many users. User 7 has literal and prefixed ACLs.
func fleet(users int) *Matcher {
	acls := make([]ACL, 0, 4*users)
	for i := range users {
		principal := Principal{"User", "user-" + strconv.Itoa(i)}
		for _, pattern := range []PatternType{PatternLiteral, PatternPrefix} {
			for _, o := range []Operation{OpRead, OpWrite} {
				acls = append(acls, ACL{Principal: principal, Host: Wildcard, Operation: o,
					Permission: Allow, Type: ResourceTopic, Pattern: pattern,
					Name: "team-" + strconv.Itoa(i)})
			}
		}
	}
	return New(acls, nil)
}

func TestChecksDoNotAllocate(t *testing.T) {
	m, principal := fleet(5000), Principal{"User", "user-7"}
	if n := testing.AllocsPerRun(100, func() {
		if !m.Allowed(principal, client, OpWrite, ResourceTopic, "team-7-orders") {
			t.Error("denied")
		}
	}); n != 0 {
		t.Errorf("a check allocates %v times", n)
	}
}

func BenchmarkAllowed(b *testing.B) {
	m, principal := fleet(5000), Principal{"User", "user-7"}
	b.ReportAllocs()
	for b.Loop() {
		if !m.Allowed(principal, client, OpWrite, ResourceTopic, "team-7-orders") {
			b.Fatal("denied")
		}
	}
}

func BenchmarkNew5000Users(b *testing.B) {
	for b.Loop() {
		fleet(5000)
	}
}
