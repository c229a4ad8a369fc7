package authz

import (
	"net/netip"
	"slices"
)

// Matcher is the compiled form of a set of ACLs. It is immutable; all methods are safe for
// concurrent use and allocate no memory. The zero value and a nil Matcher deny everything.
type Matcher struct {
	supers     map[Principal]bool
	principals map[Principal]*rules
	everyone   *rules // ACLs of principal Everyone; nil: there are none
	acls       []ACL  // sorted, without duplicates
}

// rules contains one principal's ACLs by resource type.
type rules [resourceMax + 1]*patterns

// patterns contains one principal's ACLs for one resource type.
type patterns struct {
	wildcard []entry            // literal "*"
	literals map[string][]entry // other literal patterns
	prefixes map[string][]entry
	// lengths contains the distinct lengths in bytes of the keys of prefixes, in ascending order. For
	// each length, a check looks up one prefix of the resource's name.
	lengths []int
}

// entry contains the operations that the ACLs with one pattern and host allow and deny, including
// implied operations.
type entry struct {
	host        netip.Addr // without zone, unmapped; the zero value applies to every client
	allow, deny bits
}

// New returns a Matcher for a set of ACLs. An ACL that fails Check has no effect on decisions, nor
// has an ACL whose host is not an address. Method ACLs lists them nevertheless. New neither
// modifies nor keeps the slices.
func New(acls []ACL, supers []Principal) *Matcher {
	m := &Matcher{supers: map[Principal]bool{}, principals: map[Principal]*rules{}}
	for _, p := range supers {
		m.supers[p] = true
	}
	m.acls = slices.Clone(acls)
	slices.SortFunc(m.acls, Compare)
	m.acls = slices.Compact(m.acls)
	for i := range m.acls {
		m.add(&m.acls[i])
	}
	m.everyone = m.principals[Everyone]
	return m
}

// ACLs returns all ACLs in the order of Compare, without duplicates. The caller must not modify the
// slice.
func (m *Matcher) ACLs() []ACL {
	if m == nil {
		return nil
	}
	return m.acls
}

// Super reports whether the principal is a super user.
func (m *Matcher) Super(p Principal) bool { return m != nil && m.supers[p] }

func (m *Matcher) add(a *ACL) {
	host, ok := parseHost(a.Host)
	if !ok || a.Type < ResourceTopic || a.Type > resourceMax {
		return
	}
	granted := m.principals[a.Principal]
	if granted == nil {
		granted = &rules{}
		m.principals[a.Principal] = granted
	}
	if granted[a.Type] == nil {
		granted[a.Type] = &patterns{literals: map[string][]entry{}, prefixes: map[string][]entry{}}
	}
	p := granted[a.Type]
	switch {
	case a.Pattern == PatternLiteral && a.Name == Wildcard:
		p.wildcard = merge(p.wildcard, host, a)
	case a.Pattern == PatternLiteral:
		p.literals[a.Name] = merge(p.literals[a.Name], host, a)
	case a.Pattern == PatternPrefix:
		if index, found := slices.BinarySearch(p.lengths, len(a.Name)); !found {
			p.lengths = slices.Insert(p.lengths, index, len(a.Name))
		}
		p.prefixes[a.Name] = merge(p.prefixes[a.Name], host, a)
	}
}

// parseHost parses an ACL's host. It returns the zero address for Wildcard.
func parseHost(host string) (netip.Addr, bool) {
	if host == Wildcard {
		return netip.Addr{}, true
	}
	address, err := netip.ParseAddr(host)
	return Canonical(address), err == nil
}

// Canonical returns an address in the form that checks compare: an IPv4-mapped IPv6 address becomes
// IPv4, and the zone is removed.
func Canonical(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }

// merge adds an ACL to the entry for its host.
func merge(entries []entry, host netip.Addr, a *ACL) []entry {
	index := slices.IndexFunc(entries, func(e entry) bool { return e.host == host })
	if index < 0 {
		index = len(entries)
		entries = append(entries, entry{host: host})
	}
	switch a.Permission {
	case Deny:
		entries[index].deny |= expand(a.Operation)
	case Allow:
		entries[index].allow |= expand(a.Operation) | implied(a.Operation)
	}
	return entries
}

// expand returns all operations for OpAll, and otherwise only o.
func expand(o Operation) bits {
	if o == OpAll {
		return ^bits(0)&^(1<<OpRead-1) | OpAll.bit()
	}
	return o.bit()
}

// implied returns the operations that an Allow on o includes.
func implied(o Operation) bits {
	switch o {
	case OpRead, OpWrite, OpDelete, OpAlter:
		return OpDescribe.bit()
	case OpAlterConfigs:
		return OpDescribeConfigs.bit()
	}
	return 0
}

// Allowed reports whether a client may perform an operation on the named resource. Parameter host
// is the client's address as returned by Canonical.
func (m *Matcher) Allowed(p Principal, host netip.Addr, o Operation, kind ResourceType,
	name string) bool {
	if m == nil || kind < 0 || kind > resourceMax {
		return false
	}
	if m.supers[p] {
		return true
	}
	allowed, denied := m.everyone.match(host, o, kind, name)
	if denied || p == Everyone {
		return allowed && !denied
	}
	own, ownDenied := m.principals[p].match(host, o, kind, name)
	return (allowed || own) && !ownDenied
}

// match returns whether one principal's ACLs allow an operation, and whether they deny it.
func (r *rules) match(host netip.Addr, o Operation, kind ResourceType,
	name string) (allowed, denied bool) {
	if r == nil || r[kind] == nil {
		return false, false
	}
	p := r[kind]
	allow, deny := collect(p.wildcard, host)
	a, d := collect(p.literals[name], host)
	allow, deny = allow|a, deny|d
	for _, n := range p.lengths {
		if n > len(name) {
			break
		}
		a, d = collect(p.prefixes[name[:n]], host)
		allow, deny = allow|a, deny|d
	}
	return allow&o.bit() != 0, deny&o.bit() != 0
}

// collect returns the operations that the entries allow and deny for a client's address.
func collect(entries []entry, host netip.Addr) (allow, deny bits) {
	for i := range entries {
		if e := &entries[i]; !e.host.IsValid() || e.host == host {
			allow, deny = allow|e.allow, deny|e.deny
		}
	}
	return allow, deny
}
