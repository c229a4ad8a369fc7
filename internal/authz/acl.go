package authz

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Operation is an operation on a resource. Its numbers are those in Kafka's AclOperation.
type Operation int8

// The operations. OpAny occurs only in filters, and OpAll in ACLs and filters.
const (
	OpAny             Operation = 1
	OpAll             Operation = 2
	OpRead            Operation = 3
	OpWrite           Operation = 4
	OpCreate          Operation = 5
	OpDelete          Operation = 6
	OpAlter           Operation = 7
	OpDescribe        Operation = 8
	OpClusterAction   Operation = 9
	OpDescribeConfigs Operation = 10
	OpAlterConfigs    Operation = 11
	OpIdempotentWrite Operation = 12
	OpCreateTokens    Operation = 13
	OpDescribeTokens  Operation = 14
	OpTwoPhaseCommit  Operation = 15
	opMax                       = OpTwoPhaseCommit
)

// ResourceType is a kind of resource. Its numbers are those in Kafka's ResourceType.
type ResourceType int8

// The types of resources. ResourceAny occurs only in filters.
const (
	ResourceAny             ResourceType = 1
	ResourceTopic           ResourceType = 2
	ResourceGroup           ResourceType = 3
	ResourceCluster         ResourceType = 4
	ResourceTransactionalID ResourceType = 5
	ResourceToken           ResourceType = 6
	ResourceUser            ResourceType = 7
	resourceMax                          = ResourceUser
)

// PatternType determines which resources an ACL's name matches. Its numbers are those in Kafka's
// PatternType.
type PatternType int8

// The types of patterns. PatternAny and PatternMatch occur only in filters.
const (
	PatternAny     PatternType = 1
	PatternMatch   PatternType = 2
	PatternLiteral PatternType = 3
	PatternPrefix  PatternType = 4
)

// Permission is the effect of an ACL. Its numbers are those in Kafka's AclPermissionType.
type Permission int8

// The permissions. PermissionAny occurs only in filters.
const (
	PermissionAny Permission = 1
	Deny          Permission = 2
	Allow         Permission = 3
)

const (
	// Wildcard is the name in a literal pattern that matches every resource. It is also the host in an
	// ACL that applies to every client.
	Wildcard = "*"
	// ClusterName is the name of the only resource of type ResourceCluster, as in Kafka.
	ClusterName = "kafka-cluster"
)

// Principal is the identity of a client. Type is "User" for users.
type Principal struct {
	Type string
	Name string
}

// Everyone is the principal in ACLs that apply to every principal.
var Everyone = Principal{Type: "User", Name: Wildcard}

// String returns the principal in the format of Kafka's ACLs, such as "User:alice".
func (p Principal) String() string { return p.Type + ":" + p.Name }

// ParsePrincipal parses the format of String. A name may contain colons.
func ParsePrincipal(text string) (Principal, error) {
	kind, name, ok := strings.Cut(text, ":")
	if !ok || kind == "" {
		return Principal{}, fmt.Errorf("parse principal %q: expected type:name, such as User:alice",
			text)
	}
	return Principal{Type: kind, Name: name}, nil
}

// ACL is one rule, as in Kafka's AclBinding.
type ACL struct {
	Principal  Principal
	Host       string // Wildcard or an IP address; an ACL with any other text matches no client
	Operation  Operation
	Permission Permission
	Type       ResourceType
	Pattern    PatternType
	Name       string // name or name prefix of the resources
}

// Check returns an error if Kafka would reject the ACL.
func (a *ACL) Check() error {
	switch {
	case a.Type < ResourceTopic || a.Type > resourceMax:
		return fmt.Errorf("resource type %d is not one of an ACL", a.Type)
	case a.Pattern != PatternLiteral && a.Pattern != PatternPrefix:
		return fmt.Errorf("pattern type %d is neither literal nor prefixed", a.Pattern)
	case a.Permission != Allow && a.Permission != Deny:
		return fmt.Errorf("permission type %d is neither allow nor deny", a.Permission)
	case a.Operation != OpAll && operationsOf[a.Type]&a.Operation.bit() == 0:
		return fmt.Errorf("operation %d does not apply to resource type %d", a.Operation, a.Type)
	case a.Name == "":
		return fmt.Errorf("the name of the resource is empty")
	case a.Type == ResourceCluster && a.Name != ClusterName:
		return fmt.Errorf("the only resource of type cluster is %q, got %q", ClusterName, a.Name)
	case a.Host != Wildcard && !isAddress(a.Host):
		return fmt.Errorf("host %q is neither an IP address nor *", a.Host)
	}
	return nil
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// Compare orders ACLs by resource, then by principal, host, operation and permission.
func Compare(a, b ACL) int {
	return cmp.Or(
		cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Pattern, b.Pattern),
		cmp.Compare(a.Principal.Type, b.Principal.Type),
		cmp.Compare(a.Principal.Name, b.Principal.Name), cmp.Compare(a.Host, b.Host),
		cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Permission, b.Permission),
	)
}

// bits is a set of operations: bit n represents the operation with number n.
type bits uint16

func (o Operation) bit() bits {
	if o < 0 || o > opMax {
		return 0
	}
	return 1 << o
}

// setOf returns a set of operations.
func setOf(operations ...Operation) (set bits) {
	for _, o := range operations {
		set |= o.bit()
	}
	return set
}

// operationsOf contains the operations that Kafka defines for each resource type
// (AclEntry.supportedOperations).
var operationsOf = [resourceMax + 1]bits{
	ResourceTopic: setOf(OpRead, OpWrite, OpCreate, OpDelete, OpAlter, OpDescribe,
		OpDescribeConfigs, OpAlterConfigs),
	ResourceGroup: setOf(OpRead, OpDelete, OpDescribe, OpDescribeConfigs, OpAlterConfigs),
	ResourceCluster: setOf(OpCreate, OpAlter, OpDescribe, OpClusterAction, OpDescribeConfigs,
		OpAlterConfigs, OpIdempotentWrite),
	ResourceTransactionalID: setOf(OpWrite, OpDescribe, OpTwoPhaseCommit),
	ResourceToken:           setOf(OpDescribe),
	ResourceUser:            setOf(OpCreateTokens, OpDescribeTokens),
}
