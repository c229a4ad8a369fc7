package authz

import "strconv"

// The names in Kafka's enums, by number.
var (
	operationNames = [...]string{1: "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER",
		"DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
		"CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}
	typeNames = [...]string{1: "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID",
		"DELEGATION_TOKEN", "USER"}
	patternNames    = [...]string{1: "ANY", "MATCH", "LITERAL", "PREFIXED"}
	permissionNames = [...]string{1: "ANY", "DENY", "ALLOW"}
)

// String returns the operation's name in Kafka's AclOperation.
func (o Operation) String() string { return named(operationNames[:], int(o)) }

// String returns the type's name in Kafka's ResourceType.
func (t ResourceType) String() string { return named(typeNames[:], int(t)) }

// String returns the type's name in Kafka's PatternType.
func (t PatternType) String() string { return named(patternNames[:], int(t)) }

// String returns the permission's name in Kafka's AclPermissionType.
func (p Permission) String() string { return named(permissionNames[:], int(p)) }

func named(names []string, n int) string {
	if n > 0 && n < len(names) {
		return names[n]
	}
	return "UNKNOWN(" + strconv.Itoa(n) + ")"
}

// String returns the ACL as text, for logs.
func (a *ACL) String() string {
	return a.Permission.String() + " " + a.Operation.String() + " on " + a.Type.String() + ":" +
		a.Pattern.String() + ":" + a.Name + " to " + a.Principal.String() + " from " + a.Host
}
