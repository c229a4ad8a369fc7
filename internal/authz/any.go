package authz

import "net/netip"

// hardcoded is the topic name that Kafka's authorizeByResourceType checks first. That check allows
// a super user everything, whatever the ACLs deny.
const hardcoded = "hardcode"

// AllowedAny reports whether a client may perform an operation on at least one resource of a type
// (KIP-679). Kafka checks this for Write on topics when an idempotent producer requests a producer
// id. The operation must not be one that another operation implies.
//
// The rules are the same as in Kafka's Authorizer.authorizeByResourceType. A wildcard Deny denies
// the operation. Otherwise a wildcard Allow allows it, even if prefixed Denies together cover every
// existing resource. Any other Allow allows it unless a Deny covers all resources that match the
// Allow's pattern.
func (m *Matcher) AllowedAny(p Principal, host netip.Addr, o Operation, kind ResourceType) bool {
	if m == nil || kind < 0 || kind > resourceMax {
		return false
	}
	if m.Allowed(p, host, o, kind, hardcoded) {
		return true
	}
	q := anyQuery{host: host, operation: o.bit(),
		sets: [2]*patterns{m.everyone.of(kind), m.principals[p].of(kind)}}
	if allow, deny := q.wildcard(); allow || deny {
		return !deny
	}
	for _, set := range q.sets {
		if set != nil && (q.literal(set) || q.prefixed(set)) {
			return true
		}
	}
	return false
}

// anyQuery is one call of AllowedAny. The elements of its sets are the ACLs of Everyone and of the
// principal; an element may be nil.
type anyQuery struct {
	host      netip.Addr
	operation bits
	sets      [2]*patterns
}

// wildcard reports whether wildcard ACLs allow the operation, and whether they deny it.
func (q *anyQuery) wildcard() (allowed, denied bool) {
	for _, set := range q.sets {
		if set != nil {
			allow, deny := collect(set.wildcard, q.host)
			allowed, denied = allowed || allow&q.operation != 0, denied || deny&q.operation != 0
		}
	}
	return allowed, denied
}

// literal reports whether a literal Allow in set names a resource that no Deny covers.
func (q *anyQuery) literal(set *patterns) bool {
	for name, entries := range set.literals {
		allow, _ := collect(entries, q.host)
		if allow&q.operation != 0 && !q.deniesName(name) && !q.deniesPrefixes(name) {
			return true
		}
	}
	return false
}

// prefixed reports whether a prefixed Allow in set has a prefix that no Deny covers.
func (q *anyQuery) prefixed(set *patterns) bool {
	for prefix, entries := range set.prefixes {
		if allow, _ := collect(entries, q.host); allow&q.operation != 0 &&
			!q.deniesPrefixes(prefix) {
			return true
		}
	}
	return false
}

// deniesName reports whether a literal Deny applies to a name.
func (q *anyQuery) deniesName(name string) bool {
	for _, set := range q.sets {
		if set != nil {
			if _, deny := collect(set.literals[name], q.host); deny&q.operation != 0 {
				return true
			}
		}
	}
	return false
}

// deniesPrefixes reports whether a prefixed Deny applies to all names that begin with name.
func (q *anyQuery) deniesPrefixes(name string) bool {
	for _, set := range q.sets {
		if set == nil {
			continue
		}
		for _, n := range set.lengths {
			if n > len(name) {
				break
			}
			if _, deny := collect(set.prefixes[name[:n]], q.host); deny&q.operation != 0 {
				return true
			}
		}
	}
	return false
}

// of returns the ACLs for a resource type, or nil if there are none.
func (r *rules) of(kind ResourceType) *patterns {
	if r == nil {
		return nil
	}
	return r[kind]
}
