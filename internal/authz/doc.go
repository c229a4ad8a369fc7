// Package authz decides whether a principal may perform an operation on a resource. New builds a
// Matcher from the ACLs of all users. A Matcher is immutable, and a check allocates no memory,
// because each produced and fetched partition is one check.
//
// The rules are the same as in Kafka's StandardAuthorizer:
//   - A super user may do everything, whatever the ACLs deny.
//   - Otherwise, one matching Deny is enough to deny an operation, however specific the matching
//     Allows are. Without a matching ACL, the operation is denied.
//   - A literal pattern matches the resource with that name; the literal name "*" matches every
//     resource of the type. A prefixed pattern matches all names that begin with its name. A
//     prefixed pattern "*" matches names that begin with an asterisk.
//   - Allow on Read, Write, Delete or Alter includes Describe, and Allow on AlterConfigs includes
//     DescribeConfigs. A Deny includes no other operation. Operation All includes every operation.
//   - The host of an ACL is "*" or one IP address.
//
// One difference: StandardAuthorizer compares hosts as text. This package compares addresses, so
// that an ACL for ::1 applies to the client 0:0:0:0:0:0:0:1.
package authz
