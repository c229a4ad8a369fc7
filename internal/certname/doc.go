// Package certname derives a principal's name from the subject of a client certificate. It writes a
// distinguished name in the same way as Java's X500Principal.getName (RFC 2253), so that a Kafka
// cluster's ACLs and mapping rules (KIP-371) apply unchanged. The package is pure.
package certname
