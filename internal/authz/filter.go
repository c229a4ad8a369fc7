package authz

import "strings"

// Filter selects ACLs, as in Kafka's AclBindingFilter. A nil field matches every ACL; so does a
// field with the value "any".
type Filter struct {
	Type       ResourceType
	Name       *string
	Pattern    PatternType
	Principal  *string // in the format of Principal.String
	Host       *string
	Operation  Operation
	Permission Permission
}

// Matches reports whether the filter selects an ACL. Unlike Matcher.Allowed, it compares hosts as
// text and no operation implies another, as in Kafka.
func (f *Filter) Matches(a *ACL) bool {
	return f.matchesResource(a) &&
		(f.Principal == nil || *f.Principal == a.Principal.String()) &&
		(f.Host == nil || *f.Host == a.Host) &&
		(f.Operation == OpAny || f.Operation == a.Operation) &&
		(f.Permission == PermissionAny || f.Permission == a.Permission)
}

// matchesResource implements Kafka's ResourcePatternFilter. PatternMatch selects every pattern that
// applies to the resource with the filter's name.
func (f *Filter) matchesResource(a *ACL) bool {
	if f.Type != ResourceAny && f.Type != a.Type {
		return false
	}
	if f.Pattern != PatternAny && f.Pattern != PatternMatch && f.Pattern != a.Pattern {
		return false
	}
	switch {
	case f.Name == nil:
		return true
	case f.Pattern != PatternMatch:
		return *f.Name == a.Name
	case a.Pattern == PatternPrefix:
		return strings.HasPrefix(*f.Name, a.Name)
	default:
		return *f.Name == a.Name || a.Name == Wildcard
	}
}

// Valid reports whether all numeric fields of the filter have values that are allowed in filters.
func (f *Filter) Valid() bool {
	return f.Type >= ResourceAny && f.Type <= resourceMax &&
		f.Pattern >= PatternAny && f.Pattern <= PatternPrefix &&
		f.Operation >= OpAny && f.Operation <= opMax &&
		f.Permission >= PermissionAny && f.Permission <= Allow
}
