package authz

import (
	"net/netip"
	"strings"
)

// Rule is the reason for an authorization decision, for the audit log.
type Rule struct {
	Allowed bool
	Super   bool // the principal is a super user
	ACL     *ACL // the ACL that decided; nil: no ACL matched, or Super
}

// Explain returns the same decision as Allowed, with its reason. It examines every ACL, so callers
// use it only for denied requests, and only for few of them.
func (m *Matcher) Explain(p Principal, host netip.Addr, o Operation, kind ResourceType,
	name string) Rule {
	if m == nil {
		return Rule{}
	}
	if m.supers[p] {
		return Rule{Allowed: true, Super: true}
	}
	var rule Rule
	for i := range m.acls {
		a := &m.acls[i]
		if a.Type != kind || a.Principal != p && a.Principal != Everyone ||
			!a.appliesTo(host) || !a.appliesToName(name) {
			continue
		}
		switch {
		case a.Permission == Deny && expand(a.Operation)&o.bit() != 0:
			return Rule{ACL: a}
		case a.Permission == Allow && rule.ACL == nil &&
			(expand(a.Operation)|implied(a.Operation))&o.bit() != 0:
			rule = Rule{Allowed: true, ACL: a}
		}
	}
	return rule
}

func (a *ACL) appliesTo(host netip.Addr) bool {
	address, ok := parseHost(a.Host)
	return ok && (!address.IsValid() || address == host)
}

func (a *ACL) appliesToName(name string) bool {
	switch a.Pattern {
	case PatternPrefix:
		return strings.HasPrefix(name, a.Name)
	case PatternLiteral:
		return a.Name == Wildcard || a.Name == name
	}
	return false
}

// String returns the reason in the words of Kafka's audit log.
func (r Rule) String() string {
	switch {
	case r.Super:
		return "SuperUser"
	case r.ACL == nil:
		return "DefaultDeny"
	}
	return r.ACL.String()
}
