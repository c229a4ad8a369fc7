package authz

import "strings"

// Filter selects ACLs, as in Kafka's AclBindingFilter. A nil field, or a field with the value for
// any, matches every ACL.
type Filter struct {
	Type       ResourceType
	Name       *string
	Pattern    PatternType
	Principal  *string // in the form of Principal.String
	Host       *string
	Operation  Operation
	Permission Permission
}

// Matches reports whether the filter selects an ACL. Unlike a check, it compares hosts as text and
// treats an operation as itself only, as in Kafka.
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

// Valid reports whether all numbers of the filter are ones that a filter may contain.
func (f *Filter) Valid() bool {
	return f.Type >= ResourceAny && f.Type <= resourceMax &&
		f.Pattern >= PatternAny && f.Pattern <= PatternPrefix &&
		f.Operation >= OpAny && f.Operation <= opMax &&
		f.Permission >= PermissionAny && f.Permission <= Allow
}
